"""Which workers there are, how to reach them, and which of their targets may be written.

A target is destructive: it is named by what stays with the disk (serial, WWN, bus path, a stable
link) and checked by size; a letter such as /dev/sdb is another disk after the next boot.
"""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema

from orchestrator.cachehosts import ClearCache
from orchestrator.cluster import Cluster
from orchestrator.errors import InputError, Problem
from orchestrator.problems import nearest, or_text, problems_of
from orchestrator.secrets import SecretRef
from orchestrator.shapes import Name
from orchestrator.surroundings import StatedCache, StatedLimit
from orchestrator.units import Duration, PositiveDuration, Size

DEFAULT_WORK_DIR: Final = "/var/tmp/hcio"  # noqa: S108 - a worker's own folder, made mode 0700
STABLE_LINKS: Final = ("/dev/disk/by-id/", "/dev/disk/by-path/", "/dev/mapper/")

#: Leftovers that may be written over if the inventory says so for that target; `mounted` lets a
#: mounted one be read. What is in use is never written, whatever stands here.
Allowance = Literal["filesystem", "partition-table", "lvm", "raid", "swap", "mounted"]
#: A path on a worker: absolute, no line breaks.
WorkerPath = Annotated[str, StringConstraints(pattern=r"^/[^\n\r]*$")]
Hctl = Annotated[str, StringConstraints(pattern=r"^\d+:\d+:\d+:\d+$")]


class _Model(BaseModel):
    # An error must not repeat its input: it may be a password in the wrong place.
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True
    )


class BlockTarget(_Model):
    """A whole block device, found by what stays with it and checked by everything given."""

    serial: str | None = None
    wwn: str | None = None
    hctl: Annotated[Hctl | None, Field(description="host:channel:target:lun")] = None
    path: WorkerPath | None = None
    size: Size | None = None
    label: Name | None = None
    allow: tuple[Allowance, ...] = ()

    @model_validator(mode="after")
    def _identified(self) -> Self:
        if self.serial or self.wwn or self.hctl:
            return self
        if self.path is None:
            raise ValueError("a device needs serial, wwn or hctl (or file: for a file)")
        if self.size is None and not self.path.startswith(STABLE_LINKS):
            raise ValueError(
                f"{self.path} alone may be another disk after a reboot; add its serial "
                "(lsblk -d -o NAME,SERIAL,SIZE), or at least its size"
            )
        return self

    @property
    def kind(self) -> Literal["block"]:
        return "block"


class FileTarget(_Model):
    """A file that hcio makes, writes and removes."""

    file: WorkerPath
    size: Size
    label: Name | None = None

    @model_validator(mode="after")
    def _no_device(self) -> Self:
        if self.file.startswith(("/dev/", "/proc/", "/sys/")) or ".." in self.file.split("/"):
            raise ValueError("a device is not a file target; name it by serial, wwn or hctl")
        return self

    @property
    def kind(self) -> Literal["file"]:
        return "file"


Target = BlockTarget | FileTarget


class Jump(_Model):
    """A host on the way to a worker."""

    host: str
    port: Annotated[int | None, Field(ge=1, le=65535)] = None
    user: str | None = None
    key: str | None = None
    passphrase: SecretRef | None = None
    password: SecretRef | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        """`user@host:port` is short for the three."""
        if not isinstance(data, str):
            return data
        match = re.fullmatch(r"(?:([^@]+)@)?(\[[^\]]+\]|[^:@\[\]]+)(?::(\d+))?", data)
        if match is None:
            raise ValueError("write a jump host like user@host:port")
        found = {"user": match[1], "host": match[2].strip("[]"), "port": match[3]}
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return or_text(handler(core))


class WorkerDefaults(_Model):
    """What workers have in common; a worker's own value wins, its targets replace these."""

    port: Annotated[int | None, Field(ge=1, le=65535)] = None
    user: str | None = None
    key: Annotated[str | None, Field(description="private key file on this machine")] = None
    passphrase: Annotated[SecretRef | None, Field(description="of the key")] = None
    password: SecretRef | None = None
    jump: Annotated[
        Jump | tuple[Jump, ...] | None, Field(description="one, or several in the order travelled")
    ] = None
    sudo: Annotated[bool | None, Field(description="run fio through sudo -n")] = None
    targets: Annotated[tuple[Target, ...] | None, Field(min_length=1)] = None
    group: Name | None = None
    host_label: Annotated[str | None, Field(description="the host that the worker is on")] = None
    datastore: str | None = None
    work_dir: WorkerPath | None = None
    fio: Annotated[str | None, Field(description="fio's path on the worker")] = None


class WorkerEntry(WorkerDefaults):
    """One line of the inventory: a worker, or a range of them (`w[01-16]`)."""

    name: str
    host: Annotated[str | None, Field(description="address; the name where not given")] = None


class Ssh(_Model):
    """How connections are made, for all workers."""

    known_hosts: Annotated[str, Field(description="file of host keys")] = "~/.ssh/known_hosts"
    policy: Annotated[
        Literal["strict", "accept-new"], Field(description="what to do with an unknown host key")
    ] = "strict"
    config: Annotated[str | None, Field(description="ssh config; null: none is read")] = (
        "~/.ssh/config"
    )
    agent: bool = True
    connect_timeout: PositiveDuration = 15.0
    greeting_timeout: PositiveDuration = 30.0
    keepalive: Annotated[Duration, Field(description="0: off")] = 30.0
    connections: Annotated[int, Field(ge=1, le=1024, description="made at the same time")] = 64


class InventoryFile(_Model):
    """The inventory as it is written."""

    workers: tuple[WorkerEntry, ...] = ()
    defaults: WorkerDefaults = WorkerDefaults()
    ssh: Ssh = Ssh()
    vsphere: Annotated[
        Cluster | None, Field(description="where workers are made, instead of a list of them")
    ] = None
    clear_cache: Annotated[
        ClearCache | None, Field(description="where and how a suite that asks for it clears caches")
    ] = None
    caches: Annotated[
        tuple[StatedCache, ...], Field(description="caches that a working set may fit into")
    ] = ()
    limits: Annotated[
        tuple[StatedLimit, ...], Field(description="what devices and links carry at most")
    ] = ()

    @model_validator(mode="after")
    def _some_workers(self) -> Self:
        if not self.workers and self.vsphere is None:
            raise ValueError("give workers, or vsphere: where they are made")
        return self


class Worker(_Model):
    """One worker, resolved: defaults merged, ranges expanded, every target labelled."""

    name: Name
    host: str
    port: Annotated[int | None, Field(description="None: as ssh's config says, else 22")] = None
    user: str | None = None
    key: str | None = None
    passphrase: SecretRef | None = None
    password: SecretRef | None = None
    jump: tuple[Jump, ...] = ()
    sudo: bool = False
    targets: Annotated[tuple[Target, ...], Field(min_length=1)]
    group: Name = "all"
    host_label: str | None = None
    datastore: str | None = None
    work_dir: WorkerPath = DEFAULT_WORK_DIR
    fio: str = "fio"


class Inventory(_Model):
    """All workers, and how connections are made. None of them is there before vSphere made it."""

    workers: tuple[Worker, ...]
    ssh: Ssh = Ssh()
    vsphere: Cluster | None = None
    clear_cache: ClearCache | None = None
    caches: tuple[StatedCache, ...] = ()
    limits: tuple[StatedLimit, ...] = ()

    @model_validator(mode="after")
    def _some_workers(self) -> Self:
        if not self.workers and self.vsphere is None:
            raise ValueError("an inventory needs workers")
        return self

    def groups(self) -> dict[str, tuple[Worker, ...]]:
        """Workers by group, in the inventory's order."""
        found: dict[str, list[Worker]] = {}
        for worker in self.workers:
            found.setdefault(worker.group, []).append(worker)
        return {name: tuple(workers) for name, workers in found.items()}


_RANGE: Final = re.compile(r"\[(\d+)-(\d+)\]")
MAX_RANGE: Final = 100_000


def expand_range(text: str) -> list[str]:
    """`w[01-03]` is w01, w02, w03; without a range the text alone. ValueError on a wrong one.

    The first number's zeros are kept; several ranges in one text multiply.
    """
    match = _RANGE.search(text)
    if match is None:
        if "[" in text and not re.search(r"\[[0-9a-fA-F:]*:[0-9a-fA-F:.]*(%[\w.-]+)?\]", text):
            raise ValueError(f"{text!r}: write a range like w[01-16]")
        return [text]
    first, last = int(match[1]), int(match[2])
    if last < first or last - first >= MAX_RANGE:
        raise ValueError(f"{text!r}: the range's end is before its start, or too far off")
    width = len(match[1])
    rest = expand_range(text[match.end() :])
    before = text[: match.start()]
    return [f"{before}{n:0{width}d}{tail}" for n in range(first, last + 1) for tail in rest]


def resolve_inventory(written: InventoryFile, *, file: str = "inventory") -> Inventory:
    """Merge the defaults, expand the ranges, label the targets. InputError lists all problems."""
    problems: list[Problem] = []
    workers: list[Worker] = []
    for index, entry in enumerate(written.workers):
        try:
            workers += _workers(entry, written.defaults)
        except ValidationError as error:
            problems += problems_of(error, Worker, file=file, prefix=("workers", index))
        except ValueError as error:
            problems.append(Problem(file, None, f"workers.{index}", str(error)))
    problems += _twice(workers, file)
    if written.workers:
        problems += _of_nobody(written.limits, workers, file)
    if problems:
        raise InputError(problems)
    return Inventory(
        workers=tuple(workers),
        ssh=written.ssh,
        vsphere=written.vsphere,
        clear_cache=written.clear_cache,
        caches=written.caches,
        limits=written.limits,
    )


def _of_nobody(
    limits: Sequence[StatedLimit], workers: Sequence[Worker], file: str
) -> Iterator[Problem]:
    """Limits that name workers that there aren't."""
    names = [worker.name for worker in workers]
    for index, limit in enumerate(limits):
        for pattern in limit.workers:
            if not fnmatch.filter(names, pattern):
                text = f"no worker is called {pattern!r}"
                place = f"limits.{index}.workers"
                yield Problem(file, None, place, text, nearest(pattern, names))


def _workers(entry: WorkerEntry, defaults: WorkerDefaults) -> Iterator[Worker]:
    """The workers of one line; ValueError where names, hosts or targets don't fit together."""
    names = expand_range(entry.name)
    hosts = expand_range(entry.host) if entry.host is not None else names
    if len(hosts) not in (1, len(names)) or (len(hosts) == 1 and len(names) > 1):
        raise ValueError(f"{len(names)} names but {len(hosts)} hosts in {entry.name!r}")
    merged = _given(defaults) | _given(entry)
    if "targets" not in merged:
        raise ValueError(f"worker {entry.name} has no targets; give them here or in defaults")
    merged["targets"] = _labelled(merged["targets"])
    if isinstance(merged.get("jump"), Jump):
        merged["jump"] = (merged["jump"],)
    for name, host in zip(names, hosts, strict=True):
        yield Worker(**(merged | {"name": name, "host": host}))


def _given(model: WorkerDefaults) -> dict[str, Any]:
    return {
        name: value
        for name in type(model).model_fields
        if (value := getattr(model, name)) is not None
    }


def _labelled(targets: Sequence[Target]) -> tuple[Target, ...]:
    """Every target with a label: its own, or disk0, disk1, ... by position."""
    named = tuple(
        target if target.label else target.model_copy(update={"label": f"disk{index}"})
        for index, target in enumerate(targets)
    )
    counts = Counter(str(target.label) for target in named)
    again = sorted(label for label, count in counts.items() if count > 1)
    if again:
        raise ValueError(f"two targets have the label {', '.join(again)}")
    return named


def _twice(workers: Sequence[Worker], file: str) -> Iterator[Problem]:
    """Names that come twice, and targets that two workers on one host would both write."""
    counts = Counter(worker.name for worker in workers)
    for name in sorted(name for name, count in counts.items() if count > 1):
        yield Problem(file, None, "workers", f"worker {name} is there twice")
    owners: dict[tuple[str, int | None, str], str] = {}
    for worker in workers:
        for target in worker.targets:
            key = (worker.host, worker.port, _identity(target))
            other = owners.setdefault(key, worker.name)
            if other != worker.name:
                text = f"{other} and {worker.name} both write {key[2]} on {worker.host}"
                yield Problem(file, None, "workers", text)
        identities = [_identity(target) for target in worker.targets]
        if len(set(identities)) != len(identities):
            yield Problem(file, None, "workers", f"{worker.name} has one target twice")


def _identity(target: Target) -> str:
    if isinstance(target, FileTarget):
        return target.file
    return target.serial or target.wwn or target.hctl or target.path or ""

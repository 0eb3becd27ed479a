"""What a worker says of itself, read from its reply to `facts`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from orchestrator.devices import Device, FileFacts, enrich, parse_lsblk
from orchestrator.worker.reply import Reply, ReplyError, Section

SECTOR = 512


@dataclass(frozen=True)
class WorkerFacts:
    """One worker. Sizes in bytes, `now` in seconds since the epoch by its own clock; None is not
    known. `clock` is `date`, or `uptime` where date has no fractions (10 ms steps). `devices` are
    trees, `files` and `links` hold what was asked for, by path."""

    host: str
    now: float
    clock: str
    boot_id: str
    uid: int
    user: str
    hostname: str
    kernel: str
    cpus: int | None
    memory: int | None
    memory_available: int | None
    fio_path: str | None
    fio_version: str | None
    engines: tuple[str, ...]
    tools: dict[str, bool]
    base_free: int | None
    base_owner: int | None
    base_writable: bool
    devices: tuple[Device, ...]
    files: dict[str, FileFacts]
    links: dict[str, str]


def read_facts(host: str, reply: Reply) -> WorkerFacts:
    """Build the facts from the reply. Raises ReplyError when a needed field is missing."""
    head = reply.head
    fields = head.fields
    now, uid = head.number("now"), head.whole("uid")
    if now is None or uid is None:
        raise ReplyError("no time or no user in the facts")
    tools = {k.removeprefix("has_"): v == "1" for k, v in fields.items() if k.startswith("has_")}
    return WorkerFacts(
        host=host,
        now=now,
        clock=fields.get("clock", ""),
        boot_id=fields.get("boot", ""),
        uid=uid,
        user=fields.get("user", ""),
        hostname=fields.get("hostname", ""),
        kernel=fields.get("kernel", ""),
        cpus=head.whole("cpus"),
        memory=head.whole("memory"),
        memory_available=head.whole("memory_available"),
        fio_path=fields.get("fio_path") or None,
        fio_version=fields.get("fio_version") or None,
        engines=tuple(fields.get("engines", "").split()),
        tools=tools,
        base_free=head.whole("base_free"),
        base_owner=head.whole("base_owner"),
        base_writable=fields.get("base_writable") == "1",
        devices=_devices(reply),
        files={
            name.removeprefix("file:"): _file(section)
            for name, section in reply.sections.items()
            if name.startswith("file:")
        },
        links={
            name.removeprefix("link:"): section.fields["real"]
            for name, section in reply.sections.items()
            if name.startswith("link:") and section.fields.get("real")
        },
    )


def _devices(reply: Reply) -> tuple[Device, ...]:
    mounts = _mounts(reply.head.texts.get("mounts", ""))
    swaps = {line.split()[0] for line in reply.head.texts.get("swaps", "").splitlines()[1:] if line}
    found: dict[str, Device] = {}
    parents: dict[str, str] = {}
    for name, section in reply.sections.items():
        if name.startswith("device:"):
            device = _probed(name.removeprefix("device:"), section, mounts, swaps)
            found[device.number or device.path] = device
            parents[device.name] = section.fields.get("parent", "")
    listing = reply.head.texts.get("lsblk", "").strip()
    if not listing:
        return _tree(found, parents)
    try:
        return enrich(parse_lsblk(listing), found)
    except (ValueError, KeyError, TypeError) as error:
        raise ReplyError(f"lsblk's answer can't be read: {error}") from error


def _mounts(mountinfo: str) -> dict[str, tuple[str, ...]]:
    """major:minor to mount points, from /proc/self/mountinfo (man 5 proc)."""
    mounts: dict[str, tuple[str, ...]] = {}
    for line in mountinfo.splitlines():
        parts = line.split()
        if len(parts) > 4:
            mounts[parts[2]] = (*mounts.get(parts[2], ()), _unescape(parts[4]))
    return mounts


def _unescape(path: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, char)
    return path


def _probed(
    name: str, section: Section, mounts: dict[str, tuple[str, ...]], swaps: set[str]
) -> Device:
    fields = section.fields
    number = fields.get("number", "")
    return Device(
        name=name,
        path=fields.get("path", f"/dev/{name}"),
        type=_guess_type(name, fields),
        size=section.whole("size") or 0,
        read_only=fields.get("ro") == "1",
        mountpoints=mounts.get(number, ()),
        number=number,
        signatures=tuple(fields.get("signatures", "").split()),
        holders=tuple(fields.get("holders", "").split()),
        swap=fields.get("path") in swaps,
        probed=bool(fields.get("probed")),
        writable=fields.get("writable") == "1",
    )


def _guess_type(name: str, fields: dict[str, str]) -> str:
    """The kind of device by the kernel's name, where there is no lsblk to say it."""
    if fields.get("parent"):
        return "part"
    for prefix, kind in (("sr", "rom"), ("loop", "loop"), ("dm-", "dm"), ("md", "raid")):
        if name.startswith(prefix):
            return kind
    return "disk"


def _tree(found: dict[str, Device], parents: dict[str, str]) -> tuple[Device, ...]:
    """Trees from sysfs alone: partitions below their disks."""
    tops = [device for device in found.values() if not parents[device.name]]
    return tuple(
        replace(
            top,
            children=tuple(part for part in found.values() if parents[part.name] == top.name),
        )
        for top in tops
    )


def _file(section: Section) -> FileFacts:
    fields = section.fields
    return FileFacts(
        path=section.name.removeprefix("file:"),
        kind=fields.get("kind", "other"),
        size=section.whole("size"),
        made_by=fields.get("made_by") or None,
        folder=fields.get("folder") == "1",
        writable=fields.get("writable") == "1",
        free=section.whole("free"),
        filesystem=fields.get("filesystem") or None,
    )

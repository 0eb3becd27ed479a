"""HCIBench's own summary of a case (`<case>-<epoch>-res.txt`, 2.x and 3.0) and its small files.

What it says is kept as said: THROUGHPUT is whole MiB/s whatever its label, latencies are means over
VMs without weights, 95%tile values are averages of percentiles.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

_STORE: Final = re.compile(r"\s*(?:Datastore|StorageClass)\s*=\s*(.*)", re.IGNORECASE)
_FIELD: Final = re.compile(r"\s*([A-Za-z0-9_% ]+?)\s*=\s*(.*?)\s*")
_NUMBER: Final = re.compile(r"([-+]?\d+(?:\.\d+)?)\s*(\S*)")
_EARLY: Final = re.compile(r"There are (\d+) (?:VMs|pods) (?:that )?finished testing early", re.I)
_NONE_LEFT: Final = re.compile(
    r"All (?:the )?(?:VMs|pods) finished testing early, no results", re.I
)
_EARLY_FILES: Final = re.compile(r"Check the following results? files that finished testing early")


class Block(Struct, frozen=True):
    """One job on one datastore, as printed. None: not printed, or not a number."""

    store: str | None = None
    job: str | None = None
    vms: int | None = None
    iops: float | None = None
    #: labelled MB/s, and whole MiB/s
    throughput_mib: float | None = None
    read_ms: float | None = None
    write_ms: float | None = None
    read_p95_ms: float | None = None
    write_p95_ms: float | None = None
    #: digits after the point of the latencies
    digits: int = 2
    finished_early: int = 0


class Summary(Struct, frozen=True):
    """A whole res.txt. `resources` is host (or Average) to metric to percent."""

    blocks: tuple[Block, ...]
    resources: Mapping[str, Mapping[str, float]] = {}
    early_files: tuple[str, ...] = ()
    #: datastores of which no VM ended, so that no block tells of them
    unsummarized: tuple[str, ...] = ()

    @property
    def vms(self) -> int:
        """VMs whose figures are in it: jobs run on the same VMs, datastores have their own."""
        return self._by_store("vms")

    @property
    def finished_early(self) -> int:
        """VMs that it left out, as far as it counts them."""
        return self._by_store("finished_early")

    def _by_store(self, field: str) -> int:
        most: dict[str | None, int] = {}
        for block in self.blocks:
            most[block.store] = max(most.get(block.store, 0), getattr(block, field) or 0)
        return sum(most.values())


def parse_summary(text: str) -> Summary:
    """Read a res.txt. What isn't there is left out; nothing raises."""
    head, _, tail = text.partition("Resource Usage:")
    resources, early = _resources(tail), _early_files(text)
    return Summary(tuple(_once(_blocks(head))), resources, early, tuple(_unsummarized(head)))


def _once(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks without those that HCIBench's parser, run again, appended figure for figure."""
    seen: list[Block] = []
    for block in blocks:
        if block.iops and block in seen:
            continue
        seen.append(block)
        yield block


def _unsummarized(text: str) -> Iterator[str]:
    store = ""
    for line in text.splitlines():
        if match := _STORE.fullmatch(line):
            store = match[1].strip()
        elif _NONE_LEFT.search(line):
            yield store


def _blocks(text: str) -> Iterator[Block]:
    """A block for each JOB_NAME; datastore and early VMs stand above it."""
    store: str | None = None
    early = 0
    fields: dict[str, str] = {}
    for line in [*text.splitlines(), "JOB_NAME = "]:
        if match := _EARLY.search(line):
            early = int(match[1])
        match = _STORE.fullmatch(line) or _FIELD.fullmatch(line)
        if match is None:
            continue
        starts = match.re is _STORE or match[1] == "JOB_NAME"
        if starts and fields:
            yield _block(fields, store, early)
            fields = {}
        if match.re is _STORE:
            store, early = match[1].strip() or None, 0
        elif match[2] or fields:
            fields[match[1]] = match[2]


def _block(fields: Mapping[str, str], store: str | None, early: int) -> Block:
    vms = _number(fields.get("VMs") or fields.get("PODS") or fields.get("Pods"))
    latency = fields.get("R_LATENCY") or fields.get("LATENCY") or ""
    return Block(
        store=store,
        job=fields.get("JOB_NAME"),
        vms=None if vms is None else round(vms),
        iops=_number(fields.get("IOPS")),
        throughput_mib=_number(fields.get("THROUGHPUT")),
        read_ms=_number(fields.get("R_LATENCY") or fields.get("LATENCY")),
        write_ms=_number(fields.get("W_LATENCY") or fields.get("LATENCY")),
        read_p95_ms=_number(fields.get("95%tile_R_LAT")),
        write_p95_ms=_number(fields.get("95%tile_W_LAT")),
        digits=len(latency.partition(".")[2].partition(" ")[0]) or 2,
        finished_early=early,
    )


def _number(text: str | None) -> float | None:
    match = _NUMBER.match(text.strip()) if text else None
    value = float(match[1]) if match else None
    return value if value is not None and math.isfinite(value) and value >= 0 else None


def _resources(text: str) -> dict[str, dict[str, float]]:
    """The table of hosts, or the older lines `CPU USAGE = 93.64%`."""
    found: dict[str, dict[str, float]] = {}
    head: list[str] = []
    for line in text.splitlines():
        if line.strip().startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if any("usage" in cell for cell in cells):
                head = cells
            elif len(cells) == len(head) > 1:
                values = {n: _number(c) for n, c in zip(head[1:], cells[1:], strict=True)}
                found[cells[0]] = {n: value for n, value in values.items() if value is not None}
        elif match := re.fullmatch(r"\s*(.+? USAGE)\s*=\s*(.*)", line):
            value = _number(match[2])
            if value is not None:
                found.setdefault("Average", {})[match[1].strip()] = value
    return found


def _early_files(text: str) -> tuple[str, ...]:
    parts = _EARLY_FILES.split(text, maxsplit=1)
    if len(parts) < 2:
        return ()
    names = (line.strip() for line in parts[1].splitlines()[1:])
    return tuple(name for name in names if name.endswith(".json"))


def parse_settings(text: str) -> dict[str, str]:
    """`vsan.cfg`: lines of `Name: value`; those of several datastores are joined by name."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        name, value = name.strip(), value.strip()
        if colon and name and value:
            found[name] = value if name not in found else f"{found[name]}; {value}"
    return found


def parse_usage(text: str) -> dict[str, dict[str, float]]:
    """`resource_usage.info`: cluster to metric to percent; {} when it isn't that."""
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    found: dict[str, dict[str, float]] = {}
    for cluster, metrics in data.items() if isinstance(data, dict) else ():
        if isinstance(metrics, dict):
            values = {name: _number(str(value)) for name, value in metrics.items()}
            found[cluster] = {n: value for n, value in values.items() if value is not None}
    return found


def total_of(blocks: Sequence[Block], figure: str) -> float | None:
    """A rate summed over all blocks; None when any of them lacks it."""
    values = [getattr(block, figure) for block in blocks]
    return math.fsum(values) if values and None not in values else None

"""HCIBench's own summary of a case (`<case>-<epoch>-res.txt`, 2.x and 3.0) and its small files.

What it says is kept as said: THROUGHPUT is whole MiB/s whatever its label, latencies are means over
VMs without weights, 95%tile values are averages of percentiles. `differences` puts that beside the
figures merged from the VMs' own files and says why they are not the same.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from orchestrator.metrics import parse_metric
from orchestrator.results import TotalResult

_STORE: Final = re.compile(r"\s*(?:Datastore|StorageClass)\s*=\s*(.*)", re.IGNORECASE)
_FIELD: Final = re.compile(r"\s*([A-Za-z0-9_% ]+?)\s*=\s*(.*?)\s*")
_NUMBER: Final = re.compile(r"([-+]?\d+(?:\.\d+)?)\s*(\S*)")
_EARLY: Final = re.compile(r"There are (\d+) (?:VMs|pods) (?:that )?finished testing early")
_NONE_LEFT: Final = "finished testing early, no results summarized"
_EARLY_FILES: Final = re.compile(r"Check the following results? files that finished testing early")
_MIB: Final = 2**20


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


class Difference(Struct, frozen=True):
    """One figure as HCIBench says it and as its files hold it, in `unit`."""

    figure: str
    unit: str
    theirs: float | None
    ours: float | None
    #: beyond what their rounding explains
    differs: bool
    why: str


def parse_summary(text: str) -> Summary:
    """Read a res.txt. What isn't there is left out; nothing raises."""
    head, _, tail = text.partition("Resource Usage:")
    resources, early = _resources(tail), _early_files(text)
    return Summary(tuple(_blocks(head)), resources, early)


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
    vms = _number(fields.get("VMs") or fields.get("PODS"))
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


def summarized_nothing(text: str) -> bool:
    """Whether HCIBench itself found no VM that ended."""
    return _NONE_LEFT in text


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


def differences(summary: Summary, total: TotalResult | None) -> tuple[Difference, ...]:
    """HCIBench's figures beside those merged from its files; latencies with a lone block only."""
    found = [_iops(summary, total), _throughput(summary, total)]
    if len(summary.blocks) == 1:
        block = summary.blocks[0]
        for name, mean, high in (
            ("read", block.read_ms, block.read_p95_ms),
            ("write", block.write_ms, block.write_p95_ms),
        ):
            found.append(_latency(total, f"{name}.latency.mean", mean, block.digits))
            found.append(_latency(total, f"{name}.latency.p95", high, block.digits))
    return tuple(item for item in found if item.theirs is not None or item.ours is not None)


def _iops(summary: Summary, total: TotalResult | None) -> Difference:
    theirs = total_of(summary.blocks, "iops")
    ours = parse_metric("iops").value(total)
    why = "HCIBench takes the first document whose eta is 0, not the last"
    early = sum(block.finished_early for block in summary.blocks)
    if early:
        why += f"; it leaves out {early} VMs that finished early"
    return Difference("iops", "IOPS", theirs, ours, _apart(theirs, ours, 0.01), why)


def _throughput(summary: Summary, total: TotalResult | None) -> Difference:
    theirs = total_of(summary.blocks, "throughput_mib")
    rate = parse_metric("bytes_per_s").value(total)
    ours = None if rate is None else rate / _MIB
    why = "HCIBench cuts to whole MiB/s and calls them MB/s"
    cut = len(summary.blocks)
    differs = _apart(theirs, ours, 0.0) and not (
        theirs is not None and ours is not None and theirs <= ours < theirs + cut
    )
    return Difference("throughput", "MiB/s", theirs, ours, differs, why)


def _latency(
    total: TotalResult | None, figure: str, theirs: float | None, digits: int
) -> Difference:
    value = parse_metric(figure).value(total)
    ours = None if value is None else value / 1e6
    if ours is None and theirs == 0:
        theirs = None  # HCIBench prints 0 where nothing was read or written
    if figure.endswith("mean"):
        why = "HCIBench averages the VMs' means without weights"
    elif ours is None:
        why = "HCIBench averages the VMs' percentiles; without histograms there is no true one"
    else:
        why = "HCIBench averages the VMs' percentiles"
    return Difference(figure, "ms", theirs, ours, _apart(theirs, ours, 10.0**-digits), why)


def _apart(theirs: float | None, ours: float | None, step: float) -> bool:
    if theirs is None or ours is None:
        return theirs is not ours
    return abs(theirs - ours) > step

"""HCIBench's own figures of a case beside those merged from the VMs' files, and why they differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.hcibench_summary import Summary, total_of
from orchestrator.metrics import parse_metric
from orchestrator.results import TotalResult

_MIB: Final = 2**20
_FIRST: Final = "HCIBench takes the first document whose eta is 0, not the last"


class Difference(Struct, frozen=True):
    """One figure as HCIBench says it and as its files hold it, in `unit`."""

    figure: str
    unit: str
    theirs: float | None
    ours: float | None
    #: beyond what their rounding explains
    differs: bool
    why: str


class ImportedCase(Struct, frozen=True):
    """What HCIBench said of one folder, beside what its files hold.

    `group` is the folder's name in a mixed workload, None where the folder is the whole case.
    """

    case: str
    folder: str
    group: str | None
    started: int | None
    summary: Summary | None
    differences: tuple[Difference, ...]
    usage: Mapping[str, Mapping[str, float]] = {}


def differences(
    summary: Summary, total: TotalResult | None, received: int
) -> tuple[Difference, ...]:
    """HCIBench's figures beside those merged from the files of `received` VMs.

    Latencies with a lone block only: those of several have no mean that anybody said.
    """
    found = [_iops(summary, total), _throughput(summary, total)]
    if len(summary.blocks) == 1:
        block = summary.blocks[0]
        for name, mean, high in (
            ("read", block.read_ms, block.read_p95_ms),
            ("write", block.write_ms, block.write_p95_ms),
        ):
            found.append(_latency(total, f"{name}.latency.mean", mean, block.digits))
            found.append(_latency(total, f"{name}.latency.p95", high, block.digits))
    told = tuple(item for item in found if item.theirs is not None or item.ours is not None)
    if summary.vms in (0, received):
        return told
    others = f"HCIBench's figures are of {summary.vms} VMs, its files hold those of {received}"
    return tuple(replace(item, why=others if item.differs else item.why) for item in told)


def _iops(summary: Summary, total: TotalResult | None) -> Difference:
    theirs = total_of(summary.blocks, "iops")
    ours = parse_metric("iops").value(total)
    why = _FIRST
    if early := summary.finished_early:
        why += f"; it leaves out {early} VMs that finished early"
    return Difference("iops", "IOPS", theirs, ours, _apart(theirs, ours, 0.01), why)


def _throughput(summary: Summary, total: TotalResult | None) -> Difference:
    theirs = total_of(summary.blocks, "throughput_mib")
    rate = parse_metric("bytes_per_s").value(total)
    ours = None if rate is None else rate / _MIB
    count = len(summary.blocks)
    if theirs is not None and not theirs.is_integer():  # some of 3.0 don't cut for pods
        why = _FIRST
        return Difference(
            "throughput", "MiB/s", theirs, ours, _apart(theirs, ours, count / 100), why
        )
    why = "HCIBench cuts to whole MiB/s and calls them MB/s"
    differs = _apart(theirs, ours, 0.0) and not (
        theirs is not None and ours is not None and theirs <= ours < theirs + count
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

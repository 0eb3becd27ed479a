"""Cases of which only HCIBench's summaries are left: their rates added up, and nothing else.

A mean without weights and an averaged percentile are no figures of ours. Reads and writes are told
apart by the workload's percent, which its name holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from orchestrator.hcibench import HcibenchName
from orchestrator.hcibench_summary import Summary, total_of
from orchestrator.results import CaseResult, DirectionResult, Reason, TotalResult, Verdict
from orchestrator.units import parse_size


def from_summaries(
    case: str, folders: Sequence[tuple[HcibenchName | None, Summary | None]]
) -> CaseResult:
    """A case from what is left of its folders: each one's workload and its summary, if known."""
    totals = [_split(summary, name) for name, summary in folders]
    known = [total for total in totals if total is not None]
    said = [summary for _, summary in folders if summary is not None]
    received = sum(summary.vms for summary in said)
    early = sum(summary.finished_early for summary in said)
    without = [store for summary in said for store in summary.unsummarized]
    reason = _reason([name for name, _ in folders if name is not None], without)
    whole = len(known) == len(folders)
    return CaseResult(
        case=case,
        outcome="done" if whole else "failed",
        verdict=Verdict(value="unknown", reasons=(reason,)),
        expected_workers=received + early,
        received_workers=received,
        total=_added(known) if whole else None,
        workers={},
        degraded=early > 0 or bool(without),
        reason=None if whole else "the summary holds no figures",
    )


def _reason(names: Sequence[HcibenchName], without: Sequence[str]) -> Reason:
    text = "HCIBench's summary alone: rates as printed"
    shares = sorted({name.read_percent for name in names if 0 < name.read_percent < 100})
    if shares:
        percents = ", ".join(str(share) for share in shares)
        text += f", split by the workload's {percents} % of reads"
    return Reason(
        code="from-summary",
        text=text + "; latencies and percentiles averaged over VMs are not taken",
        evidence=f"no VM of {', '.join(without)} ended in time" if without else None,
        next_step="import the folder with the VMs' own files, where it still exists",
    )


def _added(totals: Sequence[TotalResult]) -> TotalResult:
    """Rates of groups that ran together; unknown as a whole when those of one are."""
    if any(total.read is None and total.write is None for total in totals):
        return TotalResult()

    def side(parts: Sequence[DirectionResult]) -> DirectionResult | None:
        if not parts:
            return None
        return DirectionResult(
            ios=None,
            bytes=None,
            iops=_sum([part.iops for part in parts]),
            bytes_per_s=_sum([part.bytes_per_s for part in parts]),
        )

    return TotalResult(
        read=side([total.read for total in totals if total.read is not None]),
        write=side([total.write for total in totals if total.write is not None]),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if len(known) == len(values) else None


def _split(summary: Summary | None, name: HcibenchName | None) -> TotalResult | None:
    """Reads and writes by the workload's percent; None without a rate.

    All as reads or writes when that percent isn't known would be made up, so both are unknown then.
    """
    iops = None if summary is None else total_of(summary.blocks, "iops")
    if iops is None or name is None:
        return None if iops is None else TotalResult()
    share, rate = name.read_percent / 100, iops * parse_size(name.block)

    def part(of: float) -> DirectionResult | None:
        if of == 0:
            return None
        return DirectionResult(ios=None, bytes=None, iops=iops * of, bytes_per_s=rate * of)

    return TotalResult(read=part(share), write=part(1 - share))

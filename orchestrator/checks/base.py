"""What checks see, the reasons they give, and the verdict that reasons make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from orchestrator.evidence import CaseExpectation, WorkerEvidence
from orchestrator.measured import WorkerOutput
from orchestrator.results import Reason, Timing, TotalResult, Verdict, VerdictValue, WorkerResult

#: How much of fio's own text a reason shows.
SHOWN = 300

_Subject = TypeVar("_Subject")


@dataclass(frozen=True)
class WorkerSubject:
    """What a worker check sees: one worker whose output could be read."""

    expected: CaseExpectation
    evidence: WorkerEvidence
    output: WorkerOutput

    @property
    def worker(self) -> str:
        """The worker's name."""
        return self.evidence.worker


@dataclass(frozen=True)
class CaseSubject:
    """What a case check sees: the case, added up."""

    expected: CaseExpectation
    workers: Mapping[str, WorkerResult]
    total: TotalResult | None
    timing: Timing
    received: int
    #: some are missing and the policy allowed it
    degraded: bool


WorkerCheck = Callable[[WorkerSubject], Iterable[Reason]]
CaseCheck = Callable[[CaseSubject], Iterable[Reason]]


def verdict_of(reasons: Iterable[Reason]) -> Verdict:
    """The verdict that reasons make, the worst first."""
    order: dict[str, int] = {"invalid": 0, "unknown": 1, "note": 2}
    ordered = tuple(sorted(reasons, key=lambda reason: order[reason.level]))
    levels = {reason.level for reason in ordered}
    value: VerdictValue = "valid"
    if "invalid" in levels:
        value = "invalid"
    elif "unknown" in levels:
        value = "unknown"
    return Verdict(value=value, reasons=ordered)


def safely(
    check: Callable[[_Subject], Iterable[Reason]], subject: _Subject, worker: str | None
) -> list[Reason]:
    """What a check yields; what it raises becomes a reason of its own."""
    try:
        return list(check(subject))
    except Exception as error:  # noqa: BLE001 - a crashing check must not look like a good one
        name = getattr(check, "__name__", "check")
        return [
            Reason(
                code="check-crashed",
                text=f"the check {name} crashed: {type(error).__name__}: {error}",
                worker=worker,
                level="unknown",
                next_step="report this as a bug of hcio",
            )
        ]

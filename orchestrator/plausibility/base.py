"""What a plausibility check sees, and what most of them ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from orchestrator.casefacts import CaseFacts
from orchestrator.results import (
    CaseResult,
    DirectionResult,
    JobResult,
    Reason,
    TotalResult,
    WorkerResult,
)


@dataclass(frozen=True)
class Plausible:
    """What a check sees."""

    case: CaseResult
    facts: CaseFacts

    def counted(self) -> dict[str, WorkerResult]:
        """The workers that the totals hold."""
        return {n: w for n, w in self.case.workers.items() if w.counted and w.total is not None}

    def groups(self) -> dict[str | None, list[str]]:
        """Their names, by group."""
        found: dict[str | None, list[str]] = {}
        for name, worker in self.counted().items():
            found.setdefault(worker.group, []).append(name)
        return found


PlausibilityCheck = Callable[[Plausible], Iterable[Reason]]


def sides(total: TotalResult | JobResult | None) -> Iterator[tuple[str, DirectionResult]]:
    """The directions in which something was done."""
    for name in ("read", "write", "trim"):
        direction = getattr(total, name, None)
        if direction is not None and direction.ios:
            yield name, direction


def rate_of(total: TotalResult | JobResult | None, figure: str, side: str = "all") -> float | None:
    """IOPS or bytes/s of a side; None when unknown for a part of it."""
    found = [getattr(d, figure) for name, d in sides(total) if side in ("all", name)]
    return None if None in found or not found else float(sum(found))

"""The table of plausibility checks, and the verdict with them.

A check is a function from a case and its facts to reasons, with code, threshold, evidence and
next step; one without the facts that it needs says nothing. A new check is one more line.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from orchestrator.casefacts import CaseFacts
from orchestrator.checks import safely, verdict_of
from orchestrator.plausibility.base import PlausibilityCheck, Plausible
from orchestrator.plausibility.course import (
    check_course,
)
from orchestrator.plausibility.data import (
    check_buffered,
    check_filled,
    check_host_counters,
    check_limits,
    check_working_set,
)
from orchestrator.plausibility.evenness import (
    check_equal_workers,
)
from orchestrator.plausibility.load import (
    check_latency_possible,
    check_littles_law,
    check_percentiles_carried,
)
from orchestrator.plausibility.pace import check_cap, check_coordinated_omission, check_in_turn
from orchestrator.results import CaseResult, Reason, RunResult

PLAUSIBILITY_CHECKS: tuple[PlausibilityCheck, ...] = (
    check_littles_law,
    check_latency_possible,
    check_percentiles_carried,
    check_working_set,
    check_buffered,
    check_filled,
    check_equal_workers,
    check_host_counters,
    check_limits,
    check_cap,
    check_coordinated_omission,
    check_in_turn,
    check_course,
)


def check_plausible(
    case: CaseResult, facts: CaseFacts, checks: Sequence[PlausibilityCheck] = ()
) -> list[Reason]:
    """Run all checks (or those given); one that crashes is a reason of its own."""
    subject = Plausible(case, facts)
    return [r for check in checks or PLAUSIBILITY_CHECKS for r in safely(check, subject, None)]


def judged(case: CaseResult, facts: CaseFacts) -> CaseResult:
    """The case with these checks' reasons added and the verdict that all reasons make."""
    reasons = [*case.verdict.reasons, *check_plausible(case, facts)]
    return replace(case, verdict=verdict_of(reasons))


def noted(run: RunResult) -> RunResult:
    """A result of plain fio outputs with what its figures alone give away, as notes: nothing is
    known of what was measured, so memory's latencies may be what was wanted."""
    return replace(run, cases=tuple(_noted(case) for case in run.cases))


def _noted(case: CaseResult) -> CaseResult:
    alone = (check_latency_possible, check_percentiles_carried)
    found = check_plausible(case, CaseFacts(), alone)
    known = {reason.code for reason in case.verdict.reasons}
    doubts = [replace(r, level="note") for r in found if r.code != "latency-unknown"]
    fresh = [reason for reason in doubts if reason.code not in known]
    return replace(case, verdict=verdict_of([*case.verdict.reasons, *fresh]))

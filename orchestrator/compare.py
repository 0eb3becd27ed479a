"""Baseline against candidate: per case and metric the change, its interval and a verdict.

better, worse or same is said only with evidence; everything else is unknown. What the two sides
ran under is compared first; what can't be compared is refused with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.contrast import Judgement, Observation, Row, Rules, rows_of
from orchestrator.errors import EXIT_GOOD, EXIT_NO, EXIT_UNKNOWN, ConfigError

Presence = Literal["both", "missing", "new", "refused"]
Conditions = Mapping[str, Any]

#: Conditions that say what one I/O is: figures of cases that differ here are of different things.
SHAPE: Final = frozenset(
    {
        "block_size",
        "bssplit",
        "read_percent",
        "random_percent",
        "distribution",
        "jobs",
        "fio",
    }
)


class Side(Struct, frozen=True):
    """The baseline or a candidate: its repeats by case, and what it ran under."""

    name: str
    cases: Mapping[str, tuple[Observation, ...]]
    conditions: Conditions = {}
    case_conditions: Mapping[str, Conditions] = {}
    #: where each of its runs lies, to know a run that is named twice
    sources: tuple[str, ...] = ()


class Difference(Struct, frozen=True):
    """A condition that isn't the same on both sides; None is "not said"."""

    name: str
    baseline: Any
    candidate: Any


class CaseComparison(Struct, frozen=True):
    """One case. `presence` says on which side it is; `words` why it isn't compared; `doubts` which
    of the runs it is judged by have no figures, or figures that a check doubts."""

    case: str
    presence: Presence
    rows: tuple[Row, ...] = ()
    differences: tuple[Difference, ...] = ()
    words: str = ""
    doubts: tuple[str, ...] = ()
    baseline_runs: int = 0
    candidate_runs: int = 0

    @property
    def verdict(self) -> Judgement:
        """The worst of its rows; unknown before same and better."""
        if self.presence == "missing":
            return "worse"
        found = {row.verdict for row in self.rows}
        ranking: tuple[Judgement, ...] = ("worse", "unknown", "better", "same")
        return next((verdict for verdict in ranking if verdict in found), "unknown")


class Comparison(Struct, frozen=True):
    """One candidate against the baseline; `differences` hold for all cases."""

    baseline: str
    candidate: str
    confidence: float
    min_effect: float
    differences: tuple[Difference, ...]
    cases: tuple[CaseComparison, ...]

    @property
    def exit_code(self) -> int:
        """1 when something is worse or missing, 3 when something couldn't be told, else 0."""
        verdicts = {case.verdict for case in self.cases if case.presence != "new"}
        if "worse" in verdicts:
            return EXIT_NO
        return EXIT_UNKNOWN if "unknown" in verdicts or not verdicts else EXIT_GOOD


def compare(baseline: Side, candidate: Side, rules: Rules | None = None) -> Comparison:
    """Compare two sides, case by case. Cases of one side only are listed, not dropped.

    Raises ConfigError when a run is on both sides: it would agree with itself.
    """
    _refuse_the_same(baseline, candidate)
    rules = rules or Rules()
    names = list(dict.fromkeys([*baseline.cases, *candidate.cases]))
    cases = tuple(_case(name, baseline, candidate, rules) for name in names)
    shared, cases = _shared_differences(cases)
    return Comparison(
        baseline=baseline.name,
        candidate=candidate.name,
        confidence=rules.confidence,
        min_effect=rules.effect,
        differences=(*differences(baseline.conditions, candidate.conditions), *shared),
        cases=cases,
    )


def _refuse_the_same(baseline: Side, candidate: Side) -> None:
    if set(baseline.sources) & set(candidate.sources):
        raise ConfigError(
            f"a run of {candidate.name} (candidate) is one of {baseline.name} (baseline), too",
            means="a run agrees with itself, which says nothing",
            next_step="name two runs; `hcio list` shows them, and `latest` is the last one",
        )


def differences(baseline: Conditions, candidate: Conditions) -> tuple[Difference, ...]:
    """The conditions that differ, by name. What neither side says isn't a difference."""
    names = sorted({*baseline, *candidate})
    return tuple(
        Difference(name, baseline.get(name), candidate.get(name))
        for name in names
        if baseline.get(name) != candidate.get(name)
    )


def _shared_differences(
    cases: tuple[CaseComparison, ...],
) -> tuple[tuple[Difference, ...], tuple[CaseComparison, ...]]:
    """Differences that every compared case has are said once."""
    compared = [case for case in cases if case.presence in ("both", "refused")]
    if not compared:
        return (), cases
    shared = tuple(
        found
        for found in compared[0].differences
        if all(found in case.differences for case in compared)
    )
    rest = tuple(
        replace(case, differences=tuple(d for d in case.differences if d not in shared))
        for case in cases
    )
    return shared, rest


def observed_conditions(repeats: Sequence[Observation]) -> dict[str, Any]:
    """What the results themselves say of how they came about."""
    results = [repeat.result for repeat in repeats]
    versions = {w.fio_version for r in results for w in r.workers.values() if w.fio_version}
    found: dict[str, Any] = {
        "fio version": ", ".join(sorted(versions)) or None,
        "workers": _one({result.expected_workers for result in results}),
        "workers in the figures": _one({result.received_workers for result in results}),
        "runtime (s)": _one({result.timing.runtime_s for result in results}),
    }
    return {name: value for name, value in found.items() if value is not None}


def _one(values: set[Any]) -> Any:
    if len(values) == 1:
        return next(iter(values))
    return ", ".join(sorted(str(value) for value in values))


def _case(name: str, baseline: Side, candidate: Side, rules: Rules) -> CaseComparison:
    before, after = baseline.cases.get(name, ()), candidate.cases.get(name, ())
    comparison = CaseComparison(name, "both", baseline_runs=len(before), candidate_runs=len(after))
    if not before:
        return replace(comparison, presence="new", words="no baseline")
    if not after:
        words = f"missing in {candidate.name}; counts as a failure"
        return replace(comparison, presence="missing", words=words)
    found = differences(
        {**observed_conditions(before), **baseline.case_conditions.get(name, {})},
        {**observed_conditions(after), **candidate.case_conditions.get(name, {})},
    )
    comparison = replace(comparison, differences=found)
    if not any(repeat.result.total for repeat in after):
        words = f"no figures in {candidate.name}: {_why_empty(after)}; counts as a failure"
        return replace(comparison, presence="missing", words=words)
    if words := _refusal(baseline, before, candidate, after) or _workload(
        name, baseline, candidate, found, rules
    ):
        return replace(comparison, presence="refused", words=words)
    doubts = (*_doubts(baseline.name, before), *_doubts(candidate.name, after))
    rows = rows_of(_usable(before), _usable(after), rules)
    return replace(comparison, rows=rows, doubts=doubts)


def _usable(repeats: Sequence[Observation]) -> list[Observation]:
    """Those with figures that no check found invalid."""
    return [r for r in repeats if r.result.total and r.result.verdict.value != "invalid"]


def _doubts(side: str, repeats: Sequence[Observation]) -> list[str]:
    """Which runs of a side are left out, and which have figures that aren't sure."""
    total = len(repeats)
    out = total - len(_usable(repeats))
    unsure = [r for r in _usable(repeats) if r.result.verdict.value == "unknown"]
    found = []
    if out:
        invalid = _codes(repeats, "invalid")
        why = f": {invalid}" if invalid else ""
        found.append(f"{side}: {out} of {total} runs left out, without figures or invalid{why}")
    if unsure:
        why = _codes(unsure, "unknown") or "no reason given"
        found.append(f"{side}: the figures of {len(unsure)} of {total} runs are unknown: {why}")
    return found


def _codes(repeats: Sequence[Observation], level: str) -> str:
    reasons = [reason for r in repeats for reason in r.result.verdict.reasons]
    return ", ".join(sorted({reason.code for reason in reasons if reason.level == level}))


def _why_empty(repeats: Sequence[Observation]) -> str:
    result = repeats[0].result
    return f"{result.outcome}" + (f" ({result.reason})" if result.reason else "")


def _refusal(
    baseline: Side,
    before: Sequence[Observation],
    candidate: Side,
    after: Sequence[Observation],
) -> str:
    """Why the figures of a case can't be compared; empty when they can."""
    if not any(repeat.result.total for repeat in before):
        return f"no figures in {baseline.name}: {_why_empty(before)}"
    for side, repeats in ((baseline, before), (candidate, after)):
        if not _usable(repeats):
            why = _codes(repeats, "invalid") or "no reason given"
            return f"the figures of {side.name} are invalid: {why}"
    return ""


def _workload(
    case: str, baseline: Side, candidate: Side, found: Sequence[Difference], rules: Rules
) -> str:
    """Why a case's workloads can't be compared; empty when they can."""
    shape = [item.name for item in found if item.name.rsplit("/", 1)[-1].split(".")[0] in SHAPE]
    if not shape or rules.anyway:
        return ""
    silent = [side.name for side in (baseline, candidate) if not side.case_conditions.get(case)]
    if silent:
        return f"{silent[0]} doesn't say what its workload was"
    return f"the workload differs ({', '.join(shape)}): two different things were measured"


def exit_code(comparisons: Sequence[Comparison]) -> int:
    """The exit code of several comparisons: the worst, 1 before 3 before 0."""
    codes = {comparison.exit_code for comparison in comparisons}
    return next((code for code in (EXIT_NO, EXIT_UNKNOWN) if code in codes), EXIT_GOOD)

"""Baseline against candidate: per case and metric the change, its interval and a verdict.

better, worse or same is said only with evidence; everything else is unknown. A case's metrics are
judged one by one only when the case as a whole differs (a protected test), so that comparing like
with like is rarely called different however many figures are looked at. What the two sides ran
under is compared first; what can't be compared is refused with its reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.errors import EXIT_GOOD, EXIT_NO, EXIT_UNKNOWN
from orchestrator.metrics import METRICS, Metric, show_value
from orchestrator.results import CaseResult
from orchestrator.statistics import (
    BETWEEN_RUNS,
    CONFIDENCE,
    Change,
    any_change,
    rank_change,
    series_change,
    welch_change,
)

Judgement = Literal["better", "worse", "same", "unknown"]
Presence = Literal["both", "missing", "new", "refused"]
Conditions = Mapping[str, Any]

#: Smaller changes are nobody's concern by default; storage runs repeat to about this.
MIN_EFFECT: Final = 0.03
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


class Rules(Struct, frozen=True):
    """How a comparison judges. Shares, not percents: 0.03 is 3 %."""

    metrics: tuple[Metric, ...] = METRICS
    min_effect: float = MIN_EFFECT
    confidence: float = CONFIDENCE
    between_runs: float = BETWEEN_RUNS
    #: the user's own: a larger change counts even where there are too few runs for an interval
    threshold: float | None = None
    #: compare cases whose workload differs, too
    anyway: bool = False

    @property
    def effect(self) -> float:
        """The least change that counts."""
        return self.min_effect if self.threshold is None else self.threshold


class Observation(Struct, frozen=True):
    """One run of one case. `series` holds equal windows by metric name, where there are any."""

    result: CaseResult
    series: Mapping[str, Sequence[float]] = {}


class Side(Struct, frozen=True):
    """The baseline or a candidate: its repeats by case, and what it ran under."""

    name: str
    cases: Mapping[str, tuple[Observation, ...]]
    conditions: Conditions = {}
    case_conditions: Mapping[str, Conditions] = {}


class Difference(Struct, frozen=True):
    """A condition that isn't the same on both sides; None is "not said"."""

    name: str
    baseline: Any
    candidate: Any


class Row(Struct, frozen=True):
    """One metric of one case. `words` say what the figures can't."""

    metric: str
    unit: str
    higher_is_better: bool
    baseline: float | None
    candidate: float | None
    change: float | None
    low: float | None
    high: float | None
    chance: float | None
    verdict: Judgement
    method: str = ""
    words: str = ""


class CaseComparison(Struct, frozen=True):
    """One case. `presence` says on which side it is; `words` why it isn't compared."""

    case: str
    presence: Presence
    rows: tuple[Row, ...] = ()
    differences: tuple[Difference, ...] = ()
    words: str = ""
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
    """Compare two sides, case by case. Cases of one side only are listed, not dropped."""
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
    if len(compared) < 2:
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
    if words := _refusal(baseline, before, candidate, after, found, rules):
        return replace(comparison, presence="refused", words=words)
    return replace(comparison, rows=_rows(before, after, rules))


def _why_empty(repeats: Sequence[Observation]) -> str:
    result = repeats[0].result
    return f"{result.outcome}" + (f" ({result.reason})" if result.reason else "")


def _refusal(
    baseline: Side,
    before: Sequence[Observation],
    candidate: Side,
    after: Sequence[Observation],
    found: Sequence[Difference],
    rules: Rules,
) -> str:
    """Why a case can't be compared; empty when it can."""
    if not any(repeat.result.total for repeat in before):
        return f"no figures in {baseline.name}: {_why_empty(before)}"
    for side, repeats in ((baseline, before), (candidate, after)):
        invalid = [r.result for r in repeats if r.result.verdict.value == "invalid"]
        if invalid:
            codes = sorted({reason.code for r in invalid for reason in r.verdict.reasons})
            return (
                f"the figures of {side.name} are invalid: {', '.join(codes) or 'no reason given'}"
            )
    shape = [item.name for item in found if item.name.rsplit("/", 1)[-1].split(".")[0] in SHAPE]
    if shape and not rules.anyway:
        return f"the workload differs ({', '.join(shape)}): two different things were measured"
    return ""


# -- the rows of a case ---------------------------------------------------------------------------


class _Pair(Struct, frozen=True):
    """The known values of one metric on both sides."""

    metric: Metric
    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def whole(self) -> bool:
        return bool(self.before and self.after) and min(*self.before, *self.after) > 0


def _rows(
    before: Sequence[Observation], after: Sequence[Observation], rules: Rules
) -> tuple[Row, ...]:
    pairs = [_Pair(m, _values(m, before), _values(m, after)) for m in rules.metrics]
    judge = _judge(pairs, before, after, rules)
    rows: list[Row] = []
    for pair in pairs:
        if not any(pair.before) and not any(pair.after):
            continue  # nothing of this kind was measured, or none was done, on either side
        words, verdict = _special(pair, before, after)
        if words:
            rows.append(_row(pair, Change(_ratio(pair)), verdict, words))
        else:
            rows.append(judge.row(pair))
    return tuple(rows)


def _values(metric: Metric, repeats: Sequence[Observation]) -> tuple[float, ...]:
    found = (metric.value(repeat.result.total) for repeat in repeats)
    return tuple(value for value in found if value is not None)


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _ratio(pair: _Pair) -> float | None:
    before, after = _mean(pair.before), _mean(pair.after)
    return None if not before or after is None else after / before - 1


def _special(
    pair: _Pair, before: Sequence[Observation], after: Sequence[Observation]
) -> tuple[str, Judgement]:
    """Zero and missing, in words; empty words when a ratio can be judged."""
    if not pair.before:
        return "no baseline value", "unknown"
    if not pair.after:
        return "missing in the candidate", "unknown"
    if pair.whole:
        kinds = _kinds(pair.metric, before), _kinds(pair.metric, after)
        if kinds[0] != kinds[1]:
            texts = [" and ".join(sorted(kind)) for kind in kinds]
            return f"{texts[0]} against {texts[1]} latency: two different things", "unknown"
        return "", "unknown"
    unit = pair.metric.unit
    words = f"was {show_value(_mean(pair.before), unit)}, now {show_value(_mean(pair.after), unit)}"
    fell = pair.metric.is_rate and not any(pair.after)
    return words, "worse" if fell else "unknown"


def _kinds(metric: Metric, repeats: Sequence[Observation]) -> set[str]:
    if metric.is_rate:
        return set()
    totals = [repeat.result.total for repeat in repeats if repeat.result.total is not None]
    found = [metric.latency(total) for total in totals]
    return {latency.kind for latency in found if latency is not None}


def _row(pair: _Pair, change: Change, verdict: Judgement, words: str) -> Row:
    return Row(
        metric=pair.metric.name,
        unit=pair.metric.unit,
        higher_is_better=pair.metric.higher_is_better,
        baseline=_mean(pair.before),
        candidate=_mean(pair.after),
        change=change.change if change.change is not None else _ratio(pair),
        low=change.low,
        high=change.high,
        chance=change.chance,
        verdict=verdict,
        method=change.method,
        words=words,
    )


def _judge(
    pairs: Sequence[_Pair],
    before: Sequence[Observation],
    after: Sequence[Observation],
    rules: Rules,
) -> _Judge:
    """The judge of a case: what the case as a whole says decides how its rows are read."""
    ready = [pair for pair in pairs if pair.whole]
    series = len(before) == len(after) == 1
    changed: float | None = None
    if not series:
        full = [p for p in ready if len(p.before) == len(before) and len(p.after) == len(after)]
        if full:
            changed = any_change(
                np.array([pair.before for pair in full], dtype=np.float64).T,
                np.array([pair.after for pair in full], dtype=np.float64).T,
            )
    confidence = rules.confidence
    if changed is None:
        confidence = 1 - (1 - confidence) / max(1, _hypotheses(ready, before[0], series=series))
    windows = (before[0].series, after[0].series) if series else ({}, {})
    return _Judge(rules, confidence, changed, *windows)


def _hypotheses(pairs: Sequence[_Pair], first: Observation, *, series: bool) -> int:
    """How many different things are tested: bytes and I/Os of one block size are one."""
    if series:
        shapes = {
            tuple(np.round(np.asarray(w) / np.mean(w), 6).tolist())
            for pair in pairs
            if (w := first.series.get(pair.metric.name)) and np.mean(w) > 0
        }
        return len(shapes)
    logs = [np.log([*p.before, *p.after]) for p in pairs if p.metric.is_rate]
    return len({tuple(np.round(values - values.mean(), 6).tolist()) for values in logs})


class _Judge(Struct, frozen=True):
    rules: Rules
    confidence: float
    #: the chance that the case as a whole is unchanged; None when that can't be tested
    changed: float | None
    before: Mapping[str, Sequence[float]]
    after: Mapping[str, Sequence[float]]

    def row(self, pair: _Pair) -> Row:
        """Judge one metric whose values are all above 0."""
        change = self._change(pair)
        verdict, words = self._verdict(pair.metric, change, _ratio(pair))
        return _row(pair, change, verdict, words)

    def _change(self, pair: _Pair) -> Change:
        name = pair.metric.name
        if name in self.before and name in self.after:
            return series_change(
                self.before[name], self.after[name], self.confidence, self.rules.between_runs
            )
        if len(pair.before) == len(pair.after) == 1:
            why = "one run a side and no series"
            return Change(_ratio(pair), why=why)
        if pair.metric.is_rate:
            return welch_change(pair.before, pair.after, self.confidence)
        return rank_change(pair.before, pair.after, self.confidence)

    def _verdict(
        self, metric: Metric, change: Change, ratio: float | None
    ) -> tuple[Judgement, str]:
        effect = self.rules.effect
        if change.low is None or change.high is None or change.change is None:
            return self._bare(metric, change, ratio)
        if -effect < change.low and change.high < effect:
            return "same", ""
        if not change.differs:
            return "unknown", f"could be {change.low:+.1%} to {change.high:+.1%}"
        if self.changed is not None and self.changed > 1 - self.rules.confidence:
            return "unknown", f"the case as a whole may be unchanged (chance {self.changed:.0%})"
        if abs(change.change) < effect:
            return "unknown", f"a change, perhaps below the least that counts ({effect:.1%})"
        return _direction(metric, change.change), ""

    def _bare(self, metric: Metric, change: Change, ratio: float | None) -> tuple[Judgement, str]:
        """Without an interval only the user's own threshold can say something."""
        threshold = self.rules.threshold
        if threshold is None or ratio is None or abs(ratio) < threshold:
            return "unknown", change.why
        words = f"beyond the threshold, by the bare figures ({change.why})"
        return _direction(metric, ratio), words


def _direction(metric: Metric, change: float) -> Judgement:
    return "better" if (change > 0) == metric.higher_is_better else "worse"


def exit_code(comparisons: Sequence[Comparison]) -> int:
    """The exit code of several comparisons: the worst, 1 before 3 before 0."""
    codes = {comparison.exit_code for comparison in comparisons}
    return next((code for code in (EXIT_NO, EXIT_UNKNOWN) if code in codes), EXIT_GOOD)

"""One case's figures on two sides: a row a metric, judged with evidence or not at all.

A case's metrics are judged one by one only when the case as a whole differs (a protected test), so
that comparing like with like is rarely called different however many figures are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import numpy as np
from msgspec import Struct

from orchestrator.gate import CONFIDENCE
from orchestrator.metrics import METRICS, Metric, show_value
from orchestrator.results import CaseResult
from orchestrator.statistics import (
    BETWEEN_RUNS,
    RANKS_FOR_ALL,
    Change,
    any_change,
    rank_change,
    series_change,
    welch_change,
)

Judgement = Literal["better", "worse", "same", "unknown"]

#: Smaller changes are nobody's concern by default; storage runs repeat to about this.
MIN_EFFECT: Final = 0.03


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


class _Pair(Struct, frozen=True):
    """The known values of one metric on both sides."""

    metric: Metric
    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def whole(self) -> bool:
        return bool(self.before and self.after) and min(*self.before, *self.after) > 0


def rows_of(
    before: Sequence[Observation], after: Sequence[Observation], rules: Rules
) -> tuple[Row, ...]:
    """The rows of a case; a figure that neither side has, or both have as 0, has none."""
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
            judged = self.before and self.after
            why = "this figure can't be judged by its seconds" if judged else "no series"
            why = f"one run a side, and {why}"
            return Change(_ratio(pair), why=why)
        if pair.metric.is_rate and min(len(pair.before), len(pair.after)) < RANKS_FOR_ALL:
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

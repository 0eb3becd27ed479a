"""Repeats of a case as samples: their interval, and whether another one is still wanted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from orchestrator.gate import CONFIDENCE
from orchestrator.metrics import METRICS, Metric, parse_metric
from orchestrator.repeats import group_repeats, split_repeat
from orchestrator.results import CaseResult
from orchestrator.statistics import GateDecision, Summary, decide, summarize
from orchestrator.suites import Repeats


class Spread(Struct, frozen=True):
    """One metric of one case over its repeats; `lacking` of them don't have the figure."""

    case: str
    metric: str
    unit: str
    summary: Summary
    lacking: int = 0


class Reached(Struct, frozen=True):
    """What a suite's gate (`repeats: {within: 2%}`) came to for one case: whether the interval is
    as narrow as asked, and the arithmetic in words."""

    case: str
    metric: str
    reached: bool
    text: str


def gates(cases: Iterable[CaseResult], repeats: Repeats) -> tuple[Reached, ...]:
    """What the gate came to, for the cases that are repeated; nothing without a gate."""
    if repeats.gate is None:
        return ()
    metric = parse_metric(repeats.metric)
    found: list[Reached] = []
    for case, own in group_repeats(cases).items():
        if any(split_repeat(result.case)[1] is not None for result in own):
            decision = decide(repeats.gate, _values(metric, own))
            found.append(Reached(case, metric.name, decision.reached, decision.text))
    return tuple(found)


def spreads(
    cases: Iterable[CaseResult],
    metrics: Sequence[Metric] = METRICS,
    confidence: float = CONFIDENCE,
) -> tuple[Spread, ...]:
    """Mean and interval of each metric, for the cases that ran more than once."""
    found: list[Spread] = []
    for case, repeats in group_repeats(cases).items():
        if len(repeats) < 2:
            continue
        for metric in metrics:
            values = _values(metric, repeats)
            if any(values):
                summary = summarize(values, confidence)
                lacking = len(repeats) - len(values)
                found.append(Spread(case, metric.name, metric.unit, summary, lacking))
    return tuple(found)


def _values(metric: Metric, repeats: Iterable[CaseResult]) -> list[float]:
    usable = (case for case in repeats if case.verdict.value != "invalid")
    found = (metric.value(case.total) for case in usable)
    return [value for value in found if value is not None]


def another_repeat(
    case_id: str, earlier: Iterable[CaseResult], repeats: Repeats
) -> GateDecision | None:
    """Whether the planned repeat `case_id` still has to run, after the cases `earlier`.

    None when there is nothing to decide: no gate, or a case that isn't repeated. A repeat with
    invalid figures doesn't count as one.
    """
    case, number = split_repeat(case_id)
    if number is None or repeats.gate is None:
        return None
    own = [result for result in earlier if split_repeat(result.case)[0] == case]
    return decide(repeats.gate, _values(parse_metric(repeats.metric), own))

"""Intervals, the variance gate and the change of two samples, against known truths."""

from __future__ import annotations

import numpy as np
import pytest

from orchestrator.gate import Gate
from orchestrator.statistics import (
    any_change,
    assignments,
    block_mean,
    decide,
    rank_change,
    series_change,
    summarize,
    welch_change,
)

TRIALS = 400


def test_interval_is_students() -> None:
    """Five repeats: the half width is t(4, 97.5 %) = 2.776 times s / sqrt(n)."""
    summary = summarize([98.0, 99.0, 100.0, 101.0, 102.0])
    assert summary.mean == 100.0
    assert summary.half_width == pytest.approx(2.7764 * 1.5811 / 5**0.5, rel=1e-4)


def test_one_value_has_no_interval() -> None:
    """One repeat has a mean and nothing that says how sure it is."""
    summary = summarize([5.0])
    assert summary.mean == 5.0
    assert (summary.stddev, summary.half_width, summary.relative) == (None, None, None)


@pytest.mark.parametrize(
    ("values", "go_on", "reached"),
    [
        ([], True, False),
        ([100.0, 100.0], True, False),
        ([100.0, 100.1, 99.9], False, True),
        ([100.0, 120.0, 80.0], True, False),
        ([100.0, 120.0, 80.0, 110.0, 90.0], False, False),
        ([0.0, 0.0, 0.0], True, False),
    ],
)
def test_gate(values: list[float], go_on: bool, reached: bool) -> None:
    """At least three repeats, at most five, and none more once the interval is within 2 %."""
    decision = decide(Gate(within=0.02, least=3, most=5), values)
    assert (decision.go_on, decision.reached) == (go_on, reached)
    assert ("gave up" in decision.text) == (not go_on and not reached)


def test_too_few_runs_are_unknown_and_say_so() -> None:
    """Two runs a side (three for ranks) give a ratio but no interval."""
    change = welch_change([100.0, 101.0], [100.0, 101.0])
    assert not change.known
    assert change.change == pytest.approx(0)
    assert "at least 3" in change.why
    assert not rank_change([1.0] * 3, [2.0] * 3).known


def test_zero_has_no_ratio() -> None:
    """A zero among the runs is said in words, not turned into a number."""
    change = welch_change([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    assert change.change is None
    assert "zero" in change.why


def test_ranks_agree_with_the_published_table() -> None:
    """Complete separation of 5 and 5 has the exact chance 2/252, and the interval leaves out 0."""
    change = rank_change([1.0, 1.1, 1.2, 1.3, 1.4], [2.0, 2.1, 2.2, 2.3, 2.4])
    assert change.chance == pytest.approx(2 / 252)
    assert change.differs
    assert not rank_change([1.0, 1.1, 1.2, 1.3], [1.0, 1.1, 1.2, 1.3]).differs


def test_ties_are_no_change() -> None:
    """Five runs in one histogram bin on both sides: change 0, interval 0 to 0."""
    change = rank_change([64.0] * 5, [64.0] * 5)
    assert (change.change, change.low, change.high, change.chance) == (0, 0, 0, 1)


def test_assignments_are_all_or_many() -> None:
    """5 + 5 runs can be dealt in 252 ways; 12 + 12 are drawn, always the same."""
    assert assignments(5, 5).shape == (252, 10)
    assert assignments(5, 5).sum(axis=1).tolist() == [5] * 252
    assert np.array_equal(assignments(12, 12), assignments(12, 12))


def _rates(noise: float, change: float) -> tuple[float, float, float]:
    """Share of trials found different: Welch, ranks, any of eight metrics; 5 runs a side."""
    draw = np.random.default_rng(7)
    welch = ranks = several = 0
    for _ in range(TRIALS):
        a = np.exp(draw.normal(0, noise, (5, 8)))
        b = np.exp(draw.normal(0, noise, (5, 8))) * (1 + change)
        welch += welch_change(a[:, 0].tolist(), b[:, 0].tolist()).differs
        ranks += rank_change(a[:, 0].tolist(), b[:, 0].tolist()).differs
        several += (any_change(a, b) or 0.0) <= 0.05
    return welch / TRIALS, ranks / TRIALS, several / TRIALS


def test_same_against_same_is_rarely_different() -> None:
    """Each test holds its 5 % level (three standard errors of 400 trials allowed)."""
    assert max(_rates(0.02, 0.0)) <= 0.05 + 3 * (0.05 * 0.95 / TRIALS) ** 0.5


def test_a_change_of_five_percent_is_found() -> None:
    """With runs that repeat to 1.5 %, each test finds 5 % in at least 80 % of trials."""
    assert min(_rates(0.015, 0.05)) >= 0.8


def _drifting(draw: np.random.Generator, count: int, likeness: float) -> list[float]:
    steps = draw.normal(0, 0.05 * (1 - likeness**2) ** 0.5, count)
    level, values = 0.0, []
    for step in steps.tolist():
        level = likeness * level + step
        values.append(1 + level)
    return values


def test_one_run_a_side_allows_for_seconds_that_look_alike() -> None:
    """Seconds with likeness 0.7 aren't taken for independent: same stays same, 30 % is found."""
    draw = np.random.default_rng(3)
    wrong = found = 0
    for _ in range(TRIALS):
        a, b = _drifting(draw, 60, 0.7), _drifting(draw, 60, 0.7)
        wrong += series_change(a, b).differs
        found += series_change(a, [1.3 * value for value in b]).differs
    assert wrong / TRIALS <= 0.05
    assert found / TRIALS >= 0.95


def test_one_run_a_side_never_claims_more_than_runs_repeat() -> None:
    """Two perfectly steady runs 5 % apart: unknown, because runs may differ by as much."""
    assert not series_change([100.0] * 60, [105.0] * 60).differs
    assert series_change([100.0] * 60, [105.0] * 60, between_runs=0.001).differs


def test_short_series_are_unknown() -> None:
    """Nine windows are too few."""
    assert block_mean([1.0] * 9) is None
    change = series_change([1.0] * 9, [2.0] * 60)
    assert not change.known
    assert "9 windows" in change.why


def test_metrics_that_never_vary_decide_nothing() -> None:
    """Without any spread there is nothing to test."""
    assert any_change(np.ones((5, 2)), np.ones((5, 2))) is None

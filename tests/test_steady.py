"""Steady state by SNIA's rule, and going on until it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.steady import (
    SteadyRule,
    decide,
    judge_rounds,
    judge_samples,
    judge_series,
    longest_s,
)

RULE = SteadyRule(window_s=50)


def test_flat_rounds_are_steady() -> None:
    """Five equal rounds have range and excursion 0."""
    found = judge_rounds([1000.0] * 5, RULE)
    assert found.steady is True
    assert (found.mean, found.range, found.slope, found.excursion) == (1000, 0, 0, 0)


def test_arithmetic_is_in_the_record() -> None:
    """Mean, extremes, fitted slope and excursion are those of a hand-worked example."""
    found = judge_rounds([98, 100, 101, 99, 102], RULE)
    assert found.mean == pytest.approx(100)
    assert (found.max, found.min, found.range) == (102, 98, 4)
    # slope = (-2*98 - 100 + 99 + 2*102) / 10
    assert found.slope == pytest.approx(0.7)
    assert found.excursion == pytest.approx(2.8)
    assert found.range_share == pytest.approx(0.04)
    assert found.excursion_share == pytest.approx(0.028)


def test_range_alone_can_fail() -> None:
    """A symmetric bump has no slope but a range over 20 %."""
    found = judge_rounds([90, 100, 115, 100, 90], RULE)
    assert found.steady is False
    assert found.slope == pytest.approx(0)
    assert "range" in found.reason
    assert "fitted" not in found.reason


def test_slope_alone_can_fail() -> None:
    """A climb of 12 % is within the range limit and beyond the excursion limit."""
    found = judge_rounds([94, 97, 100, 103, 106], RULE)
    assert found.steady is False
    assert "rises 12.0%" in found.reason
    assert "range" not in found.reason


def test_limits_themselves_are_steady() -> None:
    """Exactly 20 % of range and exactly 10 % of excursion pass, a hair more doesn't."""
    assert judge_rounds([90, 110, 100, 90, 110], RULE).steady is True
    assert judge_rounds([95, 97.5, 100, 102.5, 105], RULE).steady is True
    assert judge_rounds([94.9, 97.45, 100, 102.55, 105.1], RULE).steady is False


def test_limits_can_be_set() -> None:
    """A stricter rule says no to what SNIA's allows."""
    rule = SteadyRule(window_s=50, range_limit=0.05, excursion_limit=0.02)
    assert judge_rounds([98, 100, 101, 99, 102], rule).steady is False


def test_too_short_or_idle_is_not_told() -> None:
    """Fewer seconds than the window, and windows without I/O, are unknown, never steady."""
    assert judge_series([100.0] * 49, RULE).steady is None
    assert judge_series([], RULE).steady is None
    assert judge_series([0.0] * 50, RULE).steady is None
    assert judge_rounds([100.0] * 4, RULE).steady is None


def test_only_the_last_window_counts() -> None:
    """A wild begin before the window changes nothing."""
    assert judge_series([10.0, 5000.0] * 40 + [1000.0] * 50, RULE).steady is True


def test_noise_of_seconds_averages_out_in_rounds() -> None:
    """Seconds that jump by 40 % around a constant mean are steady: a round is one value."""
    assert judge_series([800.0, 1200.0] * 25, RULE).steady is True


def test_live_samples_need_one_in_each_round() -> None:
    """Polled rates are judged by rounds; a round without a sample makes it unknown."""
    samples = [(float(t), 100.0) for t in range(0, 50, 5)]
    assert judge_samples(samples, 50.0, RULE).steady is True
    gap = [(t, rate) for t, rate in samples if not 20 <= t < 30]
    assert judge_samples(gap, 50.0, RULE).steady is None
    rising = [(t, 50.0 + t) for t, _ in samples]
    assert judge_samples(rising, 50.0, RULE).steady is False


def test_case_goes_on_in_whole_windows_up_to_the_cap() -> None:
    """Steady ends it; otherwise one window more while it fits; then the cap ends it, recorded."""
    steady, rising = judge_series([100.0] * 50, RULE), judge_rounds([1, 2, 3, 4, 5], RULE)
    assert decide(50, steady, RULE, cap_s=200).ended_by == "steady"
    onward = decide(50, rising, RULE, cap_s=200)
    assert (onward.go_on, onward.until_s, onward.ended_by) == (True, 100, None)
    last = decide(150, rising, RULE, cap_s=199)
    assert (last.go_on, last.ended_by) == (False, "cap")
    assert "not steady" in last.reason
    assert longest_s(RULE, 199) == 150
    assert longest_s(RULE, 10) == 50


@given(
    st.lists(st.floats(1, 1e7), min_size=5, max_size=5),
    st.floats(0.001, 1000),
)
def test_verdict_has_no_unit(values: list[float], factor: float) -> None:
    """Scaling all rates leaves shares alone; reversing time only turns the slope."""
    one = judge_rounds(values, RULE)
    scaled = judge_rounds([value * factor for value in values], RULE)
    turned = judge_rounds(values[::-1], RULE)
    assert one.range_share == pytest.approx(scaled.range_share)
    assert one.excursion_share == pytest.approx(scaled.excursion_share, abs=1e-9)
    assert one.slope is not None
    assert turned.slope == pytest.approx(-one.slope, abs=1e-6)

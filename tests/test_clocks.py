"""Clock offsets, the choice of T0, and the skew of achieved starts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.clocks import ClockReading, Sample, choose_start, read_clock, start_skew

small = st.floats(0.0001, 5, allow_nan=False)


@given(offset=st.floats(-1e6, 1e6), ways=st.lists(st.tuples(small, small), min_size=1, max_size=9))
def test_the_true_offset_is_within_the_uncertainty(
    offset: float, ways: list[tuple[float, float]]
) -> None:
    """However unequal the two ways are, the true offset lies within offset ± uncertainty."""
    samples = [Sample(1e9, 1e9 + there + offset, 1e9 + there + back) for there, back in ways]
    reading = read_clock(samples)
    assert abs(reading.offset_s - offset) <= reading.uncertainty_s + 1e-6
    assert reading.uncertainty_s == pytest.approx(min(sum(way) for way in ways) / 2, abs=1e-6)


def test_the_least_round_trip_is_kept() -> None:
    """A slow exchange doesn't spoil the reading of a quick one."""
    reading = read_clock([Sample(0, 9, 4), Sample(10, 310.5, 11), Sample(20, 330, 26)])
    assert (reading.offset_s, reading.uncertainty_s, reading.samples) == (300.0, 0.5, 3)


def test_a_clock_of_no_exchange_is_an_error() -> None:
    """No sample, or only such that end before they began, give no offset (never 0)."""
    with pytest.raises(ValueError, match="no exchange"):
        read_clock([Sample(5, 5, 4)])


def test_conversion_goes_both_ways() -> None:
    """An instant converted to the worker's clock and back is the same."""
    reading = ClockReading(300.0, 0.1, 3, 0.0)
    assert reading.to_worker(1000.0) == 1300.0
    assert reading.to_controller(reading.to_worker(1000.0)) == 1000.0


def test_t0_grows_with_what_arming_takes() -> None:
    """The slowest worker and the number of waves move T0; the least lead is always kept."""
    assert choose_start(100, [], workers_at_once=8, workers=8) == 102
    assert choose_start(100, [0.1, 2.0], workers_at_once=2, workers=4) == 100 + 2 + 1.5 * 2 * 2.0


def test_skew_is_by_one_clock() -> None:
    """Starts by clocks that differ by 300 s are compared on the controller's."""
    clocks = {"a": ClockReading(300, 0.002, 8, 0), "b": ClockReading(-1, 0.001, 8, 0)}
    skew = start_skew(1000, {"a": 1300.25, "b": 999.5}, clocks)
    assert skew is not None
    assert skew.spread_s == pytest.approx(0.25)
    assert skew.late_s == pytest.approx({"a": 0.25, "b": 0.5})
    assert (skew.first, skew.last, skew.uncertainty_s) == (1000.25, 1000.5, 0.002)
    assert start_skew(1000, {}, clocks) is None

"""The histogram: fio's bins, exact addition, and percentiles by fio's own rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.histogram import (
    BINS,
    VALUES,
    Histogram,
    Ranks,
    add_up,
    add_up_each,
    bin_indexes,
    carried,
    percent_key,
    percentile_rows,
    rank,
)

latencies = st.lists(st.integers(0, 2**34 - 1), min_size=1, max_size=60)


def fio_index(value: int) -> int:
    """fio's own rule, written out bit by bit."""
    if value < 128:
        return value
    msb = value.bit_length() - 1
    error_bits = msb - 6
    base = (error_bits + 1) << 6
    return min(base + ((value >> error_bits) & 63), BINS - 1)


def test_bin_values_are_those_fio_prints() -> None:
    """Values are exact below 128 ns and the middle of the bin above."""
    assert VALUES[:128].tolist() == list(range(128))
    assert VALUES[128:131].tolist() == [129, 131, 133]
    assert len(VALUES) == BINS == 1856


def test_a_bin_value_lies_in_its_own_bin() -> None:
    """Reading a printed bin back gives the same bin, for every bin."""
    assert bin_indexes(VALUES).tolist() == list(range(BINS))


@settings(deadline=None)
@given(st.integers(0, 2**40))
def test_index_follows_fio(value: int) -> None:
    """Any latency lands in the bin that fio's shifts give."""
    assert bin_indexes(np.array([value], dtype=np.int64))[0] == fio_index(value)


@settings(deadline=None)
@given(latencies, latencies, latencies)
def test_addition_has_no_order(a: list[int], b: list[int], c: list[int]) -> None:
    """Adding is associative, commutative, and the same as counting all samples at once."""
    x, y, z = (Histogram.of_samples(part) for part in (a, b, c))
    assert (x + y) + z == x + (y + z) == z + (y + x) == Histogram.of_samples(a + b + c)
    assert (x + y + z).count == len(a + b + c)


@settings(deadline=None)
@given(latencies, st.sampled_from([1.0, 50.0, 95.0, 99.0, 99.9]))
def test_percentile_is_within_half_a_bin_of_the_nearest_rank(ns: list[int], p: float) -> None:
    """A percentile of a histogram is off by at most 0.8 % from that of the samples."""
    truth = sorted(ns)[rank(p, len(ns)) - 1]
    found = Histogram.of_samples(ns).percentile(p)
    assert found is not None
    assert abs(found - truth) <= 0.008 * truth + 1


@settings(deadline=None)
@given(latencies)
def test_percentiles_rise_and_stay_below_the_maximum(ns: list[int]) -> None:
    """Higher percentiles are never lower, and none exceeds the true maximum when capped."""
    histogram = Histogram.of_samples(ns)
    values = [histogram.percentile(p, cap=max(ns)) for p in (0.1, 50.0, 99.0, 100.0)]
    assert values == sorted(values, key=lambda value: value or 0)
    assert all(value is not None and value <= max(ns) for value in values)


@settings(deadline=None)
@given(latencies)
def test_bins_round_trip(ns: list[int]) -> None:
    """fio's form and back is the same histogram."""
    histogram = Histogram.of_samples(ns)
    assert Histogram.of(histogram.bins()) == histogram


@settings(deadline=None)
@given(st.lists(latencies, min_size=1, max_size=5))
def test_rows_agree_with_single_histograms(parts: list[list[int]]) -> None:
    """Percentiles of many histograms at once are those of each alone."""
    histograms = [Histogram.of_samples(part) for part in parts]
    rows = percentile_rows(histograms, (50.0, 99.9))
    assert rows.tolist() == [[h.percentile(50.0), h.percentile(99.9)] for h in histograms]


@settings(deadline=None)
@given(st.floats(0.001, 100.0), st.integers(1, 10**12))
def test_rank_is_exact(percent: float, count: int) -> None:
    """The rank is the ceiling of p/100 * N in exact arithmetic."""
    from fractions import Fraction

    assert rank(percent, count) == max(1, math.ceil(Fraction(percent) * count / 100))


@settings(deadline=None)
@given(st.lists(st.integers(1, 2**56), min_size=1, max_size=4))
def test_ranks_of_many_counts_are_those_of_each(counts: list[int]) -> None:
    """Many ranks at once are exact too, also where 64 bits are too few for the product."""
    percents = (1.0, 50.0, 99.9, 99.999, 100.0)
    assert Ranks(percents).of(counts).tolist() == [[rank(p, n) for p in percents] for n in counts]


@settings(deadline=None)
@given(st.lists(st.lists(latencies, min_size=1, max_size=3), min_size=1, max_size=4))
def test_groups_are_added_as_each_alone(groups: list[list[list[int]]]) -> None:
    """Sums of many groups at once are those of each, with the samples' count and mean."""
    histograms = [[Histogram.of_samples(part) for part in group] for group in groups]
    for group, found in zip(groups, add_up_each(histograms), strict=True):
        samples = [ns for part in group for ns in part]
        assert found == add_up([Histogram.of_samples(part) for part in group])
        assert found.count == len(samples)
        assert math.isclose(found.mean, math.fsum(samples) / len(samples), rel_tol=0.008)


def test_rank_takes_percent_as_binary_double() -> None:
    """99.9 as a double is a little more than 99.9, so of 1,000 samples it is the last."""
    assert rank(99.9, 1000) == 1000


def test_empty_histogram_has_no_percentile() -> None:
    """Without samples a percentile is None, never 0."""
    assert Histogram.empty().percentile(50.0) is None
    assert (Histogram.empty() + Histogram.empty()).percentile(50.0) is None


@pytest.mark.parametrize(
    ("percent", "count", "answer"),
    [
        (50.0, 1, True),
        (50.0, 0, False),
        (99.0, 49, False),
        (99.0, 50, True),
        (99.9, 499, False),
        (99.9, 500, True),
        (99.999, 49_999, False),
        (99.999, 50_000, True),
    ],
)
def test_a_percentile_needs_samples_beyond_it(percent: float, count: int, answer: bool) -> None:
    """A percentile is carried when at least half a sample is expected beyond it."""
    assert carried(percent, count) is answer


def test_keys_are_written_as_people_write_them() -> None:
    """Percentile names carry no needless zeros."""
    assert [percent_key(p) for p in (50.0, 99.9, 99.999)] == ["50", "99.9", "99.999"]

"""fio's latency histogram: bins, their values, addition, and the percentiles of a sum.

fio counts latencies in 29 groups of 64 bins: exact below 128 ns, then 64 bins to every power of
two (bin width under 1.6 % of its value). A json+ document prints a bin as its middle value in ns
(`stat.c`: plat_val_to_idx, plat_idx_to_val). Adding counts bin by bin is exact; a percentile of
the sum is the smallest bin value whose cumulative count reaches p/100 * N.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

GROUPS = 29
GROUP_BINS = 64
BINS = GROUPS * GROUP_BINS

#: The percentiles that results carry, in percent.
PERCENTS: tuple[float, ...] = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999)

#: How many samples must be expected beyond a percentile for a count to carry it.
CARRIED_BEYOND = 0.5

#: Up to so many histograms are added one by one, which is the quicker way then.
_FEW = 4

Counts = NDArray[np.int64]


def _bin_values() -> Counts:
    index = np.arange(BINS, dtype=np.int64)
    error_bits = np.maximum(index // GROUP_BINS - 1, 0)
    base = np.int64(1) << (error_bits + 6)
    middle = (np.int64(1) << error_bits) // 2
    wide = base + ((index % GROUP_BINS) << error_bits) + middle
    values: Counts = np.where(index < 2 * GROUP_BINS, index, wide)
    values.flags.writeable = False
    return values


#: The value in ns that fio prints for each bin, ascending.
VALUES = _bin_values()


def bin_indexes(ns: Counts) -> Counts:
    """Return the bin of each latency in ns; what is too long lands in the last bin."""
    # A float64 holds exponent and the six leading mantissa bits side by side: exactly fio's
    # group and bin from 64 ns up. Exponent bias 1023; group 1 starts at 2**6.
    places: Counts = ns.astype(np.float64).view(np.int64)
    places >>= 52 - 6
    places -= (1023 + 5) * GROUP_BINS
    small = ns < GROUP_BINS
    if small.any():
        places[small] = ns[small]
    return np.minimum(places, BINS - 1, out=places)


def percent_key(percent: float) -> str:
    """Name a percentile as results do: `50`, `99.9`, `99.999`."""
    return f"{percent:.6f}".rstrip("0").rstrip(".")


#: The percentiles' names in results, in the order of PERCENTS.
PERCENT_KEYS: tuple[str, ...] = tuple(percent_key(percent) for percent in PERCENTS)


def carried(percent: float, count: int) -> bool:
    """Whether `count` samples can carry a percentile.

    At least half a sample must be expected beyond it, so p99 takes 50 samples, p99.9 500 and
    p99.999 50,000; with fewer it would be the maximum under another name. The bound is as low
    as it honestly can be because a short test of a slow disk still has a tail worth seeing.
    """
    return count > 0 and count * (100.0 - percent) / 100.0 >= CARRIED_BEYOND - 1e-9


#: The least count that carries each of PERCENTS, in their order.
LEAST_COUNTS: tuple[int, ...] = tuple(
    next(count for count in (1, 5, 10, 50, 500, 5_000, 50_000) if carried(percent, count))
    for percent in PERCENTS
)


def rank(percent: float, count: int) -> int:
    """The smallest whole number >= percent/100 * count, percent taken as the binary double it is.

    Exact integers, because fio computes in long double and a double's rounding can be one off.
    """
    numerator, denominator = percent.as_integer_ratio()
    return max(1, -(-numerator * count // (denominator * 100)))


def _scaled(percents: Sequence[float]) -> list[tuple[int, int]]:
    ratios = [percent.as_integer_ratio() for percent in percents]
    return [(numerator, denominator * 100) for numerator, denominator in ratios]


_SCALED = _scaled(PERCENTS)


def percentile_rows(
    histograms: Sequence[Histogram], percents: Sequence[float] = PERCENTS
) -> Counts:
    """Percentiles in ns of many histograms at once, each with at least one sample.

    Shape (len(histograms), len(percents)).
    """
    running = np.concatenate([histogram.counts for histogram in histograms]).cumsum()
    places = np.concatenate([histogram.places for histogram in histograms])
    last, ends, before = -1, [], [0]
    for histogram in histograms:
        last += len(histogram.counts)
        ends.append(int(running[last]))
    before += ends[:-1]
    scaled = _SCALED if percents is PERCENTS else _scaled(percents)
    wanted = [
        [start + (-(-num * (end - start) // den) or 1) for num, den in scaled]
        for start, end in zip(before, ends, strict=True)
    ]
    values: Counts = VALUES[places[np.searchsorted(running, wanted)]]
    return values


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Counts of the bins in use: `places` (bin indexes, ascending, once each) and `counts`."""

    places: Counts
    counts: Counts

    @classmethod
    def empty(cls) -> Histogram:
        """A histogram without samples."""
        return cls(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))

    @classmethod
    def of_counts(cls, counts: Counts) -> Histogram:
        """Build from a count for every bin, shape (BINS,)."""
        places = np.flatnonzero(counts)
        return cls(places, counts[places])

    @classmethod
    def of(cls, bins: Mapping[int, int]) -> Histogram:
        """Build from fio's `bins` object: bin value in ns to count."""
        keys = np.fromiter(bins.keys(), np.int64, len(bins))
        numbers = np.fromiter(bins.values(), np.int64, len(bins))
        counts = np.zeros(BINS, dtype=np.int64)
        np.add.at(counts, bin_indexes(keys), numbers)
        return cls.of_counts(counts)

    @classmethod
    def of_samples(cls, ns: Iterable[int]) -> Histogram:
        """Count single latencies in ns, as fio would."""
        indexes = bin_indexes(np.fromiter(ns, np.int64))
        return cls.of_counts(np.bincount(indexes, minlength=BINS).astype(np.int64))

    @property
    def count(self) -> int:
        """The number of samples."""
        return int(self.counts.sum())

    def __add__(self, other: Histogram) -> Histogram:
        return add_up([self, other])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        same = np.array_equal(self.places, other.places)
        return same and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]  # equal by content, and the content is an array

    def bins(self) -> dict[int, int]:
        """fio's own form: bin value in ns to count, empty bins left out."""
        return dict(zip(VALUES[self.places].tolist(), self.counts.tolist(), strict=True))

    def percentile(self, percent: float, *, cap: int | None = None) -> int | None:
        """The percentile in ns, at most `cap` (the true maximum); None without samples.

        A bin's value is its middle, so the highest percentiles may lie above the maximum.
        """
        if not len(self.counts):
            return None
        value = int(percentile_rows([self], (percent,))[0, 0])
        return value if cap is None else min(value, cap)


def add_up(histograms: Sequence[Histogram]) -> Histogram:
    """The sum of histograms, bin by bin."""
    total = np.zeros(BINS, dtype=np.int64)
    if len(histograms) <= _FEW:
        for histogram in histograms:
            # Places come once each in a histogram, so plain indexing adds all of them.
            total[histogram.places] += histogram.counts
    else:
        places = np.concatenate([histogram.places for histogram in histograms])
        np.add.at(total, places, np.concatenate([histogram.counts for histogram in histograms]))
    return Histogram.of_counts(total)

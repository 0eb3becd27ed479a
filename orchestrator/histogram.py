"""fio's latency histogram: bins, their values, addition, and the percentiles of a sum.

fio counts latencies in 29 groups of 64 bins: exact below 128 ns, then 64 bins to every power of
two (bin width under 1.6 % of its value). A json+ document prints a bin as its middle value in ns
(`stat.c`: plat_val_to_idx, plat_idx_to_val). Adding counts bin by bin is exact; a percentile of
the sum is the smallest bin value whose cumulative count reaches p/100 * N.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

GROUPS = 29
GROUP_BINS = 64
BINS = GROUPS * GROUP_BINS

#: The percentiles that results carry, in percent.
PERCENTS: tuple[float, ...] = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999)

#: How many samples must be expected beyond a percentile for a count to carry it.
CARRIED_BEYOND = 0.5

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
#: The last bin's value: whatever is longer is counted there too.
LAST_VALUE = int(VALUES[-1])
_VALUE_LIST: list[int] = VALUES.tolist()
_FLOAT_VALUES = VALUES.astype(np.float64)


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


class Ranks:
    """The ranks of some percentiles for many counts at once, as `rank` gives each of them.

    A percent as people write it (99.9) is a fraction a/b, and its binary double lies beside that
    by so little that only where a/b * N / 100 is whole the side matters, for counts that are not
    astronomic.
    """

    def __init__(self, percents: Sequence[float]) -> None:
        written = [Fraction(repr(percent)) for percent in percents]
        beside = [Fraction(p) - part for p, part in zip(percents, written, strict=True)]
        self._percents = percents
        self._times = np.array([part.numerator for part in written])
        self._parts = np.array([100 * part.denominator for part in written])
        self._up = self._parts - 1 + np.array([off > 0 for off in beside])
        # Below this, N times what lies beside is less than one part, and products fit in 64 bits.
        told = [
            int(1 / abs(off * part.denominator))
            for off, part in zip(beside, written, strict=True)
            if off
        ]
        self._most = min([*told, 2**62 // int(self._times.max())])

    def of(self, counts: Sequence[int]) -> Counts:
        """Shape (len(counts), number of percents); every count is 1 or more."""
        if max(counts) >= self._most:
            return np.array([[rank(p, count) for p in self._percents] for count in counts])
        ranks: Counts = (np.array(counts)[:, None] * self._times + self._up) // self._parts
        return np.maximum(ranks, 1)


_RANKS = Ranks(PERCENTS)


def percentile_rows(
    histograms: Sequence[Histogram], percents: Sequence[float] = PERCENTS
) -> Counts:
    """Percentiles in ns of many histograms at once, each with at least one sample.

    Shape (len(histograms), len(percents)).
    """
    running = np.concatenate([histogram.counts for histogram in histograms]).cumsum()
    places = np.concatenate([histogram.places for histogram in histograms])
    counts = [histogram.count for histogram in histograms]
    before = list(accumulate(counts, initial=0))[:-1]
    ranks = _RANKS if percents is PERCENTS else Ranks(percents)
    wanted = ranks.of(counts) + np.array(before)[:, None]
    values: Counts = VALUES[places[running.searchsorted(wanted)]]
    return values


class Histogram(Struct, frozen=True, gc=False, eq=False):
    """Counts of the bins in use: `places` (bin indexes, ascending, once each) and `counts`."""

    places: Counts
    counts: Counts
    #: the number of samples
    count: int
    #: their mean in ns as the bins tell it, 0 without samples
    mean: float

    @classmethod
    def empty(cls) -> Histogram:
        """A histogram without samples."""
        return cls(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), 0, 0.0)

    @classmethod
    def of_counts(cls, counts: Counts) -> Histogram:
        """Build from a count for every bin, shape (BINS,)."""
        count = int(counts.sum())
        places = counts.nonzero()[0]
        mean = float(counts @ _FLOAT_VALUES) / count if count else 0.0
        return cls(places, counts[places], count, mean)

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

    def __add__(self, other: Histogram) -> Histogram:
        return add_up([self, other])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        same = np.array_equal(self.places, other.places)
        return same and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]  # equal by content, and the content is an array

    def ends(self) -> tuple[int, int]:
        """The values in ns of the first and the last bin in use; there have to be samples."""
        return _VALUE_LIST[self.places[0]], _VALUE_LIST[self.places[-1]]

    def bins(self) -> dict[int, int]:
        """fio's own form: bin value in ns to count, empty bins left out."""
        return dict(zip(VALUES[self.places].tolist(), self.counts.tolist(), strict=True))

    def percentile(self, percent: float, *, cap: int | None = None) -> int | None:
        """The percentile in ns, at most `cap` (the true maximum); None without samples.

        A bin's value is its middle, so the highest percentiles may lie above the maximum.
        """
        if not self.count:
            return None
        value = int(percentile_rows([self], (percent,))[0, 0])
        return value if cap is None else min(value, cap)


def slices(places: Counts, counts: Counts, starts: Counts, ends: Counts) -> list[Histogram]:
    """The histograms that lie one after another in `places` and `counts`, none of them empty.

    What lies between an end and the next start has to have counts of 0.
    """
    totals = np.add.reduceat(counts, starts)
    means = np.add.reduceat(counts * _FLOAT_VALUES[places], starts) / np.maximum(totals, 1)
    bounds = zip(starts.tolist(), ends.tolist(), totals.tolist(), means.tolist(), strict=True)
    return [
        Histogram(places[start:end], counts[start:end], total, mean)
        for start, end, total, mean in bounds
    ]


def add_up(histograms: Sequence[Histogram]) -> Histogram:
    """The sum of histograms, bin by bin."""
    if not histograms:
        return Histogram.empty()
    total = np.zeros(BINS, dtype=np.int64)
    places = np.concatenate([histogram.places for histogram in histograms])
    np.add.at(total, places, np.concatenate([histogram.counts for histogram in histograms]))
    return Histogram.of_counts(total)


def add_up_each(groups: Sequence[Sequence[Histogram]]) -> list[Histogram]:
    """The sum of each group of histograms, bin by bin; every group has samples.

    Quicker than `add_up` for many groups of few: it never looks at bins that aren't in use.
    """
    if not groups:
        return []
    members = [histogram for group in groups for histogram in group]
    rows = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    lengths = [len(histogram.places) for histogram in members]
    # One key for row and bin. Each part rises already, which a stable sort makes use of.
    keys = np.concatenate([histogram.places for histogram in members])
    keys += np.repeat(rows * BINS, lengths)
    order = keys.argsort(kind="stable")
    keys = keys[order]
    firsts = np.concatenate([[True], keys[1:] != keys[:-1]]).nonzero()[0]
    counts = np.concatenate([histogram.counts for histogram in members])
    counts = np.add.reduceat(counts[order], firsts)
    keys = keys[firsts]
    bounds = keys.searchsorted(np.arange(len(groups) + 1) * BINS)
    return slices(keys % BINS, counts, bounds[:-1], bounds[1:])

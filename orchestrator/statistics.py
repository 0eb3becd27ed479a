"""How sure a figure is: intervals of repeats, the variance gate, the change of two samples.

Changes are ratios minus 1 and are worked out on logarithms, so that +10 % and -9.1 % mirror each
other. Few repeats of rates are compared by Welch's t (Welch 1947), all others by ranks
(Mann and Whitney 1947, exact over permutations, ties included; interval of Hodges and Lehmann
1963). One run a side is compared by block means of its seconds (Law and Kelton, batch means).
Too few samples give no interval and say why: that is unknown, never "no change".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from orchestrator.gate import CONFIDENCE, Gate

Numbers = Sequence[float]
Floats = NDArray[np.float64]

#: Below these many runs a side no change is judged; ranks of 3 + 3 can't reach 5 %.
LEAST_RUNS, LEAST_RUNS_FOR_RANKS = 3, 4
#: From here on ranks lose little against Welch's t, and a run that stalled can't spoil them.
RANKS_FOR_ALL = 5
#: Seconds (or other equal windows) that one run must have to be compared on its own.
LEAST_WINDOWS = 10
#: Spread between runs of the same thing that one run can't show, as a share of its mean. Storage
#: benchmarks repeat to a few percent; settable, because a calm lab may know better.
BETWEEN_RUNS = 0.03

_MOST_ASSIGNMENTS = 20_000
_BLOCK_COUNTS = (12, 10, 8, 6, 5)
#: Neighbouring blocks may look this much alike before longer blocks are tried.
_CALM = 0.25


class Summary(Struct, frozen=True):
    """Repeats of one figure. `half_width` is of the mean's interval; None with one repeat."""

    count: int
    mean: float
    stddev: float | None
    half_width: float | None
    confidence: float

    @property
    def relative(self) -> float | None:
        """The half width as a share of the mean; None when it isn't known."""
        if self.half_width is None or self.mean == 0:
            return None
        return self.half_width / abs(self.mean)


def summarize(values: Numbers, confidence: float = CONFIDENCE) -> Summary:
    """Mean, deviation and Student's interval of at least one value."""
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return Summary(count, mean, None, None, confidence)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
    half = t_quantile(count - 1, confidence) * deviation / math.sqrt(count)
    return Summary(count, mean, deviation, half, confidence)


def t_quantile(df: float, confidence: float) -> float:
    """Student's two-sided quantile."""
    from scipy.special import stdtrit  # scipy takes 0.2 s to load; most commands don't need it

    return float(stdtrit(df, 0.5 + confidence / 2))


def _t_chance(t: float, df: float) -> float:
    from scipy.special import stdtr

    return 2 * float(stdtr(df, -abs(t)))


class GateDecision(Struct, frozen=True):
    """Whether another repeat is wanted; `reached` says whether the interval is small enough."""

    go_on: bool
    reached: bool
    text: str


def decide(gate: Gate, values: Numbers) -> GateDecision:
    """Whether to repeat once more, after the repeats that gave `values`."""
    if len(values) < max(2, gate.least):
        text = f"{len(values)} of at least {max(2, gate.least)} repeats"
        return GateDecision(len(values) < gate.most, False, text)
    summary = summarize(values, gate.confidence)
    wide = summary.relative
    shown = "not known" if wide is None else f"±{wide:.1%}"
    text = f"interval {shown} of the mean after {len(values)} repeats, asked ±{gate.within:.1%}"
    reached = wide is not None and wide <= gate.within
    if not reached and len(values) >= gate.most:
        text += f"; gave up at the cap of {gate.most}"
    return GateDecision(not reached and len(values) < gate.most, reached, text)


class Change(Struct, frozen=True):
    """Candidate over baseline, minus 1. Without an interval `why` says what is missing."""

    change: float | None
    low: float | None = None
    high: float | None = None
    #: chance of a difference as large when both are the same
    chance: float | None = None
    method: str = ""
    why: str = ""

    @property
    def known(self) -> bool:
        """Whether there is an interval to judge by."""
        return self.low is not None and self.high is not None

    @property
    def differs(self) -> bool:
        """Whether the interval leaves out "no change"."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


def _plain_change(baseline: Numbers, candidate: Numbers, why: str) -> Change:
    before, after = float(np.mean(baseline)), float(np.mean(candidate))
    return Change(None if before == 0 else after / before - 1, why=why)


def _lacking(baseline: Numbers, candidate: Numbers, least: int) -> str:
    fewest = min(len(baseline), len(candidate))
    if fewest < least:
        return f"{fewest} run{'s' if fewest != 1 else ''} on one side, at least {least} are needed"
    if min(*baseline, *candidate) <= 0:
        return "a zero among the figures has no ratio"
    return ""


def welch_change(baseline: Numbers, candidate: Numbers, confidence: float = CONFIDENCE) -> Change:
    """Compare repeats by Welch's t on logarithms; each value is one run's figure."""
    if why := _lacking(baseline, candidate, LEAST_RUNS):
        return _plain_change(baseline, candidate, why)
    a, b = np.log(np.asarray(baseline)), np.log(np.asarray(candidate))
    parts = [(float(x.var(ddof=1)) / len(x), len(x) - 1.0) for x in (a, b)]
    return _from_parts(float(b.mean() - a.mean()), parts, confidence, "Welch")


def _from_parts(
    apart: float, parts: Sequence[tuple[float, float]], confidence: float, method: str
) -> Change:
    """A change from a difference of logarithms and its parts of variance with their freedom."""
    variance = math.fsum(part for part, _ in parts)
    # Welch and Satterthwaite; a part known beforehand has infinite freedom.
    spread = math.fsum(part**2 / df for part, df in parts if df < math.inf)
    df = variance**2 / spread if spread > 0 else 1e9
    error = math.sqrt(variance)
    half = t_quantile(df, confidence) * error
    chance = _t_chance(apart / error, df) if error > 0 else float(apart == 0)
    return Change(
        math.expm1(apart), math.expm1(apart - half), math.expm1(apart + half), chance, method
    )


def assignments(first: int, second: int, seed: int = 1) -> NDArray[np.bool_]:
    """Ways to deal `first + second` runs to two sides, shape (ways, runs), True for the second.

    All of them, or 20,000 drawn with `seed` where there are more.
    """
    total = first + second
    if math.comb(total, second) <= _MOST_ASSIGNMENTS:
        chosen = np.array(list(itertools.combinations(range(total), second)), dtype=np.intp)
    else:
        draws = np.random.default_rng(seed).random((_MOST_ASSIGNMENTS, total))
        chosen = np.argsort(draws, axis=1)[:, :second]
    ways = np.zeros((len(chosen), total), dtype=np.bool_)
    np.put_along_axis(ways, chosen, True, axis=1)
    return ways


def rank_change(baseline: Numbers, candidate: Numbers, confidence: float = CONFIDENCE) -> Change:
    """Compare repeats by their ranks, whatever their distribution; ties are allowed."""
    if why := _lacking(baseline, candidate, LEAST_RUNS_FOR_RANKS):
        return _plain_change(baseline, candidate, why)
    a, b = np.log(np.asarray(baseline)), np.log(np.asarray(candidate))
    ways = assignments(len(a), len(b))
    ranks = _midranks(np.concatenate((a, b)))
    expected = len(b) * (len(a) + len(b) + 1) / 2
    observed = abs(float(ranks[len(a) :].sum()) - expected)
    chance = float(np.mean(np.abs(ways @ ranks - expected) >= observed - 1e-9))
    pairs = np.sort((b[:, None] - a[None, :]).ravel())
    below = _rank_limit(ways, len(b), confidence)
    low, high = float(pairs[below]), float(pairs[len(pairs) - 1 - below])
    middle = float(np.median(pairs))
    return Change(math.expm1(middle), math.expm1(low), math.expm1(high), chance, "Mann-Whitney")


def _midranks(values: Floats) -> Floats:
    _, place, number = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(number)
    middle: Floats = (last - (number - 1) / 2)[place]
    return middle


def _rank_limit(ways: NDArray[np.bool_], second: int, confidence: float) -> int:
    """How many pairs may be left out at each end of the sorted differences."""
    ranks = np.arange(1, ways.shape[1] + 1)
    u = np.sort(ways @ ranks) - second * (second + 1) // 2
    allowed = math.floor(len(u) * (1 - confidence) / 2 + 1e-9)
    # the largest k with P(U < k) <= alpha/2; index k - 1 of the sorted pairs is the limit
    k = int(u[allowed])
    return max(0, k - 1)


def any_change(baseline: Floats, candidate: Floats) -> float | None:
    """The chance that the largest change among several metrics is mere luck.

    Arguments have shape (runs, metrics), all above 0. A permutation test of the largest
    difference in units of each metric's own spread: it holds its level however the metrics hang
    together. None with fewer than 4 runs a side or no metric that varies.
    """
    if min(len(baseline), len(candidate)) < LEAST_RUNS_FOR_RANKS or baseline.shape[1] == 0:
        return None
    logs = np.log(np.concatenate((baseline, candidate)))
    logs = _clipped(logs)
    logs = logs - logs.mean(axis=0)
    spread = logs.std(axis=0)
    logs = logs[:, spread > 1e-12] / spread[spread > 1e-12]
    if logs.shape[1] == 0:
        return None
    ways = assignments(len(baseline), len(candidate))
    apart = np.abs(ways @ logs).max(axis=1)
    observed = float(np.abs(logs[len(baseline) :].sum(axis=0)).max())
    return float(np.mean(apart >= observed - 1e-9))


def _clipped(logs: Floats) -> Floats:
    """One stalled run must not hide a change: values beyond 3 median deviations are drawn in.

    Done to both sides together, so the test keeps its level.
    """
    middle = np.median(logs, axis=0)
    reach = 3 * np.median(np.abs(logs - middle), axis=0)
    clipped: Floats = np.where(reach > 0, np.clip(logs, middle - reach, middle + reach), logs)
    return clipped


class BlockMean(Struct, frozen=True):
    """The mean of a run's windows and its error, the likeness of neighbours allowed for."""

    mean: float
    error: float
    blocks: int
    block_length: int


def block_mean(windows: Numbers) -> BlockMean | None:
    """Mean and standard error of one run's equal windows; None with fewer than 10.

    Windows are gathered in ever longer blocks until neighbouring blocks are nearly independent
    (5 blocks at the fewest); what likeness is left widens the error as in an AR(1) process.
    """
    count = len(windows)
    if count < LEAST_WINDOWS:
        return None
    values = np.asarray(windows, dtype=np.float64)
    for blocks in _BLOCK_COUNTS:
        length = count // blocks
        if length == 0:
            continue
        means = values[count - blocks * length :].reshape(blocks, length).mean(axis=1)
        likeness = _likeness(means)
        if likeness <= _CALM or blocks == _BLOCK_COUNTS[-1]:
            break
    # The estimate is too low by about 1 / blocks (Marriott and Pope 1954).
    likeness = min(max(likeness + 1 / blocks, 0.0), 0.8)
    variance = float(means.var(ddof=1)) / blocks * (1 + likeness) / (1 - likeness)
    return BlockMean(float(values.mean()), math.sqrt(variance), blocks, length)


def _likeness(values: Floats) -> float:
    """Lag-1 autocorrelation."""
    centred = values - values.mean()
    total = float(centred @ centred)
    return 0.0 if total == 0 else float(centred[1:] @ centred[:-1]) / total


def series_change(
    baseline: Numbers,
    candidate: Numbers,
    confidence: float = CONFIDENCE,
    between_runs: float = BETWEEN_RUNS,
) -> Change:
    """Compare one run with one run by their windows (a rate or a mean a second).

    What differs from run to run can't be seen inside one; `between_runs` is added for each side.
    """
    a, b = block_mean(baseline), block_mean(candidate)
    if a is None or b is None:
        fewest = min(len(baseline), len(candidate))
        why = f"one run a side with {fewest} windows, at least {LEAST_WINDOWS} are needed"
        return Change(None, why=why)
    if a.mean <= 0 or b.mean <= 0:
        return Change(None, why="a zero among the figures has no ratio")
    parts = [((side.error / side.mean) ** 2, side.blocks - 1.0) for side in (a, b)]
    parts.append((2 * between_runs**2, math.inf))
    return _from_parts(math.log(b.mean / a.mean), parts, confidence, "block means")

"""One common clock for the logs of all workers: rows in, amounts in each second out.

A row says what happened in the interval that ends at its time, so its amount (rate times length)
is shared between the seconds which that interval touches: nothing is counted twice or lost, and
clocks that run apart can't make a dip that wasn't there. Everything is worked out for one window
of seconds at a time, so memory doesn't grow with the length of a run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from orchestrator.fio_logs import INTERVAL_MS
from orchestrator.log_rows import HistogramRows, Integers, Rows, coarse_percentiles

Figures = NDArray[np.float64]

DIRECTIONS: Final = ("read", "write", "trim")
#: The percentiles over time, in percent.
SERIES_PERCENTS: Final[tuple[float, ...]] = (50.0, 95.0, 99.0, 99.9)
#: An interval longer than this many times the usual one holds at least one that has no row.
GAP: Final = 1.5
#: How far (ms for each interval) a gap may be from whole usual intervals to be taken as those:
#: fio's ticks came up to 20 ms late on a machine with ten times more runnable threads than cores.
TICK_SLACK_MS: Final = 30
_KIB: Final = 1024


@dataclass(frozen=True)
class Window:
    """Seconds `first` to `first + length` after `origin_ms` (controller's clock, ms since 1970)."""

    origin_ms: float
    first: int
    length: int

    def seconds(self, time_ms: Integers, offset_s: float) -> Figures:
        """A worker's instants as seconds from the window's begin, by the controller's clock."""
        begin = self.origin_ms + self.first * 1000.0 + offset_s * 1000.0
        seconds: Figures = (time_ms.astype(np.float64) - begin) / 1000.0
        return seconds


@dataclass(frozen=True)
class Span:
    """When a worker measured: begin and end in ms since 1970, controller's clock."""

    begin_ms: float
    end_ms: float

    def share(self, window: Window) -> Figures:
        """The part of each second in which it measured, 0 to 1, shape (length,)."""
        base = window.origin_ms + window.first * 1000.0
        second = np.arange(window.length, dtype=np.float64)
        begin, end = (self.begin_ms - base) / 1000.0, (self.end_ms - base) / 1000.0
        share: Figures = np.clip(np.minimum(end, second + 1) - np.maximum(begin, second), 0, 1)
        return share


def choose_origin(spans: Sequence[Span]) -> float:
    """The instant (ms) from which seconds are counted: whole seconds before the median begin.

    Most workers begin within milliseconds of each other, so their intervals fall on whole
    seconds of this clock and need not be shared out.
    """
    begins = sorted(span.begin_ms for span in spans)
    middle = begins[len(begins) // 2]
    return middle - 1000.0 * math.ceil((middle - begins[0]) / 1000.0)


@dataclass(frozen=True)
class WorkerLogs:
    """A worker's rows that touch a window. `source` of the rows is the job's index."""

    iops: Rows
    bw: Rows
    lat: Rows
    jobs: int


@dataclass(frozen=True)
class Amounts:
    """What happened in each second of a window; arrays of shape (3 directions, length).

    `latency_ns` is the sum over the `timed` I/Os, those whose mean latency the logs give.
    """

    ios: Figures
    bytes: Figures
    latency_ns: Figures
    timed: Figures

    @classmethod
    def empty(cls, length: int) -> Amounts:
        """Nothing happened."""
        return cls(*(np.zeros((3, length)) for _ in range(4)))

    def add(self, other: Amounts) -> None:
        """Add another part's amounts in place."""
        self.ios.__iadd__(other.ios)
        self.bytes.__iadd__(other.bytes)
        self.latency_ns.__iadd__(other.latency_ns)
        self.timed.__iadd__(other.timed)


def worker_amounts(logs: WorkerLogs, window: Window, offset_s: float) -> Amounts:
    """Add up a worker's jobs in each second of the window.

    A job's mean latency in a second is weighted by its own I/Os in that second.
    """
    ios = _Shares.of(logs.iops, logs.jobs, window, offset_s).sums(logs.iops.value)
    kib = _Shares.of(logs.bw, logs.jobs, window, offset_s).sums(logs.bw.value)
    times = _Shares.of(logs.lat, logs.jobs, window, offset_s)
    weights = times.sums(None)
    means = times.sums(logs.lat.value)
    known = weights > 0
    np.divide(means, weights, out=means, where=known)
    return Amounts(
        ios=ios.sum(axis=0),
        bytes=kib.sum(axis=0) * _KIB,
        latency_ns=(means * ios * known).sum(axis=0),
        timed=(ios * known).sum(axis=0),
    )


@dataclass(frozen=True)
class _Shares:
    """How rows share into cells of (job, direction, second), two cells of margin on each side."""

    cell: Integers
    here: Figures
    next: Figures
    #: the row of each share; None where each row is one
    row: Integers | None
    shape: tuple[int, int, int]

    @classmethod
    def of(cls, rows: Rows, jobs: int, window: Window, offset_s: float) -> _Shares:
        shape = (jobs, 3, window.length + 4)
        end = window.seconds(rows.time_ms, offset_s)
        series = rows.source * 3 + rows.direction
        length: Figures = interval_lengths(rows.time_ms, series).astype(np.float64) / 1000.0
        row = None
        if (length > GAP).any():
            row, end, length = _pieces(end, length)
            series = series[row]
        begin = end - length
        second = np.floor(begin)
        here = np.minimum(second + 1.0 - begin, length)
        place = np.clip(second, -2, window.length).astype(np.int64) + 2
        return cls(series * shape[2] + place, here, length - here, row, shape)

    def sums(self, value: Integers | None) -> Figures:
        """The amounts (length where `value` is None) by job, direction and second."""
        here, rest = self.here, self.next
        if value is not None:
            weight = (value if self.row is None else value[self.row]).astype(np.float64)
            here, rest = here * weight, rest * weight
        size = math.prod(self.shape)
        total: Figures = np.bincount(self.cell, here, size).astype(np.float64, copy=False)
        total[1:] += np.bincount(self.cell, rest, size)[:-1]
        shaped: Figures = total.reshape(self.shape)[:, :, 2:-2]
        return shaped


def standstills(rows: Rows) -> list[tuple[int, int]]:
    """The intervals, (begin, end) in the rows' own ms, in which fio itself stood still.

    Its I/Os may all be there: a job that catches up before the log's next tick hides the hole.
    """
    length = interval_lengths(rows.time_ms, rows.source * 3 + rows.direction)
    long = length > GAP * INTERVAL_MS
    ends = rows.time_ms[long]
    return list(zip((ends - length[long]).tolist(), ends.tolist(), strict=True))


def _pieces(end: Figures, length: Figures) -> tuple[Integers, Figures, Figures]:
    """Cut intervals into equal pieces of about a second: row, end and length of each piece."""
    number = np.maximum(np.rint(length), 1).astype(np.int64)
    row = np.repeat(np.arange(len(length)), number)
    piece = (length / number)[row]
    last = np.cumsum(number)[row]
    back = last - 1 - np.arange(len(row))
    return row, end[row] - back * piece, piece


def interval_lengths(time_ms: Integers, row: Integers) -> Integers:
    """How long each row's interval was, in ms; rows are in the order of time inside a log.

    It is the time since the row before of the same log and direction (`row`). A gap of whole
    usual intervals had intervals without I/O, which get no row: the row's own is the last one.
    Any other gap means that fio itself stood still (a paused VM): the row is about all of it.
    A second row of one instant (fio's last I/Os, logged as the job ends) is about no time.
    """
    if len(time_ms) == 0:
        return time_ms
    mixed = bool((row[1:] < row[:-1]).any())
    order = np.argsort(row.astype(np.int16), kind="stable") if mixed else slice(None)
    sorted_ms, sorted_row = time_ms[order], row[order]
    length = np.diff(sorted_ms, prepend=sorted_ms[0] - INTERVAL_MS)
    length[1:][sorted_row[1:] != sorted_row[:-1]] = INTERVAL_MS
    length[length < 0] = INTERVAL_MS
    gaps = np.flatnonzero(length > GAP * INTERVAL_MS)
    ticks = np.rint(length[gaps] / INTERVAL_MS)
    idle = np.abs(length[gaps] - ticks * INTERVAL_MS) <= TICK_SLACK_MS * ticks
    length[gaps[idle]] = INTERVAL_MS
    if not mixed:
        return length
    back = np.empty_like(length)
    back[order] = length
    return back


@dataclass
class HistogramSum:
    """Histogram rows added up in steps of `step_s` seconds; shape (3, steps, bins) once used."""

    step_s: int
    steps: int
    coarseness: int | None = None
    counts: dict[int, Integers] = field(default_factory=dict)

    def add_rows(self, rows: HistogramRows, window: Window, offset_s: float) -> None:
        """Add a log's rows, each whole to the step that holds the middle of its interval.

        Logs of another coarseness than the first one's are left out.
        """
        if self.coarseness is None:
            self.coarseness = rows.coarseness
        if rows.coarseness != self.coarseness or not len(rows):
            return
        middle = window.seconds(rows.time_ms, offset_s) - self.step_s / 2
        step = np.floor(middle / self.step_s).astype(np.int64)
        inside = (step >= 0) & (step < self.steps)
        for direction in np.unique(rows.direction[inside]).tolist():
            chosen = inside & (rows.direction == direction)
            target = self._of(direction, rows.counts.shape[1])
            places = step[chosen]
            if len(np.unique(places)) == len(places):
                target[places] += rows.counts[chosen]
            else:
                np.add.at(target, places, rows.counts[chosen])

    def add(self, other: HistogramSum) -> None:
        """Add another sum with the same steps in place."""
        if self.coarseness is None:
            self.coarseness = other.coarseness
        if self.coarseness == other.coarseness:
            for direction, counts in other.counts.items():
                self._of(direction, counts.shape[1]).__iadd__(counts)

    def _of(self, direction: int, bins: int) -> Integers:
        if direction not in self.counts:
            self.counts[direction] = np.zeros((self.steps, bins), dtype=np.int64)
        return self.counts[direction]

    def percentiles(self) -> dict[int, Figures]:
        """By direction, shape (steps, len(SERIES_PERCENTS)), ns; NaN where not known."""
        return {
            direction: coarse_percentiles(counts, self.coarseness or 0, SERIES_PERCENTS)
            for direction, counts in self.counts.items()
        }

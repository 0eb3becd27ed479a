"""Hosts' performance counters over a measured window: units, gaps, clocks, averages. Pure.

vSphere keeps 20 s samples for about an hour; a sample stamped t covers the interval before t.
Percents come as hundredths, sums as milliseconds of the interval, and -1 means: not there.
What was not sampled is None with a reason in words, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

#: The table that people know: of a host's logical processors, of its cores, of its memory.
USAGE_COUNTERS: Final = ("cpu.usage.average", "cpu.utilization.average", "mem.usage.average")
#: Seconds between real-time samples, and for how long vCenter keeps them.
REALTIME_INTERVAL: Final = 20
REALTIME_KEPT: Final = 3600
#: What vSphere sends for a sample that it does not have.
MISSING_SAMPLE: Final = -1

NOT_AVAILABLE: Final = "not available"


@dataclass(frozen=True)
class Window:
    """A span in seconds since the epoch, by the controller's clock unless said otherwise."""

    start: float
    end: float

    def shifted(self, offset: float) -> Window:
        """The same span as read on a clock that is `offset` seconds ahead (negative: behind)."""
        return Window(self.start + offset, self.end + offset)

    @property
    def seconds(self) -> float:
        """Its length, never below 0."""
        return max(0.0, self.end - self.start)


@dataclass(frozen=True)
class Series:
    """Raw samples of one counter of one entity: (end of the interval, raw value) by its clock.

    `unit` is vSphere's word (`percent`, `millisecond`, ...), `rollup` too (`average`,
    `summation`); `interval` in seconds.
    """

    entity: str
    counter: str
    unit: str
    rollup: str
    interval: int
    samples: tuple[tuple[float, int], ...]


@dataclass(frozen=True)
class Average:
    """The mean of a counter over a window. `mean` is None when there is nothing to average.

    `unit` is that of the mean: percents are percents here. `used` samples of `expected` counted;
    `missing` were sent as not there. `note` says what lacks, None when nothing does.
    """

    mean: float | None
    unit: str
    used: int
    expected: int
    missing: int = 0
    note: str | None = None


@dataclass(frozen=True)
class Usage:
    """The table of one case: per host and counter, and the plain mean over hosts that have one.

    `clock_offset` is the vCenter's clock minus the controller's, in seconds, None when unknown.
    """

    window: Window
    hosts: Mapping[str, Mapping[str, Average]]
    average: Mapping[str, float | None]
    clock_offset: float | None = None
    warnings: tuple[str, ...] = ()


def convert_sample(raw: int, unit: str, rollup: str, interval: int) -> float | None:
    """A raw sample in our units, None for one that is not there.

    Percents come in hundredths. A sum of milliseconds becomes the percent of its interval.
    """
    if raw == MISSING_SAMPLE:
        return None
    if unit == "percent":
        return raw / 100
    if unit == "millisecond" and rollup == "summation":
        return 100 * raw / (1000 * interval)
    return float(raw)


def unit_of(unit: str, rollup: str) -> str:
    """The unit that `convert_sample` gives."""
    return "percent" if unit == "millisecond" and rollup == "summation" else unit


def join_series(first: Series | None, more: Series) -> Series:
    """The samples of two reads of one counter, each instant once, in order."""
    if first is None:
        return more
    samples = dict(first.samples) | dict(more.samples)
    return Series(
        more.entity,
        more.counter,
        more.unit,
        more.rollup,
        more.interval,
        tuple(sorted(samples.items())),
    )


def average_over(series: Series, window: Window) -> Average:
    """The mean over samples that lie wholly inside the window (by the series' own clock)."""
    expected = math.floor(window.seconds / series.interval)
    inside = [
        raw
        for stamp, raw in series.samples
        if stamp - series.interval >= window.start and stamp <= window.end
    ]
    values = [
        value
        for raw in inside
        if (value := convert_sample(raw, series.unit, series.rollup, series.interval)) is not None
    ]
    note = _note(len(values), expected, len(inside) - len(values), series.interval, window)
    mean = math.fsum(values) / len(values) if values else None
    unit = unit_of(series.unit, series.rollup)
    return Average(mean, unit, len(values), expected, len(inside) - len(values), note)


def _note(used: int, expected: int, missing: int, interval: int, window: Window) -> str | None:
    if not used:
        if not expected:
            return f"{NOT_AVAILABLE}: the window is shorter than one interval of {interval} s"
        return NOT_AVAILABLE
    # The window's edges fall between samples: one less than fits is whole all the same.
    if used >= expected - 1 and not missing:
        return None
    text = f"{used} of {expected} samples"
    if interval == REALTIME_INTERVAL and window.seconds > REALTIME_KEPT:
        text += ": only the last hour exists at 20 s; sample during the run"
    return text


def usage_table(
    series: Iterable[Series],
    hosts: Sequence[str],
    window: Window,
    *,
    clock_offset: float | None = None,
    counters: Sequence[str] = USAGE_COUNTERS,
    warnings: Sequence[str] = (),
) -> Usage:
    """Per host and on average over exactly the window (give it without the ramp).

    The window is the controller's; `clock_offset` moves it to the clock of the samples.
    """
    there = window.shifted(clock_offset or 0.0)
    found = {(item.entity, item.counter): item for item in series}
    rows = {
        host: {name: _cell(found.get((host, name)), there) for name in counters} for host in hosts
    }
    return Usage(
        window=window,
        hosts=rows,
        average={name: _mean([row[name].mean for row in rows.values()]) for name in counters},
        clock_offset=clock_offset,
        warnings=(*warnings, *_warnings(rows, clock_offset)),
    )


def _cell(series: Series | None, window: Window) -> Average:
    if series is None:
        expected = math.floor(window.seconds / REALTIME_INTERVAL)
        return Average(None, "percent", 0, expected, 0, NOT_AVAILABLE)
    return average_over(series, window)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _warnings(rows: Mapping[str, Mapping[str, Average]], clock_offset: float | None) -> list[str]:
    warnings = [
        f"{host}: {name}: {cell.note}"
        for host, row in rows.items()
        for name, cell in row.items()
        if cell.note is not None
    ]
    if clock_offset is None:
        warnings.append("the vCenter's clock was not compared: the window may be shifted")
    return warnings

"""A metric: one figure of a result by name, its unit and which way is better.

`iops`, `bytes_per_s` and `latency.p99` are of the whole case; `read.iops` or
`write.latency.p99` of one direction. What isn't known is None, never 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

from orchestrator.errors import ConfigError
from orchestrator.histogram import Histogram, carried, percent_key
from orchestrator.problems import nearest
from orchestrator.results import DirectionResult, LatencyResult, TotalResult

Scope = Literal["all", "read", "write", "trim"]
Unit = Literal["IOPS", "B/s", "ns"]

RATES: Final = ("iops", "bytes_per_s")
MOMENTS: Final = ("mean", "min", "max", "stddev")
_SCOPES: Final[dict[str, Scope]] = {
    "all": "all",
    "total": "all",
    "read": "read",
    "write": "write",
    "trim": "trim",
}
_ALIASES: Final = {
    "throughput": "bytes_per_s",
    "bandwidth": "bytes_per_s",
    "bw": "bytes_per_s",
    "median": "p50",
    "avg": "mean",
    "latency": "mean",
}
_PERCENTILE: Final = re.compile(r"p(\d+(?:\.\d+)?)")


class Metric(Struct, frozen=True, order=True):
    """One figure: of which direction, and which one (`iops`, `mean`, `p99.9`)."""

    scope: Scope
    figure: str

    @property
    def name(self) -> str:
        """The name in results, rules and reports: `read.latency.p99`."""
        figure = self.figure if self.is_rate else f"latency.{self.figure}"
        return figure if self.scope == "all" else f"{self.scope}.{figure}"

    @property
    def is_rate(self) -> bool:
        """Whether it counts I/Os or bytes a second; otherwise it is a latency."""
        return self.figure in RATES

    @property
    def higher_is_better(self) -> bool:
        """The direction of good: up for rates, down for latencies."""
        return self.is_rate

    @property
    def unit(self) -> Unit:
        """The unit of its values."""
        if not self.is_rate:
            return "ns"
        return "IOPS" if self.figure == "iops" else "B/s"

    def value(self, total: TotalResult | None) -> float | None:
        """The figure in a result; None when it isn't known there."""
        if total is None:
            return None
        if self.is_rate:
            return self._rate(total)
        latency = self.latency(total)
        return None if latency is None else self._latency_figure(latency)

    def _rate(self, total: TotalResult) -> float | None:
        found = [getattr(direction, self.figure) for direction in self._directions(total)]
        known = [float(value) for value in found if value is not None]
        return math.fsum(known) if known and len(known) == len(found) else None

    def _directions(self, total: TotalResult) -> list[DirectionResult]:
        names = ("read", "write", "trim") if self.scope == "all" else (self.scope,)
        found = [getattr(total, name) for name in names]
        return [direction for direction in found if direction is not None]

    def latency(self, total: TotalResult) -> LatencyResult | None:
        """The latency that it is read from; of all directions only where it can be added."""
        parts = [
            direction.latency_ns
            for direction in self._directions(total)
            if direction.latency_ns is not None and direction.latency_ns.count
        ]
        if len(parts) < 2:
            return parts[0] if parts else None
        return _together(parts)

    def _latency_figure(self, latency: LatencyResult) -> float | None:
        if self.figure in MOMENTS:
            value = getattr(latency, self.figure)
            return None if value is None else float(value)
        percent = float(self.figure[1:])
        key = percent_key(percent)
        if key in latency.percentiles:
            known = latency.percentiles[key]
            return None if known is None else float(known)
        if latency.bins is None or not carried(percent, latency.count):
            return None
        found = Histogram.of(latency.bins).percentile(percent, cap=latency.max)
        return None if found is None else float(found)


def _together(parts: list[LatencyResult]) -> LatencyResult | None:
    """Reads and writes as one latency, from their histograms; None without those or of two kinds.

    No deviation: it is known for each direction alone.
    """
    if len({part.kind for part in parts}) > 1 or any(part.bins is None for part in parts):
        return None
    total = sum((Histogram.of(part.bins or {}) for part in parts), Histogram.empty())
    count = sum(part.count for part in parts)
    return LatencyResult(
        kind=parts[0].kind,
        count=count,
        min=_extreme(min, [part.min for part in parts]),
        max=_extreme(max, [part.max for part in parts]),
        mean=_weighted_mean(parts, count),
        stddev=None,
        percentiles={},
        bins=total.bins(),
    )


def _extreme(pick: Callable[[list[int]], int], values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return pick(known) if len(known) == len(values) else None


def _weighted_mean(parts: list[LatencyResult], count: int) -> float | None:
    known = [(part.mean, part.count) for part in parts if part.mean is not None]
    if len(known) != len(parts) or not count:
        return None
    return math.fsum(mean * number for mean, number in known) / count


def parse_metric(text: str) -> Metric:
    """A metric by name: `iops`, `read.iops`, `read.latency.p99` or short `read.p99`.

    Raises ConfigError with the nearest name when there is none.
    """
    words = [word for word in text.strip().lower().split(".") if word]
    # a percentile's own dot: latency.p99.9
    if len(words) > 1 and words[-1].isdigit() and _PERCENTILE.fullmatch(words[-2]):
        words[-2:] = [f"{words[-2]}.{words[-1]}"]
    scope: Scope = "all"
    if words and words[0] in _SCOPES:
        scope = _SCOPES[words.pop(0)]
    if len(words) == 2 and words[0] in ("latency", "lat", "clat"):
        words.pop(0)
    figure = _figure(words[0]) if len(words) == 1 else None
    if figure is None:
        close = nearest(text.strip().lower(), METRIC_NAMES)
        raise ConfigError(
            f"{text.strip()!r} is not a metric" + (f" (did you mean {close!r}?)" if close else ""),
            next_step="metrics are iops, bytes_per_s, latency.mean, latency.p99 and the like, "
            "alone or after read., write. or trim.",
        )
    return Metric(scope, figure)


def _figure(word: str) -> str | None:
    word = _ALIASES.get(word, word)
    if word in RATES or word in MOMENTS:
        return word
    match = _PERCENTILE.fullmatch(word)
    if match is None or not 0 < float(match[1]) < 100:
        return None
    return f"p{percent_key(float(match[1]))}"


def _metrics() -> tuple[Metric, ...]:
    figures = (*RATES, "mean", "p50", "p95", "p99", "p99.9")
    scopes: tuple[Scope, ...] = ("read", "write")
    rates = tuple(Metric("all", rate) for rate in RATES)
    return rates + tuple(Metric(scope, figure) for scope in scopes for figure in figures)


#: What comparisons show: the rates in total, then each figure of reads and of writes.
METRICS: Final = _metrics()
METRIC_NAMES: Final = tuple(metric.name for metric in METRICS)


def show_value(value: float | None, unit: Unit, like: float | None = None) -> str:
    """A figure for people, in the unit that fits it (or `like`, which it stands beside): `30,584`,
    `119.00 MB/s`, `7.830 ms`."""
    if value is None:
        return "-"
    if unit == "IOPS":
        return f"{value:,.0f}" if value >= 100 else f"{value:,.4g}"
    if unit == "B/s":
        return f"{value / 1e6:,.2f} MB/s"
    size = value if like is None else like
    if size >= 1e9:
        return f"{value / 1e9:,.3f} s"
    return f"{value / 1e6:,.3f} ms" if size >= 1e5 else f"{value / 1e3:,.2f} µs"

"""The most I/O within an objective: which load to try next, from the probes made so far.

An unconstrained anchor, then halving until the objective is met, bisection between the highest
load that met it and the lowest above that didn't, the lowest load and the largest gaps filled, a
full-length run that has to confirm the answer. Nothing is remembered but the probes, so a search
goes on from their list wherever it was stopped. Load is a queue depth (per job and target) or a
rate in IOPS (of all workers); latency need not rise with load for the answer to be right, because
only what a full-length run confirmed is given as one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from orchestrator.metrics import Metric, parse_metric
from orchestrator.results import CaseResult

Axis = Literal["iodepth", "rate"]
Purpose = Literal["anchor", "halve", "bisect", "fill", "confirm"]
Ending = Literal["confirmed", "never met", "not confirmed", "could not tell", "not finished"]

_IOPS: Final = parse_metric("iops")
#: A load whose figures can't be told is tried again once.
_TRIES: Final = 2
#: IOPS this close are taken for equal; the lower load is the better answer.
_EQUAL: Final = 0.01


class Objective(Struct, frozen=True):
    """A limit on one metric; `most` says whether the figure must not be above or not below it."""

    metric: Metric
    limit: float
    most: bool = True

    def met(self, value: float | None) -> bool | None:
        """Whether a figure keeps it; None when it isn't known."""
        if value is None:
            return None
        return value <= self.limit if self.most else value >= self.limit


class Settings(Struct, frozen=True):
    """What is searched and how finely. A search is only resumed with the settings it began with."""

    objectives: tuple[Objective, ...]
    axis: Axis = "iodepth"
    #: lowest and highest queue depth; a rate isn't below `least` or 1/256 of the anchor's IOPS
    least: int = 1
    most: int = 256
    #: how close the two ends of the answer must come, as a share
    resolution: float = 0.05
    #: a rate that is missed by more than this is beyond what the storage can carry
    shortfall: float = 0.015
    most_probes: int = 24
    #: loads that the curve has at the least
    curve_points: int = 6
    confirmations: int = 3


class Probe(Struct, frozen=True):
    """What to run next. `load` None is without any limit; `full` is as long as the profile says."""

    load: float | None
    full: bool
    purpose: Purpose


class Measured(Struct, frozen=True):
    """What a probe gave. A figure that isn't known or not to be trusted is None."""

    load: float | None
    full: bool
    iops: float | None
    values: Mapping[str, float | None]
    #: the probe's case and the verdict on it: valid, unknown, invalid
    case: str | None = None
    verdict: str | None = None


class Finished(Struct, frozen=True):
    """The end of a search: the best confirmed load, the whole curve, and what was odd about it."""

    ending: Ending
    best: Measured | None
    curve: tuple[Measured, ...]
    notes: tuple[str, ...] = ()


def measured(case: CaseResult, probe: Probe, settings: Settings) -> Measured:
    """A probe's figures from its case; none of them when the case failed or is invalid."""
    usable = case.outcome == "done" and case.verdict.value != "invalid"
    total = case.total if usable else None
    values = {o.metric.name: o.metric.value(total) for o in settings.objectives}
    iops = _IOPS.value(total)
    return Measured(probe.load, probe.full, iops, values, case.case, case.verdict.value)


class _Point(Struct, frozen=True):
    """All probes of one load together; full-length ones outrank short ones."""

    load: float
    met: bool | None
    full: bool
    tries: int
    iops: float


def keeps(probe: Measured, settings: Settings) -> bool | None:
    """Whether a probe kept every objective and reached its rate; None when that isn't known."""
    answers = [o.met(probe.values.get(o.metric.name)) for o in settings.objectives]
    if False in answers:
        return False
    if probe.iops is None or None in answers:
        return None
    if settings.axis == "rate" and probe.load is not None:
        return probe.iops >= probe.load * (1 - settings.shortfall)
    return True


def next_probe(history: Sequence[Measured], settings: Settings) -> Probe | Finished:
    """The next probe, or the end. The answer depends on its arguments alone."""
    search = _Search(history, settings)
    return search.anchor() or search.retry() or search.down() or search.closer() or search.confirm()


def unfinished(history: Sequence[Measured], settings: Settings) -> Finished:
    """A search that was left before its end: the curve so far."""
    return _Search(history, settings).finish("not finished", None)


class _Search:
    """One look at the probes so far."""

    def __init__(self, history: Sequence[Measured], settings: Settings) -> None:
        self.history = history
        self.settings = settings
        loads: dict[float, list[Measured]] = {}
        for probe in history:
            loads.setdefault(self._key(probe.load), []).append(probe)
        self.points = {load: self._point(load, probes) for load, probes in loads.items()}
        self.top = self.points.get(self._key(self._anchor_load()))
        self.shorts = sum(not probe.full for probe in history)

    def _key(self, load: float | None) -> float:
        return math.inf if load is None else load

    def _anchor_load(self) -> float | None:
        return None if self.settings.axis == "rate" else float(self.settings.most)

    def _point(self, load: float, probes: Sequence[Measured]) -> _Point:
        whole = [probe for probe in probes if probe.full] or list(probes)
        answers = [keeps(probe, self.settings) for probe in whole]
        known = [answer for answer in answers if answer is not None]
        met = None if not known else sum(known) * 2 > len(known)
        iops = [probe.iops for probe in whole if probe.iops is not None]
        mean = math.fsum(iops) / len(iops) if iops else 0.0
        return _Point(load, met, any(p.full for p in probes), len(probes), mean)

    # -- the moves, in order; each gives None when it has nothing left to do --------------------

    def anchor(self) -> Probe | Finished | None:
        top = self.top
        if top is None or (top.met is None and top.tries < _TRIES):
            return Probe(self._anchor_load(), False, "anchor")
        if top.met is None and top.iops == 0:
            return self.finish("could not tell", None)
        return None

    def retry(self) -> Probe | None:
        for point in self._finite():
            if point.met is None and point.tries < _TRIES and self._may_probe():
                return Probe(point.load, False, "bisect")
        return None

    def down(self) -> Probe | Finished | None:
        """Halve until something keeps the objective."""
        if self._met() or self._confirmed():
            return None
        lowest = min((point.load for point in self._finite()), default=self._ceiling())
        if lowest <= self._floor():
            told = all(point.met is not None for point in self.points.values())
            return self.finish("never met" if told else "could not tell", None)
        if not self._may_probe():
            return self.finish("could not tell", None)
        return Probe(self._tidy(max(self._floor(), lowest / 2)), False, "halve")

    def closer(self) -> Probe | None:
        """Bisect the bracket, then fill the curve's largest gaps."""
        if self._confirmed() or not self._may_probe():
            return None
        if self.top is not None and self.top.met:
            return self._fill()
        low = max(point.load for point in self._met())
        failed = [p.load for p in self._finite() if not p.met and p.load > low]
        high = min([*failed, self._ceiling()])
        middle = self._between(low, high)
        if middle is None or high / low - 1 <= self.settings.resolution:
            return self._fill()
        return Probe(middle, False, "bisect")

    def _fill(self) -> Probe | None:
        if self._floor() not in self.points:
            return Probe(self._floor(), False, "fill")
        if len(self.points) >= self.settings.curve_points:
            return None
        loads = sorted({p.load for p in self._finite()} | {self._ceiling()})
        gaps = sorted(itertools.pairwise(loads), key=lambda gap: gap[0] / gap[1])
        for low, high in gaps:
            middle = self._between(low, high)
            if middle is not None:
                return Probe(middle, False, "fill")
        return None

    def confirm(self) -> Probe | Finished:
        done = self._confirmed()
        if done:
            best = max(done, key=lambda point: point.iops)
            return self.finish("confirmed", best)
        confirmations = sum(probe.full for probe in self.history)
        met = self._met()
        if not met or confirmations >= self.settings.confirmations:
            return self.finish("not confirmed", None)
        most = max(point.iops for point in met)
        near = [point for point in met if point.iops >= most * (1 - _EQUAL)]
        best = min(near, key=lambda point: point.load)
        return Probe(None if math.isinf(best.load) else best.load, True, "confirm")

    # -- what is known --------------------------------------------------------------------------

    def _finite(self) -> list[_Point]:
        points = [point for point in self.points.values() if not math.isinf(point.load)]
        return sorted(points, key=lambda point: point.load)

    def _met(self) -> list[_Point]:
        return [point for point in self.points.values() if point.met]

    def _confirmed(self) -> list[_Point]:
        return [point for point in self._met() if point.full]

    def _may_probe(self) -> bool:
        return self.shorts < self.settings.most_probes

    def _ceiling(self) -> float:
        if self.settings.axis == "iodepth":
            return float(self.settings.most)
        return max(1.0, self.top.iops) if self.top is not None else 1.0

    def _floor(self) -> float:
        if self.settings.axis == "iodepth":
            return float(self.settings.least)
        return self._tidy(max(float(self.settings.least), self._ceiling() / 256))

    def _tidy(self, load: float) -> float:
        """A whole number: queue depths and rates both are."""
        return float(max(1, math.floor(load)))

    def _between(self, low: float, high: float) -> float | None:
        middle = self._tidy(math.sqrt(low * high))
        return middle if low < middle < high and middle not in self.points else None

    def finish(self, ending: Ending, best: _Point | None) -> Finished:
        """The end, with the curve."""
        found = None
        if best is not None:
            same = [p for p in self.history if self._key(p.load) == best.load and p.full]
            found = same[-1]
        curve = tuple(sorted(self.history, key=lambda p: (self._key(p.load), p.full)))
        return Finished(ending, found, curve, tuple(self._notes()))

    def _notes(self) -> list[str]:
        notes = []
        points = [point for point in self._finite() if point.met is not None]
        lowest_failed = min((p.load for p in points if not p.met), default=math.inf)
        beyond = [p.load for p in points if p.met and p.load > lowest_failed]
        if beyond:
            notes.append(
                f"not monotonic: {lowest_failed:g} failed and {max(beyond):g} kept the objective"
            )
        if not self._may_probe():
            notes.append(f"stopped probing at the limit of {self.settings.most_probes}")
        if self.top is not None and self.top.met:
            more = "above --most" if self.settings.axis == "iodepth" else "with a deeper queue"
            notes.append(f"the objective holds at the highest load: more may be possible {more}")
        return notes

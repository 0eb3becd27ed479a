"""Checks of the course over time: the common window, steadiness, what stood out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from orchestrator.dips import Anomaly
from orchestrator.plausibility.base import Plausible
from orchestrator.results import Reason
from orchestrator.windows import Course

#: Anomalies told as reasons; the rest stands in the course.
_TOLD = 8
#: Shorter than this, a series may hold no whole second of every worker, in seconds.
_BRIEF_S = 10.0


def check_course(subject: Plausible) -> Iterator[Reason]:
    """Steadiness, and what stood out, as the series shows it."""
    course = subject.case.course
    yield from _warm_up(subject)
    if subject.facts.steady_asked:
        yield from _not_told(course)
    if course is None:
        return
    if course.common is None and len(subject.counted()) > 1:
        timing = subject.case.timing
        # Logs hold whole seconds and fio loses the last one: a few seconds may not show it.
        brief = (timing.runtime_s or _BRIEF_S) < _BRIEF_S and bool(timing.overlap)
        yield Reason(
            code="no-common-window",
            text="the case was too short for its series to show a second in which all measured"
            if brief
            else "there was no second in which all workers measured",
            level="note" if brief else "invalid",
            threshold="at least one second",
            next_step="measure longer" if brief else "look at the start times of the workers",
        )
    steady = course.steady
    if steady is not None and steady.steady is False:
        yield Reason(
            code="not-steady",
            text=f"not in a steady state: {steady.reason}",
            level="unknown" if subject.facts.steady_asked else "note",
            threshold=f"range at most {steady.rule.range_limit:.0%}, fitted line at most "
            f"{steady.rule.excursion_limit:.0%} of the mean over {steady.window_s:g} s",
            evidence="rounds: " + ", ".join(f"{value:.0f}" for value in steady.values),
            next_step="warm up longer, or run until steady",
        )
    for anomaly in course.anomalies[:_TOLD]:
        yield _anomaly_reason(anomaly, course.origin_ms)
    for still in course.standstills[:_TOLD]:
        yield Reason(
            code="fio-stood-still",
            text=f"fio itself stood still for {still.end_s - still.begin_s:.1f} s",
            worker=still.worker,
            level="note",
            threshold="a tick in its logs every second",
            evidence=f"from {_instant(course.origin_ms, still.begin_s)}",
            next_step="the worker was paused or had no CPU: look for vMotion, snapshots, and an "
            "overcommitted host; I/Os that were due then are in no latency",
        )


def _warm_up(subject: Plausible) -> Iterator[Reason]:
    """The warm-up ended on evidence; a case that was steady itself needs none."""
    warm_up, course = subject.case.warm_up, subject.case.course
    if warm_up is None or warm_up.ended_by == "steady":
        return
    steady = course.steady if course is not None else None
    yield Reason(
        code="warm-up-not-steady",
        text="the warm-up ended at its cap, not on evidence: the case began on storage that was "
        "not in a steady state",
        level="note" if steady is not None and steady.steady else "unknown",
        threshold="steady before the cap",
        evidence=warm_up.reason,
        next_step="give the warm-up a higher cap",
    )


def _not_told(course: Course | None) -> Iterator[Reason]:
    """Steadiness was asked for, and nothing shows whether it came."""
    steady = course.steady if course is not None else None
    if steady is None or steady.steady is None:
        why = "there is no series" if steady is None else steady.reason
        yield Reason(
            code="steadiness-not-told",
            text=f"whether the case was steady, as it was asked to be, can't be told: {why}",
            threshold="a series that covers the window",
            evidence="no series" if course is None else f"{course.seconds} s of series",
            next_step="let fio log (series: true), and look at what became of the logs",
        )


def _anomaly_reason(anomaly: Anomaly, origin_ms: float) -> Reason:
    whole = anomaly.worker is None
    serious = whole and anomaly.kind in ("stall", "throttled")
    also = f", in {anomaly.workers_too} workers" if anomaly.workers_too else ""
    return Reason(
        code=f"series-{anomaly.kind}",
        text=f"{anomaly}{also}",
        worker=anomaly.worker,
        level="unknown" if serious else "note",
        threshold=f"{anomaly.limit:.0f} IOPS",
        evidence=f"from {_instant(origin_ms, anomaly.begin_s)}, "
        f"seconds {anomaly.begin_s} to {anomaly.end_s} of the series",
        next_step="compare with events of hosts and storage at that time (resync, vMotion, "
        "destaging, throttling by policy)",
    )


def _instant(origin_ms: float, second: float) -> str:
    at = datetime.fromtimestamp(origin_ms / 1000.0 + second, tz=UTC)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC (controller's clock)"

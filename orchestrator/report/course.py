"""How a case went over time, in a few lines: common window, late and early workers, steadiness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from orchestrator.report.figures import latency_text, rate_text
from orchestrator.results import CaseResult, TotalResult
from orchestrator.steady import Steadiness
from orchestrator.windows import Course, WindowRates

#: Workers that a line names; the rest is counted.
_NAMED: Final = 4
_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "dip": ("dip", "dips"),
    "stall": ("stall", "stalls"),
    "throttled": ("fall of level", "falls of level"),
    "faster": ("rise of level", "rises of level"),
    "standstill": ("standstill of fio", "standstills of fio"),
    "more": ("shorter one", "shorter ones"),
}


def course_lines(case: CaseResult) -> Iterator[str]:
    """Lines below a case's head; none for a case without a series."""
    if case.warm_up is not None:
        yield f"warm-up: {case.warm_up.reason}"
    course = case.course
    if course is None:
        return
    if course.common is not None:
        yield from _common(course.common, case.total)
    yield from _apart(course)
    if course.steady is not None:
        yield _steadiness(course.steady, case.ended_by)
    if course.judged is not None and case.ended_by != "time":
        yield f"judged window, {_rates(course.judged)}"
    yield from _stood_out(course)


def _common(common: WindowRates, total: TotalResult | None) -> Iterator[str]:
    """The rates while all measured, beside those of the whole run."""
    beside = [
        f"{name} {(window.iops / side.iops - 1) * 100:+.1f} %"
        for name in ("read", "write", "trim")
        if (window := getattr(common, name)) is not None
        and (side := getattr(total, name, None)) is not None
        and side.iops
    ]
    against = f"; IOPS against the whole run: {', '.join(beside)}" if beside else ""
    yield f"common window, {_rates(common)}{against}"


def _rates(window: WindowRates) -> str:
    """`58 s: read 12,345 IOPS 50.6 MB/s mean 0.98 ms; write ...`."""
    parts = [
        f"{name} {rate_text(rate.iops)} IOPS {rate_text(rate.bytes_per_s / 1e6)} MB/s "
        f"mean {latency_text(rate.lat_mean_ns)}"
        for name in ("read", "write", "trim")
        if (rate := getattr(window, name)) is not None
    ]
    return f"{window.seconds:g} s: {', '.join(parts) or 'no I/O'}"


def _apart(course: Course) -> Iterator[str]:
    """Who began late, ended early, or has no series."""
    if course.late_workers:
        yield f"began late (up to {course.late_s:.1f} s): {_named(course.late_workers)}"
    if course.early_workers:
        yield f"ended early (up to {course.tail_s:.1f} s): {_named(course.early_workers)}"
    if course.without_series:
        names = list(course.without_series)
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"not in the series: {', '.join(names[:_NAMED])}{more}"
    if course.dropped_lines:
        yield f"left out of the series: {course.dropped_lines} damaged lines of the logs"


def _named(seconds: Mapping[str, float]) -> str:
    worst = sorted(seconds.items(), key=lambda item: -item[1])
    more = f" and {len(worst) - _NAMED} more" if len(worst) > _NAMED else ""
    return ", ".join(f"{name} {value:.1f} s" for name, value in worst[:_NAMED]) + more


def _steadiness(steady: Steadiness, ended_by: str) -> str:
    """SNIA's rule with its arithmetic, and what ended the case when it could run until steady."""
    word = {True: "steady", False: "not steady", None: "steadiness not told"}[steady.steady]
    ended = {"steady": ", which ended it", "cap": "; the cap ended it"}.get(ended_by, "")
    if steady.range_share is None or steady.excursion_share is None or steady.mean is None:
        return f"{word} ({steady.reason}){ended}"
    slope = -1 if (steady.slope or 0) < 0 else 1
    return (
        f"{word} over {steady.window_s:g} s: range {steady.range_share:.1%} (at most "
        f"{steady.rule.range_limit:.0%}), fitted line {slope * steady.excursion_share:+.1%} "
        f"(at most {steady.rule.excursion_limit:.0%}) of {rate_text(steady.mean)} IOPS{ended}"
    )


def _stood_out(course: Course) -> Iterator[str]:
    """How much stood out; each is named among the reasons."""
    kinds: Counter[str] = Counter(anomaly.kind for anomaly in course.anomalies)
    kinds["more"] += course.more_anomalies
    kinds["standstill"] += len(course.standstills)
    parts = [f"{count} {_KINDS[kind][count > 1]}" for kind, count in kinds.items() if count]
    if parts:
        yield f"stood out: {', '.join(parts)}"

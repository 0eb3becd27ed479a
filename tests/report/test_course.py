"""A case's course in a few lines, at most 120 columns, nothing where nothing is known."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from orchestrator.dips import Anomaly
from orchestrator.report.course import course_lines
from orchestrator.report.text import WIDTH, render_text
from orchestrator.results import (
    CaseResult,
    DirectionResult,
    RunResult,
    TotalResult,
    Verdict,
)
from orchestrator.steady import SteadyRule, judge_rounds
from orchestrator.windows import Course, Standstill, WarmUp, WindowRate, WindowRates


def window(begin: float, end: float, iops: float) -> WindowRates:
    """Reads only."""
    return WindowRates(
        begin_s=begin,
        end_s=end,
        read=WindowRate(iops=iops, bytes_per_s=iops * 4096, lat_mean_ns=1.5e6),
    )


def case(ended_by: str = "time", **course: Any) -> CaseResult:
    """A case of a minute with 1,000 reads a second, and this course."""
    whole = window(0, 60, 1000)
    side = DirectionResult(ios=60_000, bytes=60_000 * 4096, iops=1000.0, bytes_per_s=4.096e6)
    return CaseResult(
        case="c",
        outcome="done",
        verdict=Verdict(value="valid", reasons=()),
        expected_workers=8,
        received_workers=8,
        total=TotalResult(read=side),
        workers={},
        ended_by=ended_by,
        course=Course(
            origin_ms=0.0,
            seconds=60,
            whole=whole,
            **{"common": None, "late_s": 0.0, "tail_s": 0.0, **course},
        ),
    )


def test_no_series_no_lines() -> None:
    """A case without logs says nothing about its course."""
    assert list(course_lines(replace(case(), course=None))) == []


def test_how_the_warm_up_ended_is_said() -> None:
    """In its own words, with or without a series."""
    warm_up = WarmUp(ended_by="cap", seconds=40.0, reason="not steady after 40 s, the cap is 40 s")
    bare = replace(case(), course=None, warm_up=warm_up)
    assert list(course_lines(bare)) == ["warm-up: not steady after 40 s, the cap is 40 s"]
    assert next(course_lines(replace(case(), warm_up=warm_up))).startswith("warm-up: not steady")


def test_damaged_lines_of_logs_are_counted() -> None:
    """What the series leaves out is said."""
    assert any("3 damaged lines" in line for line in course_lines(case(dropped_lines=3)))


def test_the_common_window_stands_beside_the_whole_run() -> None:
    """Its rates, and how far the whole run's are from them."""
    lines = list(course_lines(case(common=window(2, 58, 1100))))
    assert lines == [
        "common window, 56 s: read 1,100 IOPS 4.5 MB/s mean 1.50 ms; "
        "IOPS against the whole run: read +10.0 %"
    ]


def test_late_and_early_workers_are_named_the_worst_first() -> None:
    """Four by name, the others counted."""
    late = {f"w{n}": float(n) for n in range(2, 8)}
    lines = list(
        course_lines(
            case(
                late_s=7.0,
                late_workers=late,
                tail_s=1.5,
                early_workers={"w1": 1.5},
                without_series={"w9": "no logs"},
            )
        )
    )
    assert lines == [
        "began late (up to 7.0 s): w7 7.0 s, w6 6.0 s, w5 5.0 s, w4 4.0 s and 2 more",
        "ended early (up to 1.5 s): w1 1.5 s",
        "not in the series: w9",
    ]


def test_steadiness_shows_its_arithmetic_and_what_ended_the_case() -> None:
    """One line; the judged window's rates beside where the case could run until steady."""
    steady = judge_rounds([100, 102, 104, 106, 108], SteadyRule(window_s=300))
    lines = list(course_lines(case("steady", steady=steady, judged=window(300, 600, 104))))
    assert lines == [
        "steady over 300 s: range 7.7% (at most 20%), fitted line +7.7% (at most 10%) of 104 IOPS, "
        "which ended it",
        "judged window, 300 s: read 104 IOPS 0.4 MB/s mean 1.50 ms",
    ]
    falling = judge_rounds([108, 90, 80, 70, 60], SteadyRule(window_s=300))
    (line,) = course_lines(case("cap", steady=falling))
    assert line.startswith("not steady over 300 s: range 58.8% (at most 20%), fitted line -")
    assert line.endswith("; the cap ended it")


def test_what_stood_out_is_counted() -> None:
    """Each is a reason of its own with time and worker; here is how many of each kind."""
    dip = Anomaly(kind="dip", worker="w1", begin_s=3, end_s=5, usual=100, worst=20, limit=70)
    still = Standstill(worker="w2", begin_s=8.0, end_s=10.0)
    lines = list(course_lines(case(anomalies=(dip, dip), standstills=(still,), more_anomalies=3)))
    assert lines == ["stood out: 2 dips, 3 shorter ones, 1 standstill of fio"]


def test_the_report_stays_within_its_width() -> None:
    """Long lines are wrapped under the case they belong to."""
    late = {f"a-worker-with-a-long-name-{n}": 2.0 for n in range(6)}
    text = render_text(
        RunResult(cases=(case(common=window(2, 58, 1100), late_s=2.0, late_workers=late),))
    )
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "common window, 56 s" in text

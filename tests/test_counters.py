"""Hosts' counters: units, gaps, clocks and words, over exactly the measured window."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from orchestrator.counters import (
    Series,
    Window,
    average_over,
    convert_sample,
    join_series,
    usage_table,
)

CASE = Path(__file__).parent / "data" / "cases" / "48-performance-samples"
SCENARIOS: dict[str, Any] = json.loads((CASE / "scenarios.json").read_text())
EXPECTED: dict[str, Any] = json.loads((CASE / "expected.json").read_text())
CPU = "cpu.usage.average"


def _series(
    values: list[int], *, start: float = 0.0, interval: int = 20, host: str = "esx1"
) -> Series:
    samples = tuple((start + interval * (i + 1), value) for i, value in enumerate(values))
    return Series(host, CPU, "percent", "average", interval, samples)


def test_case_48_three_quarters_of_an_hour_are_whole() -> None:
    """Case 48: 45 minutes at 20 s are 135 samples, nothing missing, nothing to say."""
    scenario = SCENARIOS["realtime-45min-ok"]
    minutes = scenario["window_min"] * 60
    average = average_over(_series([1000] * scenario["samples"]), Window(0, minutes))
    assert (average.used, average.expected) == (EXPECTED["realtime-45min-ok"],) * 2
    assert (average.mean, average.note) == (10.0, None)


def test_case_48_three_hours_read_at_the_end_say_that_only_an_hour_exists() -> None:
    """Case 48: 180 samples of 540 are averaged, with the reason and what to do instead."""
    scenario = SCENARIOS["realtime-3h"]
    kept = scenario["samples_returned"]
    window = Window(0, scenario["window_min"] * 60)
    average = average_over(_series([1000] * kept, start=window.end - kept * 20), window)
    assert (average.used, average.expected) == (180, 540)
    assert average.note is not None
    assert EXPECTED["realtime-3h"].removeprefix("warn: ") in average.note


def test_case_48_no_history_is_not_available_and_never_zero() -> None:
    """Case 48: an interval without samples gives no mean, in words."""
    scenario = SCENARIOS["history-300"]
    empty = _series([], interval=scenario["interval_s"])
    average = average_over(empty, Window(0, scenario["window_min"] * 60))
    assert average.mean is None
    assert average.note == "not available"


def test_case_48_minus_one_is_a_gap() -> None:
    """Case 48: -1 is left out of the mean and counted as missing."""
    values = SCENARIOS["minus-one"]["values"]
    average = average_over(_series(values), Window(0, 80))
    used = EXPECTED["minus-one"]["used"]
    assert average.mean == pytest.approx(sum(used) / len(used) / 100)
    assert (average.used, average.missing) == (len(used), EXPECTED["minus-one"]["missing"])
    assert average.note == "3 of 4 samples"


@pytest.mark.parametrize("name", ["percent-hundredths", "summation-to-percent"])
def test_case_48_units(name: str) -> None:
    """Case 48: hundredths of percent and milliseconds of an interval both become percent."""
    scenario = SCENARIOS[name]
    rollup = scenario["counter"].rpartition(".")[2]
    values = [
        convert_sample(raw, scenario["unit"], rollup, scenario.get("interval_s", 20))
        for raw in scenario["values"]
    ]
    assert values == EXPECTED[name]


def _epoch(text: str) -> float:
    return datetime.fromisoformat(f"2026-01-01T{text}").replace(tzinfo=UTC).timestamp()


def test_case_48_the_window_is_moved_by_the_clock_offset() -> None:
    """Case 48: a controller 7 min ahead reads the samples of the same moments, not later ones."""
    scenario = SCENARIOS["host-clock-ahead"]
    offset = _epoch(scenario["vcenter_utc"]) - _epoch(scenario["controller_utc"])
    start, end = (_epoch(text) for text in scenario["run"])
    during = _series([5000] * 24, start=start + offset)
    after = _series([100] * 60, start=end + offset)
    table = usage_table(
        [join_series(during, after)],
        ["esx1"],
        Window(start, end),
        clock_offset=offset,
        counters=[CPU],
    )
    assert offset == -7 * 60
    assert table.average == {CPU: 50.0}
    assert table.warnings == ()


def test_only_samples_wholly_inside_the_window_count() -> None:
    """The ramp's samples, and those that reach over an edge, are not in the mean."""
    series = _series([9000, 9000, 1000, 1000, 9000], start=0)
    average = average_over(series, Window(40, 80))
    assert (average.mean, average.used) == (10.0, 2)
    off_grid = average_over(series, Window(35, 85))
    assert (off_grid.mean, off_grid.used, off_grid.note) == (10.0, 2, None)


def test_the_table_averages_hosts_that_have_figures_and_warns_of_the_others() -> None:
    """A host without samples is not available; it is neither 0 nor part of the average."""
    table = usage_table(
        [_series([2000, 2000]), _series([4000, 4000], host="esx2")],
        ["esx1", "esx2", "esx3"],
        Window(0, 40),
        clock_offset=0.0,
        counters=[CPU],
    )
    assert table.average[CPU] == 30.0
    assert table.hosts["esx3"][CPU].mean is None
    assert table.warnings == (f"esx3: {CPU}: not available",)


def test_an_unmeasured_clock_is_said() -> None:
    """Without the vCenter's clock the window is taken as it is, and that is a warning."""
    table = usage_table([], [], Window(0, 40), counters=[CPU])
    assert table.average == {CPU: None}
    assert "clock was not compared" in table.warnings[0]


def test_reads_during_the_run_join_without_doubles() -> None:
    """Two reads that overlap give each instant once."""
    first, second = _series([100, 200, 300]), _series([300, 400], start=40)
    joined = join_series(join_series(None, first), second)
    assert joined.samples == ((20.0, 100), (40.0, 200), (60.0, 300), (80.0, 400))


def test_a_window_shorter_than_an_interval_says_so() -> None:
    """Ten seconds hold no sample of 20 s."""
    average = average_over(_series([100, 100]), Window(5, 15))
    assert average.mean is None
    assert average.note is not None
    assert "shorter than one interval" in average.note

"""The platform's part of a report: hosts' usage, vSAN's figures, events."""

from __future__ import annotations

from orchestrator.counters import Average, Series, Window, usage_table
from orchestrator.events import PlatformEvent
from orchestrator.report.platform import render_events, render_figures, render_usage

CPU, MEMORY = "cpu.usage.average", "mem.usage.average"


def _series(host: str, counter: str, value: int) -> Series:
    samples = tuple((20.0 * n, value) for n in range(1, 4))
    return Series(host, counter, "percent", "average", 20, samples)


def test_the_table_has_a_row_for_each_host_and_the_average() -> None:
    """Percent with two decimals; what is not there is said, and the mean over how many hosts."""
    usage = usage_table(
        [
            _series("esx1", CPU, 2513),
            _series("esx2", CPU, 4400),
            _series("esx1", MEMORY, 1000),
        ],
        ["esx1", "esx2"],
        Window(0, 60),
        clock_offset=0.0,
        counters=[CPU, MEMORY],
    )
    assert render_usage(usage).splitlines() == [
        "host     cpu.usage  mem.usage",
        "esx1     25.13 %    10.00 %",
        "esx2     44.00 %    not available",
        "average  34.56 %    10.00 % (1 of 2)",
        "  esx2: mem.usage.average: not available",
    ]


def test_vsan_figures_have_units_and_samples() -> None:
    """Each figure with its unit and how many samples stand behind it."""
    figures = {
        "cluster-domclient:1": {
            "iopsRead": Average(12345.6, "iops", 3, 3),
            "latencyAvgRead": Average(None, "us", 0, 3, 0, "not available"),
        }
    }
    text = render_figures(figures)
    assert "cluster-domclient:1  iopsRead        12,345.6       iops  3/3" in text
    assert "not available" in text
    assert render_figures({}) == ""


def test_events_are_listed_in_order_and_many_are_counted() -> None:
    """Time in UTC, kind, whom it concerns, and vCenter's words; a storm is cut."""
    events = [PlatformEvent(n, "migration", "T", "moved", "w1", "esx1") for n in range(25)]
    lines = render_events(events).splitlines()
    assert lines[0] == "00:00:00  migration    w1 esx1  moved"
    assert lines[-1] == "and 5 more"
    assert render_events([]) == ""

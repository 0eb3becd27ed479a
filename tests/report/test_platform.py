"""The platform's part of a report: hosts' usage, vSAN's figures, events."""

from __future__ import annotations

from orchestrator.counters import Average, Series, Window, usage_table
from orchestrator.events import PlatformEvent
from orchestrator.report.platform import (
    render_case_platform,
    render_events,
    render_figures,
    render_ground,
    render_usage,
)

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


def test_the_ground_says_an_unchecked_certificate_and_a_moved_worker() -> None:
    """Who reads the report alone learns that TLS was not verified."""
    facts = {
        "vcenter": {"host": "vc", "version": "8.0.3", "insecure": True},
        "cluster": "C0",
        "vsan": {"architecture": "osa", "hosts": 4, "disk_groups": 8, "dedupe": True},
    }
    workers = {
        "w1": {"host_start": "esx1", "host_end": "esx2"},
        "w2": {"host_start": "esx1", "host_end": "esx1"},
    }
    text = render_ground({"platform": facts, "workers": workers})
    assert "NOT checked" in text
    assert "vSAN OSA: 4 hosts, 8 disk groups, dedupe on, compression unknown" in text
    assert "Moved during the run: w1 from esx1 to esx2." in text
    assert render_ground({}) == ""


def test_a_case_says_what_its_attendants_said() -> None:
    """The cache in words, and what could not be read."""
    documents = {
        "cache": {"done": False, "why": "esx1: refused"},
        "platform": {"warnings": ["events: not available: no route"]},
    }
    assert render_case_platform(documents).splitlines() == [
        "cache: NOT cleared: esx1: refused",
        "warning: events: not available: no route",
    ]

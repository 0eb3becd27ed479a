"""The text report and the HCIBench block: compared whole with golden files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.analysis import analyse_case, merge_files
from orchestrator.evidence import CaseExpectation, WorkerEvidence
from orchestrator.report.figures import latency_text, rate_text
from orchestrator.report.hcibench import render_hcibench
from orchestrator.report.text import WIDTH, render_text
from orchestrator.results import RunResult

TESTS = Path(__file__).parents[1]
TRUTH = TESTS / "data" / "truth"
CASES = TESTS / "data" / "cases"
GOLDEN = TESTS / "golden" / "report"


def sample_run() -> RunResult:
    """A good case in two groups, a degraded one, one of doubts, one without any data."""
    outputs = {path.stem: path.read_bytes() for path in sorted((TRUTH / "skewed").glob("w*.json"))}
    names = tuple(outputs)
    items = [
        WorkerEvidence(
            name,
            output=data,
            exit_status=0,
            ended_by="exited",
            t0=1000.0,
            started=1000.0 + number / 1000,
            clock_offset_s=0.0,
            clock_uncertainty_s=0.0004,
            datastore="vsanDatastore",
        )
        for number, (name, data) in enumerate(outputs.items())
    ]
    good = CaseExpectation(
        case="4k-70r-random",
        workers=names,
        groups={"fast": names[:2], "slow": names[2:]},
        runtime_s=2.0,
    )
    lost = [
        *items[:3],
        dataclasses.replace(items[3], output=None, outcome="broken", reason="connection lost"),
    ]
    degraded = dataclasses.replace(
        good, case="a-case-with-a-very-long-name-x-bs=4k-x-iodepth=128-x-numjobs=16", groups={}
    )
    doubts = merge_files(
        (name, (CASES / folder / f"{name}.json").read_bytes())
        for folder, name in (
            ("14-sampled-mean-or-total", "uneven-grouped"),
            ("19-sync-latency", "fdatasync"),
            ("18-impossible-latency", "latency-of-centuries"),
        )
    ).cases[0]
    nothing = merge_files([("w1", b"")]).cases[0]
    return RunResult(
        cases=(
            analyse_case(good, items, t0=1000.0),
            analyse_case(degraded, lost, policy_satisfied=lambda got, of: got >= 3),
            replace(doubts, case="doubts"),
            replace(nothing, case="nothing"),
        )
    )


@pytest.mark.parametrize(
    ("name", "render"), [("run.txt", render_text), ("hcibench.txt", render_hcibench)]
)
def test_reports_are_as_recorded(name: str, render: object) -> None:
    """The whole report, byte for byte."""
    assert callable(render)
    assert render(sample_run()) == (GOLDEN / name).read_text()


def test_no_line_is_wider_than_a_terminal() -> None:
    """At most 120 columns, whatever the names and figures are."""
    run = sample_run()
    for line in render_text(run).splitlines():
        assert len(line) <= WIDTH
        assert line == line.rstrip()


def test_huge_figures_still_fit() -> None:
    """Millions of IOPS over a thousand workers keep their digits and fit."""
    run = sample_run()
    case = run.cases[1]
    assert case.total is not None
    assert case.total.read is not None
    assert case.total.read.latency_ns is not None
    read = replace(
        case.total.read,
        iops=12_345_678.0,
        bytes_per_s=50e9,
        latency_ns=replace(case.total.read.latency_ns, count=123_456_789_012),
    )
    case = replace(
        case,
        total=replace(case.total, read=read),
        expected_workers=1024,
        received_workers=1023,
    )
    text = render_text(RunResult(cases=(case,)))
    assert "12,345,678" in text
    assert "1023/1024" in text
    assert max(map(len, text.splitlines())) <= WIDTH


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "-"),
        (0, "0 ns"),
        (999, "999 ns"),
        (64768, "64.8 us"),
        (1_234_567, "1.23 ms"),
        (123_456_789, "123 ms"),
        (2.5e9, "2.50 s"),
    ],
)
def test_latency_is_written_for_people(ns: float | None, text: str) -> None:
    """Three figures and a unit; an unknown latency is a dash."""
    assert latency_text(ns) == text


@pytest.mark.parametrize(
    ("rate", "text"), [(None, "-"), (0.0, "0.0"), (99.94, "99.9"), (1234567.8, "1,234,568")]
)
def test_rates_are_written_for_people(rate: float | None, text: str) -> None:
    """Thousands are marked, small rates keep a decimal."""
    assert rate_text(rate) == text

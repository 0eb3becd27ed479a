"""`hcio compare` on run folders and result files, through the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from orchestrator.cli.main import run_cli
from orchestrator.results import (
    CaseResult,
    DirectionResult,
    RunResult,
    TotalResult,
    Verdict,
    write_result,
)
from orchestrator.store import RunStore

PLAN = """\
suite: smoke
prepare: auto
workers:
- name: w1
  targets: [{{file: /x, size: {size}}}]
cases:
- id: c.repeat=1
  groups: {{all: {{name: c, block_size: {block}, iodepth: 8}}}}
"""


def _run(iops: Sequence[float]) -> str:
    cases = [
        CaseResult(
            case=f"c.repeat={number}",
            outcome="done",
            verdict=Verdict(value="valid"),
            expected_workers=1,
            received_workers=1,
            total=TotalResult(
                read=DirectionResult(ios=1, bytes=1, iops=value, bytes_per_s=value * 4096)
            ),
            workers={},
        )
        for number, value in enumerate(iops, start=1)
    ]
    provenance = {"conditions": {"storage policy": f"RAID-{len(iops)}"}}
    return write_result(RunResult(cases=tuple(cases), provenance=provenance)).decode()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A store with a baseline, a slower run, one of another block size, and one without result."""
    store = RunStore(tmp_path / "runs")
    steady, slower = [100.0, 100.3, 99.9, 100.1, 99.8], [90.0, 90.2, 89.9, 90.1, 89.7]
    for name, iops, block in (
        ("base", steady, 4096),
        ("equal", steady, 4096),
        ("slow", slower, 4096),
        ("8k", steady, 8192),
    ):
        folder = store.create(name, PLAN.format(size=1024, block=block))
        folder.write("result.json", _run(iops))
    store.create("empty", PLAN.format(size=1024, block=4096))
    return store.path


def test_a_slower_run_fails_and_says_where(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Repeats inside a run are samples: 10 % less is worse and exits with 1."""
    assert run_cli(["compare", "base", "slow", "--runs", str(runs), "--metric", "iops"]) == 1
    shown = capsys.readouterr().out
    assert "c  (5 and 5 runs)" in shown
    assert "worse" in shown


def test_several_candidates_as_json(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each candidate is compared with the baseline; an equal run is the same."""
    arguments = ["compare", "base", "equal", "slow", "--runs", str(runs), "--json"]
    assert run_cli([*arguments, "--metric", "iops"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [item["cases"][0]["verdict"] for item in document["comparisons"]] == ["same", "worse"]


def test_another_block_size_is_refused(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan's block size tells that two cases of one name are different things."""
    assert run_cli(["compare", "base", "8k", "--runs", str(runs)]) == 3
    shown = capsys.readouterr().out
    assert "block_size" in shown
    assert "4096 -> 8192" in shown
    assert run_cli(["compare", "base", "8k", "--runs", str(runs), "--anyway"]) == 0


def test_several_runs_make_one_side(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A1,A2 are repeats of one thing; conditions in which they differ are all said."""
    assert run_cli(["compare", "base,slow", "equal", "--runs", str(runs), "--format", "markdown"])
    assert "### base, slow against equal" in capsys.readouterr().out


def test_a_run_without_result_is_said(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that was not collected is an error with the next step; an unknown run is usage."""
    assert run_cli(["compare", "base", "empty", "--runs", str(runs)]) == 3
    assert "hcio collect empty" in capsys.readouterr().err
    assert run_cli(["compare", "base", "nothing", "--runs", str(runs)]) == 2


@pytest.mark.parametrize(
    "sides", [("base,base", "slow"), ("base", "slow,slow"), ("base", "base"), ("base,slow", "slow")]
)
def test_no_run_counts_twice(
    runs: Path, sides: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A run named twice would agree with itself: certainty out of nothing."""
    assert run_cli(["compare", *sides, "--runs", str(runs)]) == 2
    assert "next: " in capsys.readouterr().err


def test_runs_of_one_side_with_other_workloads_are_not_mixed(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A side of runs of two block sizes isn't the same as one of one."""
    assert run_cli(["compare", "base,8k", "slow", "--runs", str(runs)]) == 3
    assert "4096 and 8192 -> 4096" in capsys.readouterr().out


@pytest.mark.parametrize("share", ["0.95", "49%", "100%"])
def test_a_confidence_is_a_percent(
    runs: Path, share: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """0.95 isn't taken for 0.95 %."""
    arguments = ["compare", "base", "slow", "--runs", str(runs), "--confidence", share]
    assert run_cli(arguments) == 2
    assert "write it like 95%" in capsys.readouterr().err


@pytest.mark.parametrize("share", ["x", "-1%", "100%", "nan"])
def test_percents_are_checked(runs: Path, share: str) -> None:
    """A percent that isn't one is a usage error."""
    assert run_cli(["compare", "a", "b", "--runs", str(runs), "--min-effect", share]) == 2

"""`hcio merge`: files in, one result out, an exit code that tells."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from orchestrator.cli.main import run_cli

DATA = Path(__file__).parents[1] / "data"
CASES = DATA / "cases"
MILD = [str(path) for path in sorted((DATA / "truth" / "mild").glob("w*.json"))]


def test_good_files_give_a_table_and_exit_0(capsys: pytest.CaptureFixture[str]) -> None:
    """Four good files: figures of both directions, four of four workers."""
    assert run_cli(["merge", *MILD]) == 0
    out = capsys.readouterr().out
    assert "4/4" in out
    assert "383us" in out


@pytest.mark.parametrize("option", [["--json"], ["--format", "json"]])
def test_json_is_the_result_itself(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """--json prints the contract's skeleton and nothing else."""
    assert run_cli(["merge", *MILD, *option]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["cases"][0]["total"]["read"]["latency_ns"]["count"] == 84000


def test_case_4_bad_files_exit_1_and_say_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    """One of five files is good: it is used, and nobody can overlook the others."""
    files = sorted(str(path) for path in (CASES / "04-truncated").glob("vm*"))
    assert run_cli(["merge", *files]) == 1
    out = capsys.readouterr().out
    assert "1 of 5 workers" in out
    assert "vm04-empty: empty" in out


def test_nothing_usable_exits_3() -> None:
    """Without one good file nothing can be told."""
    assert run_cli(["merge", str(CASES / "04-truncated" / "vm04-empty.json")]) == 3


def test_case_16_the_status_beside_a_file_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A complete JSON with exit status 4 beside it is a failed worker."""
    folder = CASES / "16-job-error-and-exit-status"
    for number, name in enumerate(("vm1-one-job-failed", "vm2-good-json-bad-exit", "vm3-good"), 1):
        shutil.copy(folder / f"{name}.json", tmp_path / f"vm{number}.json")
        shutil.copy(folder / f"vm{number}.rc", tmp_path / f"vm{number}.rc")
    files = [str(tmp_path / f"vm{number}.json") for number in (1, 2, 3)]
    assert run_cli(["merge", "--json", *files]) == 1
    case = json.loads(capsys.readouterr().out)["cases"][0]
    assert [worker["outcome"] for worker in case["workers"].values()] == [
        "failed",
        "failed",
        "done",
    ]
    assert case["workers"]["vm2"]["reason"] == "exit status 4 although the JSON is complete"


def test_a_status_that_is_no_number_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged .rc file is a usage error that names it."""
    shutil.copy(MILD[0], tmp_path / "w.json")
    (tmp_path / "w.rc").write_text("maybe")
    assert run_cli(["merge", str(tmp_path / "w.json")]) == 2
    assert "w.rc: not an exit status" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing file is named, and nothing is merged."""
    assert run_cli(["merge", MILD[0], str(tmp_path / "gone.json")]) == 2
    captured = capsys.readouterr()
    assert "gone.json" in captured.err
    assert captured.out == ""


def test_files_of_one_name_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One file name in two folders is two workers, each with its own exit status."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        shutil.copy(MILD[0], tmp_path / folder / "fio.json")
    (tmp_path / "b" / "fio.rc").write_text("1\n")
    files = [str(tmp_path / folder / "fio.json") for folder in ("a", "b")]
    assert run_cli(["merge", "--json", *files]) == 1
    workers = json.loads(capsys.readouterr().out)["cases"][0]["workers"]
    assert [(name, worker["counted"]) for name, worker in workers.items()] == [
        ("fio", True),
        ("fio-2", False),
    ]


def test_the_hcibench_block_has_right_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """The known layout, with the merged p95 and MB/s of 10^6 bytes."""
    assert run_cli(["merge", *MILD, "--format", "hcibench"]) == 0
    out = capsys.readouterr().out
    assert "95%tile_R_LAT = 0.1423 ms" in out
    assert "VMs           = 4 of 4" in out
    assert "MB/s" in out


def test_case_29_figures_that_come_from_memory_are_noted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing is known of the disks behind a plain output; 6 us a read are told all the same, and
    real latencies get no note."""
    file = str(CASES / "29-unwritten-blocks" / "disk-never-written.json")
    assert run_cli(["merge", "--json", file]) == 0
    verdict = json.loads(capsys.readouterr().out)["cases"][0]["verdict"]
    assert verdict["value"] == "valid"
    assert [(r["code"], r["level"]) for r in verdict["reasons"]] == [("latency-too-small", "note")]
    assert run_cli(["merge", "--json", MILD[0]]) == 0
    verdict = json.loads(capsys.readouterr().out)["cases"][0]["verdict"]
    assert "latency-too-small" not in {reason["code"] for reason in verdict["reasons"]}

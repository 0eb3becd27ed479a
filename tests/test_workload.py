"""The workload of an imported run, from fio's own options; comparisons that it makes honest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.main import run_cli
from orchestrator.measured import Job
from orchestrator.workload import workload_of

READ = Path(__file__).parent / "data" / "cases" / "06-no-samples" / "read-only.json"


def job(**options: str) -> Job:
    """A job with these options and no figures."""
    return Job("j", None, 0, options, None, None, None)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"rw": "randread"}, (4096, 100, 100)),
        ({"readwrite": "write", "blocksize": "256K"}, (262144, 0, 0)),
        ({"rw": "randrw", "rwmixread": "70", "percentage_random": "0"}, (4096, 70, 0)),
        ({"rw": "rw", "rwmixwrite": "30", "bs": "8k,16k"}, ("8k,16k", 70, 0)),
        ({"rw": "randrw:8"}, (4096, 50, 100)),
        ({"bs": "1m"}, (1048576, 100, 0)),
    ],
)
def test_options_become_a_profiles_fields(
    options: dict[str, str], wanted: tuple[Any, int, int]
) -> None:
    """Block size in bytes, percent of reads and of random I/O, by fio's own defaults."""
    found = workload_of([job(**options)])
    assert (found["block_size"], found["read_percent"], found["random_percent"]) == wanted


def test_jobs_that_differ_are_all_said() -> None:
    """Two block sizes side by side; jobs without options or of a CPU load say nothing."""
    jobs = [job(rw="read", bs="4k"), job(rw="read", bs="8k"), job(), job(ioengine="cpuio")]
    found = workload_of(jobs)
    assert (found["block_size"], found["read_percent"]) == ("4096 and 8192", 100)
    assert workload_of([job()]) == {}
    assert workload_of([job(rw="randtrim")])["rw"] == "trim"


def test_imported_runs_of_different_workloads_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """4k against 64k under the same name: refused, with the difference; a depth is only said."""
    document = json.loads(READ.read_text())
    for name, options in {
        "a": {"rw": "read", "bs": "4k", "iodepth": "4"},
        "b": {"rw": "read", "bs": "64k", "iodepth": "4"},
        "c": {"rw": "read", "bs": "4k", "iodepth": "8"},
    }.items():
        for entry in document["jobs"]:
            entry["job options"] = options
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(document))
        runs = ["--runs", str(tmp_path / "runs"), "--name", name]
        assert run_cli(["import", "fio", str(file), *runs]) == 0
    capsys.readouterr()
    run_cli(["compare", "a", "b", "--runs", str(tmp_path / "runs")])
    assert "the workload differs (block_size)" in capsys.readouterr().out
    run_cli(["compare", "a", "c", "--runs", str(tmp_path / "runs")])
    shown = capsys.readouterr().out
    assert "iodepth  4 -> 8" in shown
    assert "the workload differs" not in shown

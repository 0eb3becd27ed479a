import json
from pathlib import Path

import pytest

from orchestrator.joblint import check_reach, lint_job
from orchestrator.sections import parse_job_text

CASE_30 = Path(__file__).parent / "data/cases/30-timing-options"
FOUND = {
    "runtime-without-time_based": "warning",
    "time_based-without-runtime": "error",
    "ramp-longer-than-runtime": "error",
    "ramp-ok": None,
}


def codes(text):
    return [finding.code for finding in lint_job(parse_job_text(text))]


@pytest.mark.parametrize(("name", "level"), FOUND.items())
def test_case_30_timing(name, level):
    """Case 30: the three bad timings are found before anything is sent, the good one is not."""
    findings = lint_job(parse_job_text((CASE_30 / f"{name}.fio").read_text()))
    assert [(f.code, f.level) for f in findings] == ([(name, level)] if level else [])


def test_case_30_texts_hold_what_the_case_asks():
    """Case 30: the text says what fio will really do."""
    expected = json.loads((CASE_30 / "expected.json").read_text())
    text = (CASE_30 / "runtime-without-time_based.fio").read_text()
    (finding,) = lint_job(parse_job_text(text))
    assert "may end before 5 s" in expected["runtime-without-time_based"]
    assert "may end before 5 s" in finding.text


def test_case_7_latency_off_is_warned_about():
    """Case 7: a job that switches latency off and asks for percentiles gets a warning."""
    (finding,) = lint_job(parse_job_text("[a]\ngtod_reduce=1\nlat_percentiles=1\n"))
    assert (finding.level, finding.code) == ("warning", "latency-off")
    assert "lat_percentiles" in finding.text
    assert codes("[a]\ngtod_reduce=0\n") == []


def test_an_option_in_global_counts_for_each_job():
    """What [global] says is judged in the sections that inherit it."""
    assert codes("[global]\ntime_based\n[a]\nruntime=3\n[b]\nrw=read\n") == [
        "time_based-without-runtime"
    ]


def test_continue_on_error_is_never_silent():
    """HCIBench's continue_on_error=all hides I/O errors, so it is said."""
    assert codes("[a]\ncontinue_on_error=all\n") == ["errors-continued"]
    assert codes("[a]\ncontinue_on_error=none\n") == []


def test_latency_target_of_clones_is_warned_about():
    """Case 32: fio 3.33 multiplies latency_target by 1000 in all but the first clone."""
    assert codes("[a]\nlatency_target=10ms\nnumjobs=3\n") == ["latency-target-clones"]


def test_a_file_without_jobs_is_an_error():
    """A file of defaults alone does nothing."""
    assert codes("[global]\nbs=4k\n") == ["no-jobs"]


@pytest.mark.parametrize(
    "line",
    [
        "exec_prerun=rm -rf /",
        "exec_postrun=sync",
        "directory=/mnt",
        "opendir=/mnt",
        "filename=/etc/passwd",
        "filename=/dev/sda:/home/x",
        "filename=/dev/../etc/passwd",
        "filename=relative",
        "ioengine=net",
        "ioengine=rbd",
        "ioengine=external:/x.so",
        "write_bw_log=/tmp/x",
        "write_iolog=x",
        "read_iolog=x",
        "unlink=1",
        "unlink",
        "ioscheduler=none",
        "allow_mounted_write=1",
        "mem=mmaphuge:/huge/x",
        "include other.fio",
        "EXEC_PRERUN=ls",
    ],
)
def test_what_reaches_beyond_the_targets_is_refused(line):
    """A user's job file may touch its targets and nothing else."""
    (finding,) = check_reach(parse_job_text(f"[global]\n[a]\n{line}\n"))
    assert finding.level == "error"
    assert finding.section == "a"


@pytest.mark.parametrize(
    "line",
    ["filename=/dev/sda", "ioengine=libaio", "write_bw_log=x", "unlink=0", "mem=malloc", "bs=4k"],
)
def test_what_stays_inside_is_let_through(line):
    """An ordinary option is no finding."""
    assert check_reach(parse_job_text(f"[a]\n{line}\n")) == ()

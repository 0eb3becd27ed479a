"""Evidence to judged result: who counts, what is said, how simultaneous it was."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from orchestrator.analysis import analyse_case, every_worker, merge_files
from orchestrator.checks import (
    CaseSubject,
    WorkerSubject,
    check_case,
    check_worker,
    verdict_of,
)
from orchestrator.evidence import CaseExpectation, WorkerEvidence
from orchestrator.fio_output import parse_fio_output
from orchestrator.results import CaseResult, Reason, Timing

DATA = Path(__file__).parent / "data"
CASES = DATA / "cases"
GOOD = (DATA / "truth" / "mild" / "w1.json").read_bytes()
EXPECTED = CaseExpectation(case="4k", workers=("w1", "w2"), runtime_s=2.0, ramp_s=1.0)


def evidence(worker: str, **changes: object) -> WorkerEvidence:
    """A good worker that started on time, with changes."""
    good = WorkerEvidence(
        worker,
        output=GOOD,
        exit_status=0,
        ended_by="exited",
        t0=1000.0,
        started=1000.001,
        ended=1003.1,
        clock_offset_s=0.0,
        clock_uncertainty_s=0.001,
    )
    return dataclasses.replace(good, **changes)  # type: ignore[arg-type]


def codes(case: CaseResult) -> dict[str, str]:
    """Reason codes of a case with their levels."""
    return {reason.code: reason.level for reason in case.verdict.reasons}


def merged(case: str, *names: str, statuses: dict[str, int] | None = None) -> CaseResult:
    files = ((Path(name).stem, (CASES / case / name).read_bytes()) for name in names)
    return merge_files(files, statuses=statuses).cases[0]


def test_a_good_case_is_valid() -> None:
    """Two good workers: done, valid, both counted, no reason at all."""
    case = analyse_case(EXPECTED, [evidence("w1"), evidence("w2")], t0=1000.0)
    assert (case.outcome, case.verdict.value, case.degraded) == ("done", "valid", False)
    assert (case.expected_workers, case.received_workers) == (2, 2)
    assert case.verdict.reasons == ()
    assert case.total is not None
    assert case.total.read is not None
    alone = [worker.total.read.ios for worker in case.workers.values() if worker.total]  # type: ignore[union-attr]
    assert case.total.read.ios == sum(alone) == 2 * alone[0]  # type: ignore[operator,arg-type]


def test_a_missing_worker_fails_the_case() -> None:
    """A worker that sent nothing is named, and the totals say from how many they are."""
    case = analyse_case(EXPECTED, [evidence("w1")])
    assert (case.outcome, case.verdict.value) == ("broken", "invalid")
    assert case.received_workers == 1
    reason = case.verdict.reasons[0]
    assert (reason.code, reason.worker) == ("worker-missing", "w2")
    assert "1 of 2 workers" in reason.text


def test_a_worker_that_is_not_counted_makes_nothing_invalid() -> None:
    """A killed worker's run is short: told of it, but the totals without it are only unknown."""
    expected = dataclasses.replace(EXPECTED, runtime_s=30.0)
    killed = evidence("w2", outcome="failed", reason="killed")
    short = analyse_case(expected, [evidence("w1"), killed], policy_satisfied=lambda got, of: True)
    levels = {r.level for r in short.verdict.reasons if r.code == "short-run" and r.worker == "w2"}
    assert levels == {"note"}
    whole = analyse_case(EXPECTED, [evidence("w1"), killed], policy_satisfied=lambda got, of: True)
    assert whole.verdict.value == "unknown"


def test_the_policy_may_let_a_case_stand_degraded() -> None:
    """With the policy satisfied the case is done and degraded, and its verdict unknown."""
    items = [evidence("w1"), evidence("w2", outcome="broken", reason="gone", output=None)]
    case = analyse_case(EXPECTED, items, policy_satisfied=lambda got, of: got * 2 >= of)
    assert (case.outcome, case.degraded, case.verdict.value) == ("done", True, "unknown")
    assert case.workers["w2"].reason == "gone"
    assert not case.workers["w2"].counted


def test_the_strict_policy_wants_everybody() -> None:
    """Without a policy every expected worker must be there."""
    assert every_worker(3, 3)
    assert not every_worker(2, 3)


def test_workers_that_were_not_expected_are_left_out() -> None:
    """Only expected workers count, whoever else sends."""
    case = analyse_case(EXPECTED, [evidence("w1"), evidence("w2"), evidence("stranger")])
    assert set(case.workers) == {"w1", "w2"}
    assert case.received_workers == 2


def test_case_16_a_failed_job_is_no_result() -> None:
    """Job errors and exit statuses fail a worker, with the reason; the rest is counted."""
    names = ("vm1-one-job-failed.json", "vm2-good-json-bad-exit.json", "vm3-good.json")
    statuses = {"vm1-one-job-failed": 1, "vm2-good-json-bad-exit": 4, "vm3-good": 0}
    case = merged("16-job-error-and-exit-status", *names, statuses=statuses)
    assert (case.outcome, case.received_workers, case.expected_workers) == ("failed", 1, 3)
    first, second, third = case.workers.values()
    assert first.reason == "job 'bad' error 28 (No space left on device), exit status 1"
    assert first.jobs["good"].write is not None
    assert second.reason == "exit status 4 although the JSON is complete"
    assert (third.outcome, third.reason, third.counted) == ("done", None, True)
    assert case.total is not None
    assert case.total.read is not None
    assert case.total.read.ios == 4001
    assert case.total.write is None or case.total.write.ios == 0


def test_case_3_an_incomplete_output_is_shown_and_not_counted() -> None:
    """A worker killed during its last document is failed; what came before can be looked at."""
    case = merged("03-status-interval", "killed-during-last.json")
    worker = case.workers["killed-during-last"]
    assert (worker.outcome, worker.counted, worker.documents) == ("failed", False, 4)
    assert (worker.reason or "").startswith("incomplete")
    assert worker.total is not None
    assert worker.total.read is not None
    assert worker.total.read.ios == 7797
    assert case.total is None


def test_case_4_bad_files_are_named_and_the_good_one_used() -> None:
    """1 of 5: every bad file keeps its own reason."""
    names = sorted(path.name for path in (CASES / "04-truncated").glob("vm*"))
    case = merged("04-truncated", *names)
    assert (case.received_workers, case.expected_workers) == (1, 5)
    assert case.reason == "1 of 5 workers"
    reasons = [(worker.reason or "").split(":")[0] for worker in case.workers.values()]
    assert reasons == ["", "incomplete", "incomplete", "empty", "no JSON"]


def test_case_1_an_io_error_fails_the_worker_and_keeps_the_text() -> None:
    """The lines before the JSON are in the worker's result."""
    case = merged("01-text-around-json", "before-io-error.json")
    worker = case.workers["before-io-error"]
    assert worker.outcome == "failed"
    assert "error 28" in (worker.reason or "")
    assert "No space left" in worker.text[0]


def test_case_7_latency_not_measured_is_a_note() -> None:
    """IOPS counts; latency is null and said to be not measured."""
    case = merged("07-latency-not-measured", "gtod-reduce.json")
    assert codes(case) == {"latency-not-measured": "note"}
    assert case.verdict.value == "valid"
    assert case.total is not None
    assert case.total.read is not None
    assert case.total.read.latency_ns is None


def test_case_10_mixed_kinds_are_not_trusted_silently() -> None:
    """A latency that covers some of the workers makes the verdict unknown."""
    names = ("vm1-clat-only.json", "vm2-lat-only.json", "vm3-both.json")
    assert codes(merged("10-lat-or-clat-percentiles", *names)) == {"mixed-latency-kinds": "unknown"}


@pytest.mark.parametrize(
    ("case", "name", "code", "level"),
    [
        ("13-metadata-not-of-this-job", "group-hybrid.json", "mixed-group", "note"),
        ("14-sampled-mean-or-total", "uneven-grouped.json", "sampled-mean-differs", "unknown"),
        ("14-sampled-mean-or-total", "uneven-separate.json", "unequal-runtimes", "unknown"),
        ("18-impossible-latency", "latency-of-centuries.json", "impossible-latency", "unknown"),
        ("21-nan-and-inf", "inf.json", "worker-failed", "invalid"),
        ("32-per-job-limits", "latency-target-3-jobs.json", "latency-target-bug", "invalid"),
    ],
)
def test_a_doubtful_result_says_so(case: str, name: str, code: str, level: str) -> None:
    """Cases 13, 14, 18, 21 and 32: the doubt is a reason with its level and a next step."""
    found = merged(case, name)
    assert codes(found)[code] == level
    assert all(r.next_step for r in found.verdict.reasons if r.code == code)


def test_case_18_a_capped_percentile_is_no_doubt() -> None:
    """A percentile above the maximum is capped without a word."""
    case = merged("18-impossible-latency", "percentile-above-max.json")
    assert case.verdict.reasons == ()
    assert case.total is not None
    assert case.total.read is not None
    assert case.total.read.latency_ns is not None
    assert case.total.read.latency_ns.percentiles["99.9"] == 2177213


@pytest.mark.parametrize(
    ("preconditioned", "value"), [(False, "unknown"), (True, "valid"), (None, "valid")]
)
def test_case_29_reads_of_unwritten_blocks_are_marked(
    preconditioned: bool | None, value: str
) -> None:
    """A case that reads without a fill says `not preconditioned`."""
    data = (CASES / "29-unwritten-blocks" / "disk-never-written.json").read_bytes()
    expected = CaseExpectation(case="r", workers=("w1",), reads=True, preconditioned=preconditioned)
    case = analyse_case(expected, [evidence("w1", output=data)])
    assert case.verdict.value == value
    assert ("not-preconditioned" in codes(case)) == (preconditioned is False)


def test_case_33_a_worker_without_json_shows_fio_s_words() -> None:
    """fio's text and its exit status are the worker's reason."""
    data = (CASES / "33-engine-or-direct-missing" / "stdout.txt").read_bytes()
    case = merge_files([("w", data)], statuses={"w": 1}).cases[0]
    reason = case.workers["w"].reason or ""
    assert "cannot open shared object file" in reason
    assert "exit status 1" in reason


def test_case_40_odd_stderr_is_shown_with_replacements() -> None:
    """Bytes of another encoding on stderr never raise."""
    odd = (CASES / "40-odd-bytes-and-sudo-text" / "stderr-gbk.bin").read_bytes()
    case = analyse_case(EXPECTED, [evidence("w1", stderr=odd, exit_status=1), evidence("w2")])
    assert "�" in "".join(case.workers["w1"].text)


@pytest.mark.parametrize(
    ("ended_by", "words"),
    [("deadline", "deadline"), ("stopped", "stopped"), ("signal:KILL", "signal KILL")],
)
def test_an_unnatural_end_is_named(ended_by: str, words: str) -> None:
    """How fio ended is the reason, even when its output looks whole."""
    case = analyse_case(EXPECTED, [evidence("w1", ended_by=ended_by), evidence("w2")])
    assert words in (case.workers["w1"].reason or "")
    assert case.received_workers == 1


def test_a_short_run_is_invalid() -> None:
    """Less than 95 % of the asked time is not the asked measurement."""
    expected = dataclasses.replace(EXPECTED, runtime_s=60.0)
    case = analyse_case(expected, [evidence("w1"), evidence("w2")])
    assert codes(case)["short-run"] == "invalid"


def test_groups_are_held_against_their_own_times() -> None:
    """A group that was asked for 2 s beside one of 4 s ran as long as asked; that their rates did
    not stand side by side all the time is what is said."""
    longer = json.loads(GOOD)
    for job in longer["jobs"]:
        for side in ("read", "write"):
            for amount in ("total_ios", "io_bytes"):
                job[side][amount] *= 2
            job[side]["runtime"] *= 2
    expected = dataclasses.replace(
        EXPECTED,
        runtime_s=4.0,
        groups={"a": ("w1",), "b": ("w2",)},
        times={"w1": (1.0, 2.0), "w2": (1.0, 4.0)},
    )
    items = [evidence("w1"), evidence("w2", output=json.dumps(longer).encode())]
    case = analyse_case(expected, items)
    assert codes(case) == {"low-overlap": "unknown"}
    assert case.timing.overlap == pytest.approx(0.5)
    assert case.timing.common_window_s == pytest.approx(2.0)


def test_jobs_of_the_users_own_file_have_their_own_times() -> None:
    """A job that states 2 s in a file whose longest job runs 60 s is not short; in a file of
    hcio's own it is."""
    document = json.loads(GOOD)
    for job in document["jobs"]:
        job["job options"]["runtime"] = "2"
    items = [evidence("w1", output=json.dumps(document).encode())]
    expected = CaseExpectation(case="c", workers=("w1",), runtime_s=60.0)
    assert "short-run" in codes(analyse_case(expected, items))
    own = dataclasses.replace(expected, own_files=frozenset({"w1"}))
    assert "short-run" not in codes(analyse_case(own, items))


def test_a_job_without_io_is_a_missing_part_of_the_load() -> None:
    """One of two jobs that did nothing is named."""
    document = json.loads(GOOD)
    for side in ("read", "write"):
        idle = {"total_ios": 0, "iops": 0.0, "io_bytes": 0, "runtime": 0, "iops_mean": 0.0}
        document["jobs"][1][side].update(**idle, lat_ns={"N": 0}, clat_ns={"N": 0})
    expected = CaseExpectation(case="c", workers=("w1",))
    case = analyse_case(expected, [evidence("w1", output=json.dumps(document).encode())])
    assert codes(case) == {"job-without-io": "unknown"}
    assert repr(document["jobs"][1]["jobname"]) in case.verdict.reasons[0].text


def test_every_reason_that_moves_the_verdict_has_its_parts() -> None:
    """A threshold, the evidence, and a next step beside the code."""
    expected = dataclasses.replace(
        EXPECTED, workers=("w1", "w2", "w3"), reads=True, preconditioned=False, runtime_s=60.0
    )
    late = evidence("w2", started=1030.0, clock_uncertainty_s=0.4, fio_version="fio-3.1")
    skewed = (DATA / "truth" / "skewed" / "w4.json").read_bytes()
    items = [evidence("w1"), late, evidence("w3", output=skewed)]
    cases = [
        analyse_case(expected, items),
        analyse_case(expected, items[:1]),
        merged("18-impossible-latency", "latency-of-centuries.json"),
    ]
    moving = [r for case in cases for r in case.verdict.reasons if r.level != "note"]
    found = {reason.code for reason in moving}
    assert {"start-skew", "low-overlap", "clock-uncertain", "not-preconditioned"} <= found
    assert {"short-run", "unequal-runtimes", "fio-versions-differ", "worker-missing"} <= found
    assert all(r.threshold and r.evidence and r.next_step for r in moving)


def test_skew_and_overlap_use_the_controllers_clock() -> None:
    """A worker whose clock is 300 s ahead started together with the others."""
    ahead = evidence("w2", t0=1300.0, started=1300.011, ended=1303.1, clock_offset_s=300.0)
    case = analyse_case(EXPECTED, [evidence("w1"), ahead])
    assert case.timing.skew_s == pytest.approx(0.010)
    assert case.timing.common_window_s == pytest.approx(1.990)
    assert case.timing.overlap == pytest.approx(1.990 / 2.010)
    assert case.workers["w2"].timing.started == pytest.approx(1000.011)
    assert case.workers["w2"].timing.late_s == pytest.approx(0.011)
    assert case.verdict.value == "valid"


def test_a_job_without_latency_beside_others_is_told() -> None:
    """One job's latency can't be read: the others' is not everybody's, so unknown."""
    whole = (DATA / "truth" / "mild" / "w3.json").read_bytes()
    damaged = whole.replace(b'"N" : 260,', b'"N" : -1,', 1)
    assert damaged != whole
    assert "latency-partial" not in codes(merge_files([("w", whole)]).cases[0])
    case = merge_files([("w", damaged)]).cases[0]
    assert codes(case).get("latency-partial") == "unknown", case.verdict
    assert case.verdict.value == "unknown"


def test_a_clock_that_was_set_is_told() -> None:
    """Instants are corrected for it before they are judged: a note, with by how much."""
    case = analyse_case(EXPECTED, [evidence("w1"), evidence("w2", clock_step_s=-30.0)])
    (reason,) = case.verdict.reasons
    assert (reason.code, reason.worker, reason.level) == ("clock-stepped", "w2", "note")
    assert "-30.000 s" in reason.text
    assert case.verdict.value == "valid"


def test_late_workers_and_vague_clocks_make_it_unknown() -> None:
    """Skew, overlap and clock uncertainty each have a reason of their own."""
    late = evidence("w2", started=1001.5, clock_uncertainty_s=0.4)
    case = analyse_case(EXPECTED, [evidence("w1"), late])
    assert set(codes(case)) == {"start-skew", "low-overlap", "clock-uncertain"}
    assert case.verdict.value == "unknown"


def test_windows_that_never_meet_have_no_overlap() -> None:
    """Disjoint windows give 0, not a negative share."""
    case = analyse_case(EXPECTED, [evidence("w1"), evidence("w2", started=2000.0)])
    assert case.timing.overlap == 0.0


def test_unknown_starts_leave_skew_unknown() -> None:
    """Without a start time nothing is said about skew."""
    case = analyse_case(EXPECTED, [evidence("w1"), evidence("w2", started=None)])
    assert (case.timing.skew_s, case.timing.overlap) == (None, None)


def test_workers_that_measured_for_different_times_are_told() -> None:
    """In the skewed truth one worker ran half as long: its rate is not beside the others'."""
    paths = sorted((DATA / "truth" / "skewed").glob("w*.json"))
    case = merge_files((path.stem, path.read_bytes()) for path in paths).cases[0]
    assert codes(case) == {"unequal-runtimes": "unknown"}
    assert [reason.worker for reason in case.verdict.reasons] == ["w4"]
    assert case.workers["w4"].runtime_s == pytest.approx(1.0, abs=0.01)


def test_different_versions_are_told() -> None:
    """Two versions of fio in one case make its verdict unknown."""
    items = [evidence("w1"), evidence("w2", fio_version="fio-3.1")]
    case = analyse_case(EXPECTED, items)
    assert codes(case) == {"fio-versions-differ": "unknown"}


def test_groups_have_figures_of_their_own() -> None:
    """Two groups: each has its workers' sum, and the total has both."""
    expected = dataclasses.replace(EXPECTED, groups={"a": ("w1",), "b": ("w2",)})
    case = analyse_case(expected, [evidence("w1"), evidence("w2")])
    assert {name: group.received_workers for name, group in case.groups.items()} == {
        "a": 1,
        "b": 1,
    }
    reads = [group.total.read.ios for group in case.groups.values() if group.total]  # type: ignore[union-attr]
    assert case.total is not None
    assert case.total.read is not None
    assert sum(ios or 0 for ios in reads) == case.total.read.ios
    assert case.workers["w1"].group == "a"


def test_names_that_come_again_are_numbered() -> None:
    """Two files of one name are two workers."""
    case = merge_files([("w", GOOD), ("w", GOOD), ("w-2", GOOD)]).cases[0]
    assert list(case.workers) == ["w", "w-2", "w-2-2"]
    assert case.expected_workers == 3


def test_a_crashing_check_makes_the_verdict_unknown() -> None:
    """A check with a fault must not look like a good one."""

    def broken(subject: object) -> list[Reason]:
        raise KeyError("fault")

    subject = WorkerSubject(EXPECTED, evidence("w1"), parse_fio_output(GOOD, "w1"))
    reasons = check_worker(subject, [broken])
    assert [reason.code for reason in reasons] == ["check-crashed"]
    case = CaseSubject(EXPECTED, {}, None, Timing(), 0, False)
    assert verdict_of(check_case(case, [broken])).value == "unknown"


@pytest.mark.parametrize(
    ("levels", "value"),
    [
        ([], "valid"),
        (["note"], "valid"),
        (["note", "unknown"], "unknown"),
        (["unknown", "invalid", "note"], "invalid"),
    ],
)
def test_the_worst_reason_decides(levels: list[str], value: str) -> None:
    """invalid beats unknown beats valid; notes don't count."""
    reasons = [Reason(code=level, text="t", level=level) for level in levels]  # type: ignore[arg-type]
    assert verdict_of(reasons).value == value


def test_no_io_at_all_is_invalid() -> None:
    """Zero I/Os are not a slow disk."""
    document = json.loads(GOOD)
    for job in document["jobs"]:
        for side in ("read", "write"):
            job[side].update(total_ios=0, iops=0.0, io_bytes=0, runtime=0, iops_mean=0.0)
            for kind in ("lat_ns", "clat_ns"):
                job[side][kind] = {"N": 0}
    expected = CaseExpectation(case="c", workers=("w1",))
    case = analyse_case(expected, [evidence("w1", output=json.dumps(document).encode())])
    assert codes(case) == {"no-io": "invalid"}

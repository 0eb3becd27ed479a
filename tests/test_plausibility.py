"""Each plausibility check says no to figures that can't be true, and nothing to good ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.analysis import analyse_case
from orchestrator.casefacts import (
    Cache,
    CaseFacts,
    FactLimits,
    HostCounters,
    JobCap,
    Limit,
    depth_for_rate,
)
from orchestrator.course import read_course
from orchestrator.evidence import CaseExpectation, WorkerEvidence
from orchestrator.log_reader import Member, find_logs
from orchestrator.plausibility import Plausible, check_plausible, judged
from orchestrator.results import CaseResult, Reason, Timing
from orchestrator.series import write_series
from orchestrator.steady import SteadyRule, judge_series
from orchestrator.windows import WarmUp

DATA = Path(__file__).parent / "data"
MILD = {f"w{n}": DATA / "truth" / "mild" / f"w{n}.json" for n in range(1, 5)}
SKEWED = {f"w{n}": DATA / "truth" / "skewed" / f"w{n}.json" for n in range(1, 5)}
UNWRITTEN = DATA / "cases" / "29-unwritten-blocks"
STANDSTILL = DATA / "fio_logs" / "standstill"
#: Depth x 2 disks of each worker of the recorded runs.
MILD_DEPTHS = {"w1": 2, "w2": 4, "w3": 512, "w4": 384}
SKEWED_DEPTHS = {"w1": 2, "w2": 2, "w3": 2, "w4": 512}
GIB = 1 << 30


def case(
    files: dict[str, Path] | dict[str, bytes],
    *,
    hosts: dict[str, str] | None = None,
    runtime_s: float | None = 2.0,
) -> CaseResult:
    """Recorded outputs as a case."""
    evidence = [
        WorkerEvidence(
            name,
            output=item.read_bytes() if isinstance(item, Path) else item,
            exit_status=0,
            host=(hosts or {}).get(name),
        )
        for name, item in files.items()
    ]
    expected = CaseExpectation(case="c", workers=tuple(files), runtime_s=runtime_s)
    return analyse_case(expected, evidence)


def found(result: CaseResult, facts: CaseFacts) -> dict[str, Reason]:
    """Reasons by code, the first of each."""
    reasons: dict[str, Reason] = {}
    for reason in check_plausible(result, facts):
        reasons.setdefault(reason.code, reason)
    return reasons


def moved(result: CaseResult, facts: CaseFacts) -> set[str]:
    """Codes of the reasons that move the verdict."""
    return {r.code for r in check_plausible(result, facts) if r.level != "note"}


def edited(path: Path, change: Callable[[dict[str, object]], None]) -> bytes:
    """A recorded output with something changed in each of its jobs."""
    document = json.loads(path.read_bytes())
    for job in document["jobs"]:
        change(job)
    return json.dumps(document).encode()


# Little's law


def test_littles_law_holds_for_real_runs() -> None:
    """Closed loops of depth 1, 2 and 256 keep the allowed number of I/Os in flight."""
    one = {"w1": MILD["w1"], "w2": MILD["w2"]}
    assert not moved(case(one), CaseFacts(outstanding_ios=MILD_DEPTHS))
    assert "littles-law" not in found(case(SKEWED), CaseFacts(outstanding_ios=SKEWED_DEPTHS))


def test_more_in_flight_than_allowed_is_invalid() -> None:
    """A latency five times too long for its IOPS can't be: named with the worker."""

    def longer(job: dict[str, object]) -> None:
        for side in ("read", "write"):
            latency = job[side]["lat_ns"]  # type: ignore[index]
            latency["mean"] *= 5
            latency["max"] *= 5

    files = {"w1": MILD["w1"].read_bytes(), "w2": edited(MILD["w2"], longer)}
    reason = found(case(files), CaseFacts(outstanding_ios=MILD_DEPTHS))["littles-law"]
    assert (reason.level, reason.worker) == ("invalid", "w2")
    assert "in flight" in (reason.evidence or "")
    assert reason.threshold
    assert reason.next_step


def test_queue_that_was_not_kept_is_unknown_unless_paced() -> None:
    """Depth 256 with less than one I/O in flight is no load of depth 256; a cap explains it."""
    result = case({"w3": MILD["w3"]})
    facts = CaseFacts(outstanding_ios=MILD_DEPTHS)
    assert found(result, facts)["queue-not-kept"].level == "unknown"
    assert not moved(result, CaseFacts(outstanding_ios=MILD_DEPTHS, paced=frozenset({"w3"})))


def test_flushes_are_in_flight_too() -> None:
    """Case 19: at depth 1 with fdatasync most of the time is the flushes': the queue is kept, and
    writes into the page cache are waited for."""
    recorded = DATA / "cases" / "19-sync-latency" / "fdatasync.json"
    result = case({"w1": recorded})
    assert not moved(result, CaseFacts(outstanding_ios={"w1": 1}))


def test_flushes_are_no_evidence_of_too_many_in_flight() -> None:
    """fio's flush overlaps the I/O before it, so both together may exceed the depth."""

    def longer(job: dict[str, object]) -> None:
        job["sync"]["lat_ns"]["mean"] *= 20  # type: ignore[index]

    recorded = edited(DATA / "cases" / "19-sync-latency" / "fdatasync.json", longer)
    result = case({"w1": recorded})
    assert "littles-law" not in found(result, CaseFacts(outstanding_ios={"w1": 1}))


def test_latencies_that_began_inside_the_ramp_are_allowed_for() -> None:
    """I/Os in flight at the ramp's end bring a latency that lies before the measured time."""
    result = case({"w1": MILD["w1"]})
    worker = replace(result.workers["w1"], runtime_s=0.0005)
    ramped = replace(result, workers={"w1": worker}, timing=Timing(ramp_s=1.0))
    flying = CaseFacts(outstanding_ios={"w1": 2}, thresholds=FactLimits(most_in_flight=0.9))
    assert "littles-law" in found(replace(ramped, timing=Timing(ramp_s=0.0)), flying)
    assert "littles-law" not in found(ramped, flying)


# Latency


def test_never_written_blocks_answer_too_fast() -> None:
    """Case 29: 1.17 million IOPS at 6.7 us come from nothing; 72 thousand at 110 us don't."""
    hollow = case({"w1": UNWRITTEN / "disk-never-written.json"})
    filled = case({"w1": UNWRITTEN / "disk-prefilled.json"})
    assert found(hollow, CaseFacts())["latency-too-small"].worker == "w1"
    assert judged(hollow, CaseFacts()).verdict.value == "unknown"
    assert not moved(filled, CaseFacts())
    assert judged(filled, CaseFacts()).verdict.value == filled.verdict.value


def test_latency_that_was_not_measured_is_said() -> None:
    """Case 7: I/Os without latency (gtod_reduce) get a note."""
    result = case({"w1": DATA / "cases" / "07-latency-not-measured" / "gtod-reduce.json"})
    assert found(result, CaseFacts())["latency-unknown"].level == "note"


def test_latency_of_zero_is_unknown() -> None:
    """I/Os that took 0 ns show a clock that stood."""

    def zero(job: dict[str, object]) -> None:
        for kind in ("lat_ns", "clat_ns"):
            latency = job["read"][kind]  # type: ignore[index]
            latency.update(min=0, max=0, mean=0.0, stddev=0.0)

    result = case({"w1": edited(UNWRITTEN / "disk-prefilled.json", zero)})
    assert found(result, CaseFacts())["zero-latency"].level == "unknown"


def test_mean_above_the_runtime_is_invalid() -> None:
    """A mean of 110 us in a run that is said to have taken 50 us: one of them is wrong."""
    result = case({"w1": UNWRITTEN / "disk-prefilled.json"})
    short = replace(result, timing=replace(result.timing, runtime_s=0.00005, ramp_s=0.0))
    assert found(short, CaseFacts())["latency-above-runtime"].level == "invalid"
    assert "latency-above-runtime" not in found(result, CaseFacts())


def test_percentiles_that_the_count_cannot_carry_are_listed() -> None:
    """1,200 reads carry p99.9 but no p99.99; 144 thousand carry them all."""
    few = found(case({"w3": MILD["w3"]}), CaseFacts())["percentile-not-carried"]
    assert few.level == "note"
    assert "p99.99, p99.999" in few.text
    many = case({"w1": UNWRITTEN / "disk-prefilled.json"})
    assert "percentile-not-carried" not in found(many, CaseFacts())


# Data and caches


def test_working_set_inside_a_cache() -> None:
    """Reads of 64 MiB behind a read cache of 1 GiB may be the cache's; of 2 GiB they aren't, nor
    behind a cache for writes alone."""
    result = case({"w1": UNWRITTEN / "disk-prefilled.json"})
    cache = Cache("the read cache", GIB)
    inside = found(result, CaseFacts(working_set_bytes=64 << 20, caches=(cache,)))
    assert inside["working-set-in-cache"].level == "unknown"
    assert not moved(result, CaseFacts(working_set_bytes=2 * GIB, caches=(cache,)))
    log = Cache("the write log", GIB, reads=False, writes=True)
    assert not moved(result, CaseFacts(working_set_bytes=64 << 20, caches=(log,)))
    assert not moved(result, CaseFacts(caches=(cache,)))


def test_fill_smaller_than_what_is_read() -> None:
    """Case 29: a prefill of half the span is named with both sizes; a whole one isn't."""
    result = case({"w1": UNWRITTEN / "disk-prefilled.json"})
    short = found(result, CaseFacts(working_set_bytes=64 << 20, filled_bytes=32 << 20))
    assert short["fill-too-small"].level == "invalid"
    assert "50%" in (short["fill-too-small"].evidence or "")
    assert not moved(result, CaseFacts(working_set_bytes=64 << 20, filled_bytes=64 << 20))


@pytest.mark.parametrize(
    ("host_iops", "code", "level"),
    [(36_000, "guest-above-host", "invalid"), (110_000, "other-load", "unknown")],
)
def test_guests_and_hosts_disagree(host_iops: float, code: str, level: str) -> None:
    """72 thousand IOPS in the guest against half and half as much again on the hosts."""
    result = case({"w1": UNWRITTEN / "disk-prefilled.json"})
    facts = CaseFacts(host_counters=HostCounters("vscsi", iops=host_iops))
    assert found(result, facts)[code].level == level


def test_guests_and_hosts_agree() -> None:
    """Within a few percent both counted the same."""
    result = case({"w1": UNWRITTEN / "disk-prefilled.json"})
    counters = HostCounters("vscsi", iops=74_000, bytes_per_s=74_000 * 4096)
    assert not moved(result, CaseFacts(host_counters=counters))


def test_faster_than_the_link_is_invalid() -> None:
    """281 MiB/s through a 1 Gbit/s link can't be; at the link's limit it is the link's figure."""
    result = case({"w1": UNWRITTEN / "disk-prefilled.json"})
    rate = 72_003.998001 * 4096

    def reasons(bytes_per_s: float, **more: object) -> dict[str, Reason]:
        limit = Limit("the link", bytes_per_s=bytes_per_s, **more)  # type: ignore[arg-type]
        return found(result, CaseFacts(limits=(limit,)))

    assert reasons(125e6)["above-limit"].level == "invalid"
    assert reasons(rate)["at-limit"].level == "note"
    assert not reasons(2 * rate)
    assert reasons(125e6, workers=frozenset({"w1"}))["above-limit"].level == "invalid"
    assert not reasons(125e6, workers=frozenset({"other"}))
    assert not reasons(125e6, side="write")


def test_buffered_io_may_be_memory() -> None:
    """Reads through the page cache are in doubt; writes that are flushed reach the storage."""
    result = case({"w1": UNWRITTEN / "disk-prefilled.json"})
    buffered = CaseFacts(buffered=frozenset({"w1"}))
    assert found(result, buffered)["buffered-io"].level == "unknown"
    flushed = case({"w1": DATA / "cases" / "19-sync-latency" / "fdatasync.json"})
    assert "buffered-io" not in found(flushed, buffered)


# Evenness


def test_straggler_is_named() -> None:
    """Of five workers that do the same, the one with a tenth of it is named; equal ones aren't."""
    fast = SKEWED["w1"]
    even = {f"e{n}": SKEWED[f"w{n % 3 + 1}"] for n in range(5)}
    assert not moved(case(even), CaseFacts())
    reason = found(case({**dict.fromkeys("abcd", fast), "slow": MILD["w3"]}), CaseFacts())
    assert reason["straggler"].worker == "slow"
    assert reason["straggler"].level == "unknown"


def test_of_two_workers_the_far_slower_one_is_a_straggler() -> None:
    """Two are no group with a middle; one with a tenth of the other is named all the same."""
    reason = found(case({"fast": SKEWED["w1"], "slow": MILD["w3"]}), CaseFacts())["straggler"]
    assert reason.worker == "slow"
    assert "the other worker does" in reason.text


def test_a_worker_with_fewer_targets_is_no_straggler() -> None:
    """A twentieth of the I/Os in flight explains a twentieth of the rate; with a cap it doesn't."""
    files = {**dict.fromkeys("abc", SKEWED["w1"]), "small": MILD["w3"]}
    depths = {"a": 80, "b": 80, "c": 80, "small": 4}
    assert not [
        r
        for r in check_plausible(case(files), CaseFacts(outstanding_ios=depths))
        if r.code == "straggler"
    ]
    paced = CaseFacts(outstanding_ios=depths, paced=frozenset(files))
    assert found(case(files), paced)["straggler"].worker == "small"


def test_slow_host_is_named_instead_of_its_workers() -> None:
    """Two slow workers on one host are that host; on two hosts they are stragglers."""
    files = {**dict.fromkeys("abcd", SKEWED["w1"]), **dict.fromkeys("xy", MILD["w3"])}
    together = {**dict.fromkeys("ab", "h1"), **dict.fromkeys("cd", "h2"), "x": "h3", "y": "h3"}
    reasons = check_plausible(case(files, hosts=together), CaseFacts())
    assert [r.code for r in reasons if r.level != "note"] == ["slow-host"]
    assert "h3" in reasons[0].text or "h3" in reasons[-1].text
    apart = {**together, "x": "h1", "y": "h2"}
    reasons = check_plausible(case(files, hosts=apart), CaseFacts())
    assert sorted(str(r.worker) for r in reasons if r.code == "straggler") == ["x", "y"]
    assert not [r for r in reasons if r.code == "slow-host"]


# Rate caps


def standstill(*caps: JobCap) -> CaseFacts:
    """Facts of the recorded standstill: 200 reads and 200 writes a second on disk0, 200 reads on
    disk1, at depth 4."""
    return CaseFacts(paced=frozenset({"w1"}), caps={"w1": caps})


MIXED = JobCap("disk0", iops={"read": 200, "write": 200}, clone_iops=400, depth=4)


def test_rate_that_was_not_kept_hides_waiting() -> None:
    """A real run with a cap of 600 kept it; asked for 1,000 the same figures fall short."""
    result = case({"w1": STANDSTILL / "fio.json"}, runtime_s=45.0)
    reads = JobCap("disk1", iops={"read": 200}, clone_iops=200, depth=4)
    assert "rate-not-kept" not in found(result, standstill(MIXED, reads))
    more = JobCap("disk1", iops={"read": 600}, clone_iops=600, depth=4)
    short = found(result, standstill(MIXED, more))["rate-not-kept"]
    assert short.level == "unknown"
    assert short.evidence == "60.0%"


def test_a_rate_is_held_against_the_limited_jobs_of_the_workers_that_are_there() -> None:
    """What other jobs, other groups and lost workers do says nothing of a cap."""
    result = case({"w1": STANDSTILL / "fio.json"}, runtime_s=45.0)
    alone = JobCap("disk1", iops={"read": 300}, clone_iops=300, depth=4)
    assert found(result, standstill(alone))["rate-not-kept"].evidence == "66.7%"
    kept = replace_caps(standstill(MIXED), lost=(MIXED,))
    assert "rate-not-kept" not in found(result, kept)


def replace_caps(facts: CaseFacts, **more: tuple[JobCap, ...]) -> CaseFacts:
    """The facts with caps of more workers."""
    return CaseFacts(paced=facts.paced, caps={**facts.caps, **more})


def test_a_slow_rate_may_lack_an_io_and_a_random_one_more() -> None:
    """30 I/Os of 31 are a rate that was kept; 9,000 of 9,200 are when arrivals are random."""
    result = case({"w1": STANDSTILL / "fio.json"}, runtime_s=45.0)
    job = result.workers["w1"].jobs["disk1"]
    assert job.read is not None
    few = replace(job, read=replace(job.read, ios=30, iops=30 / 45))
    slow = replace(result, workers={"w1": replace(result.workers["w1"], jobs={"disk1": few})})
    cap = JobCap("disk1", iops={"read": 31 / 45}, clone_iops=31 / 45, depth=400)
    assert "rate-not-kept" not in found(slow, standstill(cap))
    steady = JobCap("disk1", iops={"read": 9200 / 45}, clone_iops=9200 / 45, depth=400)
    assert "rate-not-kept" in found(result, standstill(steady))
    by_chance = JobCap("disk1", iops=steady.iops, clone_iops=9200 / 45, depth=400, poisson=True)
    assert "rate-not-kept" not in found(result, standstill(by_chance))


def test_a_cap_in_bytes_is_a_cap() -> None:
    """Reached: 200 reads of 4 KiB; short: of 8 KiB."""
    result = case({"w1": STANDSTILL / "fio.json"}, runtime_s=45.0)
    reached = JobCap("disk1", bytes_per_s={"read": 200 * 4096}, clone_iops=200, depth=400)
    assert not moved(result, standstill(reached))
    short = JobCap("disk1", bytes_per_s={"read": 200 * 8192}, clone_iops=200, depth=400)
    assert "B/s" in found(result, standstill(short))["rate-not-kept"].text


def test_coordinated_omission_under_a_cap() -> None:
    """A real run with 400 IOPS a job at depth 4 met I/Os of 300 ms: 120 were due, 4 could be out.
    With the depth that the rule asks for, all could have been."""
    result = case({"w1": STANDSTILL / "fio.json"}, runtime_s=45.0)
    reason = found(result, standstill(MIXED))["coordinated-omission"]
    assert reason.level == "note"
    assert "'disk0' had 120 I/Os to issue and room for 4" in reason.text
    assert "iodepth to at least 400" in (reason.next_step or "")
    roomy = JobCap("disk0", iops=MIXED.iops, clone_iops=400, depth=depth_for_rate(400))
    assert "coordinated-omission" not in found(result, standstill(roomy))


def test_omission_looks_at_the_capped_jobs_own_latencies() -> None:
    """disk1's slowest I/O took 222 ms: 44 were due at 200 a second, whatever disk0 met."""
    result = case({"w1": STANDSTILL / "fio.json"}, runtime_s=45.0)
    reads = JobCap("disk1", iops={"read": 200}, clone_iops=200, depth=50)
    assert "coordinated-omission" not in found(result, standstill(reads))


def test_omission_that_reaches_p99_makes_the_percentiles_unknown() -> None:
    """When even p99 is longer than the queue rides out, the percentiles aren't to be believed."""
    result = case({"w4": SKEWED["w4"]}, runtime_s=1.0)
    cap = JobCap("disk0", iops={"read": 46_000}, clone_iops=60_000, depth=4)
    reason = found(result, CaseFacts(caps={"w4": (cap,)}))["coordinated-omission"]
    assert reason.level == "unknown"
    assert "p99 and above" in reason.text


def test_jobs_that_ran_one_after_the_other_have_no_total() -> None:
    """Rates of stonewalled jobs are added although they were never there together."""
    result = case({"w1": UNWRITTEN / "disk-prefilled.json"})
    facts = CaseFacts(outstanding_ios={"w1": 100}, in_turn=frozenset({"w1"}))
    assert found(result, facts)["jobs-in-turn"].level == "unknown"
    assert "queue-not-kept" not in found(result, facts)


def test_depth_for_rate_rides_out_the_pause() -> None:
    """As many I/Os as are due in the pause, at least one."""
    assert depth_for_rate(200, 0.3) == 60
    assert depth_for_rate(1.5, 0.1) == 1


# Course


def with_course(tmp_path: Path, folder: Path) -> CaseResult:
    """The recorded standstill with its series."""
    path = tmp_path / "series.parquet"
    summary = write_series(path, [Member("w1", find_logs(folder))])
    assert summary is not None
    result = case({"w1": STANDSTILL / "fio.json"}, runtime_s=45.0)
    return replace(result, course=read_course(path, summary))


def test_what_stood_out_in_the_series_is_a_reason(tmp_path: Path) -> None:
    """The recorded standstill is told with its second, and unsteadiness counts when asked for."""
    result = with_course(tmp_path, STANDSTILL)
    reasons = found(result, CaseFacts())
    told = [r for r in check_plausible(result, CaseFacts()) if r.code == "series-dip"]
    assert "24 s" in told[0].text
    assert "2026-11-30 22:10:33 UTC" in (told[0].evidence or "")
    assert reasons["fio-stood-still"].worker == "w1"
    assert "for 4.8 s" in reasons["fio-stood-still"].text
    assert result.course is not None
    steady = result.course.steady
    assert steady is not None
    assert ("not-steady" in reasons) == (steady.steady is False)
    asked = found(result, CaseFacts(steady_asked=True))
    assert asked["not-steady"].level == "unknown"
    assert "rounds: " in (asked["not-steady"].evidence or "")


def test_steadiness_that_was_asked_for_and_cannot_be_told(tmp_path: Path) -> None:
    """Without a series, or with one too short, "run until steady" has no evidence."""
    result = with_course(tmp_path, STANDSTILL)
    asked = CaseFacts(steady_asked=True)
    assert "steadiness-not-told" not in found(result, asked)
    bare = replace(result, course=None)
    assert found(bare, asked)["steadiness-not-told"].level == "unknown"
    assert "steadiness-not-told" not in found(bare, CaseFacts())
    assert result.course is not None
    brief = replace(result.course, steady=judge_series([100.0] * 4, SteadyRule()))
    reason = found(replace(result, course=brief), asked)["steadiness-not-told"]
    assert "shows 4 s of all workers" in reason.text


def test_a_warm_up_that_its_cap_ended(tmp_path: Path) -> None:
    """The case began unsteady: unknown, unless it was steady itself; on evidence, nothing."""
    capped = WarmUp(ended_by="cap", seconds=40, reason="not steady after 40 s, the cap is 40 s")
    bare = replace(case({"w1": STANDSTILL / "fio.json"}, runtime_s=45.0), warm_up=capped)
    assert found(bare, CaseFacts())["warm-up-not-steady"].level == "unknown"
    with_series = with_course(tmp_path, STANDSTILL)
    assert with_series.course is not None
    assert with_series.course.steady is not None
    steady = replace(with_series.course, steady=replace(with_series.course.steady, steady=True))
    calm = replace(with_series, course=steady, warm_up=capped)
    assert found(calm, CaseFacts())["warm-up-not-steady"].level == "note"
    good = WarmUp(ended_by="steady", seconds=20, reason="steady after 20 s")
    assert "warm-up-not-steady" not in found(replace(bare, warm_up=good), CaseFacts())


def test_even_course_says_nothing(tmp_path: Path) -> None:
    """A constant series adds no reason."""
    folder = tmp_path / "logs"
    folder.mkdir()
    rows = "".join(f"{1_796_076_000_000 + 1000 * n}, 600, 0, 0, 0\n" for n in range(1, 46))
    (folder / "series_iops.1.log").write_text(rows)
    result = with_course(tmp_path, folder)
    reasons = check_plausible(result, CaseFacts(steady_asked=True))
    prefixes = ("series", "not-steady", "fio-stood")
    assert not [reason for reason in reasons if reason.code.startswith(prefixes)]


def test_workers_that_never_measured_together_are_invalid(tmp_path: Path) -> None:
    """Two workers without a common second: their rates must not be added."""
    result = with_course(tmp_path, STANDSTILL)
    assert result.course is not None
    apart = replace(
        case({"w1": SKEWED["w1"], "w2": SKEWED["w2"]}),
        course=replace(result.course, common=None, anomalies=(), steady=None),
    )
    assert found(apart, CaseFacts())["no-common-window"].level == "invalid"


def test_a_case_of_two_seconds_is_too_short_to_tell(tmp_path: Path) -> None:
    """Starts show the overlap of a very short case; its series of whole seconds can't deny it."""
    result = with_course(tmp_path, STANDSTILL)
    assert result.course is not None
    brief = replace(
        case({"w1": SKEWED["w1"], "w2": SKEWED["w2"]}),
        course=replace(result.course, common=None, anomalies=(), steady=None),
        timing=Timing(runtime_s=2.0, overlap=0.99),
    )
    assert found(brief, CaseFacts())["no-common-window"].level == "note"
    apart = replace(brief, timing=Timing(runtime_s=2.0, overlap=0.0))
    assert found(apart, CaseFacts())["no-common-window"].level == "invalid"


# The table


def test_crashing_check_is_a_reason_not_a_silence() -> None:
    """A check that raises makes the verdict unknown."""

    def broken(subject: Plausible) -> list[Reason]:
        raise KeyError("x")

    result = case({"w1": UNWRITTEN / "disk-prefilled.json"})
    (reason,) = check_plausible(result, CaseFacts(), [broken])
    assert (reason.code, reason.level) == ("check-crashed", "unknown")


def test_thresholds_can_be_set() -> None:
    """A stricter limit says no where the usual one is silent."""
    result = case({"w1": UNWRITTEN / "disk-prefilled.json"})
    strict = CaseFacts(thresholds=FactLimits(least_latency_ns=200_000))
    assert "latency-too-small" in found(result, strict)


def test_every_reason_has_its_parts() -> None:
    """Code, threshold, evidence and next step stand in each reason that moves the verdict."""
    facts = CaseFacts(
        outstanding_ios={"w1": 2},
        working_set_bytes=64 << 20,
        filled_bytes=1 << 20,
        caches=(Cache("a cache", GIB),),
        limits=(Limit("a link", bytes_per_s=1e6),),
        host_counters=HostCounters("vscsi", iops=10),
        caps={"w1": (JobCap("sp", iops={"read": 1e9}, clone_iops=1e6, depth=1),)},
        in_turn=frozenset({"w1"}),
        buffered=frozenset({"w1"}),
    )
    reasons = check_plausible(case({"w1": UNWRITTEN / "disk-never-written.json"}), facts)
    moving = [reason for reason in reasons if reason.level != "note"]
    assert len(moving) >= 9
    assert all(r.threshold and r.evidence and r.next_step for r in moving)

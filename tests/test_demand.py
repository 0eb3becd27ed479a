import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.catalog import parse_document
from orchestrator.demand import (
    Totals,
    assign_targets,
    bytes_by_direction,
    deal,
    does_read,
    does_write,
    iops_by_direction,
    lint_depth,
    lint_profile,
    measured_seconds,
    split_rate,
    totals,
    wall_seconds,
)
from orchestrator.errors import ConfigError
from orchestrator.profiles import Profile

CASES = Path(__file__).parent / "data/cases"


def shaped(**fields):
    return Profile.model_validate({"name": "x", "block_size": "4k", **fields})


def test_case_32_the_plan_says_the_totals():
    """Case 32: limits and depths of 8 VMs x 2 disks x 4 jobs are multiplied out."""
    folder = CASES / "32-per-job-limits"
    fleet = parse_document((folder / "fleet.yaml").read_text(), "fleet.yaml").data
    profile = Profile(name="limits", fio=(folder / fleet["job"]).read_text())
    found = totals(profile, fleet["disks_per_vm"]).times(fleet["vms"])
    plan = json.loads((folder / "expected.json").read_text())["plan"]
    assert {
        "jobs": found.jobs,
        "outstanding_ios": found.outstanding_ios,
        "read_iops_cap": found.read_iops_cap,
        "write_iops_cap": found.write_iops_cap,
    } == plan


def test_a_workers_rate_is_the_total_whatever_the_jobs():
    """A rate is for a worker: more targets and jobs do not raise it."""
    profile = shaped(read_percent=70, rate={"iops": 10_000}, numjobs=2, iodepth=8)
    found = totals(profile, 5)
    assert (found.read_iops_cap, found.write_iops_cap) == (7000, 3000)
    assert (found.jobs, found.outstanding_ios) == (10, 80)


@given(st.integers(1, 10**6), st.integers(1, 64), st.integers(1, 16))
def test_split_rates_come_nearest_to_the_whole(rate, targets, numjobs):
    """Together the jobs are within half a job's step of the rate, and no two differ by more
    than one."""
    try:
        split = split_rate(rate, targets, numjobs)
    except ConfigError:
        assert round(rate / numjobs) < targets
        return
    assert abs(sum(split) * numjobs - rate) <= max(numjobs / 2, numjobs - rate)
    assert max(split) - min(split) <= 1
    assert min(split) >= 1


def test_a_rate_too_small_to_split_says_so():
    """fio has no rate below 1 per job, so that is an error and not another rate."""
    with pytest.raises(ConfigError, match=r"rate of 6 per worker can't be split over 8 targets"):
        assign_targets(shaped(rate={"iops": 6}), 8)


def test_rates_follow_the_mix():
    """I/Os are divided by the mix, bytes by the mix times the block sizes."""
    assert iops_by_direction(shaped(read_percent=70, rate={"iops": 1000})) == (700, 300)
    assert iops_by_direction(shaped(rate={"iops": 1000})) == (1000, None)
    assert iops_by_direction(shaped(read_percent=0, rate={"iops": 1000})) == (None, 1000)
    both = shaped(
        read_percent=50, block_size={"read": "8k", "write": "24k"}, rate={"bytes_per_s": "4MB/s"}
    )
    assert bytes_by_direction(both) == (1_000_000, 3_000_000)
    split = shaped(
        block_size=None,
        bssplit={
            "read": [{"size": 1000, "percent": 50}, {"size": 3000, "percent": 50}],
            "write": [{"size": 6000, "percent": 100}],
        },
        read_percent=50,
        rate={"bytes_per_s": 8000},
    )
    assert bytes_by_direction(split) == (2000, 6000)


def test_given_directions_are_kept():
    """A rate of one direction leaves the other free."""
    profile = shaped(read_percent=70, rate={"iops": {"write": 10}})
    assert iops_by_direction(profile) == (None, 10)
    found = totals(profile, 2)
    assert (found.read_iops_cap, found.write_iops_cap) == (None, 10)


@pytest.mark.parametrize(
    ("shares", "targets", "counts"),
    [
        ([90, 10], 8, [7, 1]),
        ([50, 50], 8, [4, 4]),
        ([50, 50], 3, [2, 1]),
        ([90, 10], 2, [1, 1]),
        ([50, 25], 8, [4, 2]),
        ([90, 10], 1, None),
        ([], 4, []),
    ],
)
def test_targets_are_dealt_by_share(shares, targets, counts):
    """In proportion, each share at least one; None where there are too few."""
    assert deal(shares, targets) == counts


@given(st.lists(st.integers(1, 100), min_size=1, max_size=8), st.integers(1, 64))
def test_dealing_never_gives_more_than_there_is(shares, targets):
    """Every share has a target, and all together fit."""
    scaled = [max(1, share * 100 // sum(shares)) for share in shares]
    counts = deal(scaled, targets)
    if targets < len(shares):
        assert counts is None
    else:
        assert min(counts) >= 1
        assert sum(counts) <= targets


def test_jobs_that_share_split_targets_or_their_area():
    """With enough targets each job has its own; with one, each has its part of it."""
    profile = shaped(jobs=[{"name": "data", "share": 90}, {"name": "log", "share": 10}])
    many = [(item.shape.name, item.index, item.area_percent) for item in assign_targets(profile, 3)]
    assert many == [("data", 0, 100), ("data", 1, 100), ("log", 2, 100)]
    one = [
        (item.shape.name, item.area_start, item.area_percent) for item in assign_targets(profile, 1)
    ]
    assert one == [("data", 0, 90), ("log", 90, 10)]


def test_a_sum_of_limits_needs_all_of_them():
    """What is limited and what isn't are together not limited; nothing is not a limit of 0."""
    limited = Totals(jobs=1, read_iops_cap=5, write_iops_cap=0)
    assert (limited + Totals(jobs=1)).read_iops_cap is None
    assert limited.times(3) == Totals(jobs=3, read_iops_cap=15, write_iops_cap=0)
    assert limited.times(0) == Totals()


@pytest.mark.parametrize(
    ("text", "reads", "writes"),
    [
        ("rw=randread", True, False),
        ("rw=write", False, True),
        ("rw=randrw", True, True),
        ("rw=readwrite:16", True, True),
        ("rw=randtrim", False, True),
        ("bs=4k", True, False),
        ("rw=read:8", True, False),
        ("rw=newmode", True, True),
        ("ioengine=cpuio", False, False),
    ],
)
def test_direction_of_an_own_file(text, reads, writes):
    """fio's default is to read; what isn't known counts as writing."""
    profile = Profile(name="x", fio=f"[a]\n{text}\n")
    assert (does_read(profile), does_write(profile)) == (reads, writes)


def test_direction_of_a_shape():
    """A read percent of 100 never writes, of 0 never reads."""
    assert (does_read(shaped()), does_write(shaped())) == (True, False)
    assert (does_read(shaped(read_percent=0)), does_write(shaped(read_percent=0))) == (False, True)


def test_case_30_wall_time_counts_ramp_and_runtime():
    """Case 30: ramp 1 s and runtime 3 s take 4 s, of which 3 s are measured."""
    text = (CASES / "30-timing-options/ramp-ok.fio").read_text()
    own = Profile(name="own", fio=text)
    assert (wall_seconds(own), measured_seconds(own)) == (4, 3)
    mine = shaped(runtime=3, ramp=1)
    assert (wall_seconds(mine), measured_seconds(mine)) == (4, 3)


def test_sections_behind_a_stonewall_take_their_time_after_the_others():
    """Sections beside each other take the longest, those behind a barrier add up."""
    text = "[global]\nruntime=10\n[a]\n[b]\nruntime=20\n[c]\nstonewall\nstartdelay=5\n"
    assert wall_seconds(Profile(name="x", fio=text)) == 35
    assert wall_seconds(Profile(name="x", fio=text, runtime=2)) == 9


def test_lint_judges_the_timing_that_will_be_run():
    """Case 30: an override that makes the ramp too long is found, in both kinds of profile."""
    own = (CASES / "30-timing-options/ramp-ok.fio").read_text()
    assert lint_profile(Profile(name="x", fio=own)) == ()
    for profile in (Profile(name="x", fio=own, ramp=5), shaped(runtime=5, ramp=5)):
        assert [f.code for f in lint_profile(profile)] == ["ramp-longer-than-runtime"]
    assert lint_profile(shaped()) == ()


def test_lint_of_a_shape():
    """Latency switched off through an option, and a depth that the engine can't keep, are said."""
    profile = shaped(engine="psync", iodepth=8, options={"gtod_reduce": 1})
    assert [f.code for f in lint_profile(profile)] == [
        "depth-of-a-synchronous-engine",
        "latency-off",
    ]


def test_small_shares_keep_their_one_target():
    """Where small shares need more than their part, the large ones give, never the small."""
    assert deal([93, 1, 1, 1, 1, 1, 1, 1], 9) == [2, 1, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("fields", "targets", "depth"),
    [
        ({"iodepth": 8, "rate": {"iops": 800}}, 1, 800),
        ({"iodepth": 8, "rate": {"iops": 800}}, 8, 100),
        ({"iodepth": 100, "rate": {"iops": 800}}, 8, None),
        ({"iodepth": 8}, 1, None),
        ({"iodepth": 900, "engine": "psync", "rate": {"iops": 800}}, 1, 800),
        ({"iodepth": 1, "rate": {"iops": 3}}, 8, None),
    ],
)
def test_a_capped_job_needs_room_for_what_is_due(fields, targets, depth):
    """A depth below a second's worth of a job's rate is a warning that names the depth; without a
    cap, or with a rate that can't be split, there is none."""
    found = lint_depth(shaped(**fields), targets)
    if depth is None:
        assert found == ()
    else:
        (finding,) = found
        assert (finding.level, finding.code) == ("warning", "depth-for-rate")
        assert f"iodepth {depth} " in finding.text

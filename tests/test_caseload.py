"""What a plan asks of its workers, as the plausibility checks need it."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.casefacts import Cache, CaseFacts, Limit, depth_for_rate
from orchestrator.caseload import case_facts
from orchestrator.catalog import Catalog
from orchestrator.errors import InputError
from orchestrator.inventory import InventoryFile, resolve_inventory
from orchestrator.plan import build_plan
from orchestrator.profiles import Profile
from orchestrator.ratecaps import job_caps
from orchestrator.suites import Case, Suite

GIB = 1 << 30


def facts(
    profile: dict[str, Any],
    *,
    workers: int = 2,
    prepared: bool = True,
    stated: dict[str, Any] | None = None,
) -> CaseFacts:
    """The facts of a case with this profile on workers with two files of 1 GiB each."""
    found = Profile.model_validate({"name": "p", "block_size": "4k", **profile})
    suite = Suite.model_validate({"name": "s", "cases": [{"profile": "p"}], "prepare": "random"})
    inventory = resolve_inventory(
        InventoryFile.model_validate(
            {
                **(stated or {}),
                "workers": [{"name": f"w[1-{workers}]"}],
                "defaults": {
                    "targets": [{"file": f"/var/tmp/t{n}", "size": "1GiB"} for n in (1, 2)]
                },
            }
        )
    )
    case = Case(id="c", groups={"all": found})
    plan = build_plan(suite, [case], inventory, run="r", version="0", templates={})
    return case_facts(plan, case, prepared=prepared)


def test_outstanding_ios_are_depth_times_jobs_times_targets() -> None:
    """Depth 8, 4 jobs, 2 targets: 64 on each worker."""
    found = facts({"iodepth": 8, "numjobs": 4})
    assert found.outstanding_ios == {"w1": 64, "w2": 64}
    assert found.caps == {"w1": (), "w2": ()}
    assert not found.paced


def test_synchronous_engine_keeps_one_io_a_job() -> None:
    """iodepth means nothing to psync."""
    assert facts({"iodepth": 8, "numjobs": 4, "engine": "psync"}).outstanding_ios["w1"] == 8


def test_caps_are_those_of_each_job() -> None:
    """2,000 I/Os a second of a worker: 1,000 on each of two targets; a clone has 500, depth 2."""
    found = facts({"rate": {"iops": 2000}, "iodepth": 2, "numjobs": 2})
    assert found.paced == {"w1", "w2"}
    assert [cap.job for cap in found.caps["w1"]] == ["disk0", "disk1"]
    cap = found.caps["w2"][0]
    assert (cap.iops, cap.clone_iops, cap.depth) == ({"read": 1000}, 500, 2)


def test_mixed_cap_has_both_directions() -> None:
    """70 % reads of a total of 1,000 on two targets."""
    caps = facts({"rate": {"iops": 1000}, "read_percent": 70}).caps["w1"]
    assert [cap.iops for cap in caps] == [{"read": 350, "write": 150}] * 2
    assert [cap.clone_iops for cap in caps] == [500, 500]


def test_cap_in_bytes_is_told_in_ios_too() -> None:
    """10 MiB/s of 64 KiB blocks on two targets are 80 I/Os a second on each."""
    caps = facts({"rate": {"bytes_per_s": "10MiB/s"}, "block_size": "64k"}).caps["w1"]
    assert caps[0].bytes_per_s == {"read": 5 << 20}
    assert caps[0].clone_iops == 80


def test_the_shipped_rate_profile_issues_every_io_on_time() -> None:
    """Its depth holds a second's I/Os of its job, on one target or more; arrivals are random."""
    found = Catalog.of().find_profile("4k-70r-rated")
    (cap,) = job_caps(found, ["disk0"])
    assert cap.clone_iops == 2000
    assert cap.depth >= depth_for_rate(2000)
    assert cap.poisson


def test_only_limited_jobs_have_caps() -> None:
    """Of two job shapes the one with a rate, by its name in fio's output."""
    profile = {"jobs": [{"name": "log", "rate": {"iops": 40}}, {"name": "data", "iodepth": 32}]}
    assert [cap.job for cap in facts(profile).caps["w1"]] == ["disk0-log", "disk1-log"]


def test_caps_of_the_users_own_file() -> None:
    """rate_iops limits each job and direction; rate in bytes is told by the block size."""
    text = (
        "[global]\nruntime=10\ntime_based\nioengine=libaio\niodepth=4\n"
        "[a]\nrw=randrw\nrate_iops=100,50\nnumjobs=2\n[b]\nrw=write\nbs=64k\nrate=1m\n"
        "[c]\nrw=read\n"
    )
    caps = {cap.job: cap for cap in facts({"fio": text, "block_size": None}).caps["w1"]}
    assert set(caps) == {"a-disk0", "a-disk1", "b-disk0", "b-disk1"}
    assert caps["a-disk0"].iops == {"read": 200, "write": 100}
    assert caps["a-disk0"].clone_iops == 150
    assert (caps["b-disk1"].bytes_per_s, caps["b-disk1"].clone_iops) == ({"write": 1 << 20}, 16)
    assert caps["b-disk1"].depth == 4


def test_think_time_paces_without_a_cap() -> None:
    """A job that waits on purpose keeps no full queue."""
    found = facts({"options": {"thinktime": 100}})
    assert found.paced == {"w1", "w2"}
    assert found.caps["w1"] == ()


def test_jobs_behind_a_stonewall_run_in_turn() -> None:
    """The first job's stonewall holds nothing back; copies for more targets run together."""
    head = "[global]\nruntime=10\ntime_based\ndirect=1\nrw=read\n[a]\n"
    assert facts({"fio": head + "stonewall\n", "block_size": None}).in_turn == frozenset()
    assert facts({"fio": head + "[b]\nstonewall\n", "block_size": None}).in_turn == {"w1", "w2"}
    assert facts({"fio": head + "[b]\nstartdelay=5\n", "block_size": None}).in_turn
    assert facts({}).in_turn == frozenset()


def test_buffered_is_fios_default() -> None:
    """A profile is direct unless it says otherwise; the user's own file only where it says so."""
    assert facts({}).buffered == frozenset()
    assert facts({"direct": False}).buffered == {"w1", "w2"}
    text = "[a]\nrw=randread\nruntime=10\ntime_based\n"
    assert facts({"fio": text, "block_size": None}).buffered == {"w1", "w2"}
    assert not facts({"fio": text + "direct=1\n", "block_size": None}).buffered
    assert not facts({"fio": text + "buffered=0\n", "block_size": None}).buffered


def test_working_set_and_fill_are_of_all_workers() -> None:
    """Half of 2 x 1 GiB on two workers; the fill covers all of it, or isn't known."""
    found = facts({"working_set": 50})
    assert found.working_set_bytes == 2 * GIB
    assert found.filled_bytes == 4 * GIB
    assert facts({}, prepared=False).filled_bytes is None


def test_jobs_on_the_same_target_share_its_working_set() -> None:
    """Two jobs over whole targets touch each byte once; shares have their own areas."""
    both = facts({"jobs": [{"name": "a"}, {"name": "b", "working_set": 10}]})
    assert both.working_set_bytes == 4 * GIB


def test_own_job_file_leaves_the_working_set_unknown() -> None:
    """What a user's file touches isn't worked out; its pacing is seen."""
    text = "[a]\nrw=randread\nbs=4k\nruntime=10\ntime_based\niodepth=4\nrate_iops=100\n"
    found = facts({"fio": text, "block_size": None})
    assert found.working_set_bytes is None
    assert found.paced
    assert found.outstanding_ios["w1"] == 8


def test_the_inventory_states_caches_and_limits() -> None:
    """Sizes and rates as they are written; a limit of some workers names those of the case."""
    found = facts(
        {},
        workers=3,
        stated={
            "caches": [{"name": "read cache", "size": "8GiB"}],
            "limits": [
                {"name": "link", "bytes_per_s": "100MB/s", "workers": ["w[12]"]},
                {"name": "tier", "iops": 5000, "side": "write"},
            ],
        },
    )
    assert found.caches == (Cache("read cache", 8 * GIB, reads=True, writes=False),)
    assert found.limits == (
        Limit("link", bytes_per_s=100e6, workers=frozenset({"w1", "w2"})),
        Limit("tier", iops=5000, side="write"),
    )


def test_a_limit_of_nobody_is_a_problem() -> None:
    """A limit whose workers don't exist would never be held against anything."""
    with pytest.raises(InputError, match=r"limits.0.workers: no worker is called 'w9'"):
        facts({}, stated={"limits": [{"name": "link", "iops": 1, "workers": ["w9"]}]})


def test_a_limit_without_a_figure_is_a_problem() -> None:
    """Naming a link says nothing."""
    with pytest.raises(ValueError, match="give iops, bytes_per_s, or both"):
        facts({}, stated={"limits": [{"name": "link"}]})

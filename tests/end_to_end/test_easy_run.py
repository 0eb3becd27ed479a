"""The main job, end to end: the classic four on eight workers over real SSH with real fio."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cluster import Cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]

SHORT = ("--set", "runtime=2", "--set", "ramp=1", "--poll", "0.5")


def test_easy_run_on_eight_workers(make_cluster: Callable[..., Cluster]) -> None:
    """Every case is done on every worker; the totals are the sums of the workers; workers are
    left as they were found."""
    cluster = make_cluster(8)
    done = cluster.hcio("run", "easy-run", "-i", str(cluster.inventory), *SHORT, "--json")
    assert done.status in (0, 3), done.err
    result = json.loads(done.out)
    assert len(result["cases"]) == 4
    for case in result["cases"]:
        assert case["outcome"] == "done", case["verdict"]
        assert case["expected_workers"] == case["received_workers"] == 8
        assert case["timing"]["skew_s"] is not None
        total = sum(
            side["ios"]
            for worker in case["workers"].values()
            for side in (worker["total"]["read"], worker["total"]["write"])
            if side and side["ios"]
        )
        ours = sum(
            s["ios"] for s in (case["total"]["read"], case["total"]["write"]) if s and s["ios"]
        )
        assert total == ours > 0
    assert result["provenance"]["workers"]["w8"]["fio_version"].startswith("fio-")
    assert (
        result["provenance"]["workers"]["w8"]["seed"]
        != result["provenance"]["workers"]["w1"]["seed"]
    )
    report = cluster.hcio("report", "latest")
    assert "8/8" in report.out
    left = sorted(
        path.name for name in cluster.names for path in (cluster.sshd.work / name).rglob("*")
    )
    assert left == ["hcio"] * 8


def test_a_finished_run_is_resumed_without_its_workers(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Nothing is left to do: `resume` gives the result again, with every worker gone."""
    cluster = make_cluster(1, size="4MiB")
    words = ("run", "4k-100r-random", "-i", str(cluster.inventory), "--json", *SHORT)
    done = cluster.hcio(*words)
    cluster.sshd.refuse()
    again = cluster.hcio("resume", "latest", "--json")
    assert again.status == done.status, again.err
    assert json.loads(again.out)["cases"] == json.loads(done.out)["cases"]


def test_a_dry_run_touches_nothing(make_cluster: Callable[..., Cluster]) -> None:
    """A dry run needs no worker: it works with the server off, and leaves no folder."""
    cluster = make_cluster(2)
    cluster.sshd.refuse()
    done = cluster.hcio("run", "easy-run", "-i", str(cluster.inventory), "--dry-run", "--json")
    assert done.status == 0, done.err
    plan = json.loads(done.out)
    assert [len(case["workers"]) for case in plan["cases"]] == [2, 2, 2, 2]
    assert not (cluster.folder / "runs").exists()


def test_groups_run_different_profiles_at_once(make_cluster: Callable[..., Cluster]) -> None:
    """Two groups with a profile each: figures for each group and in total."""
    cluster = make_cluster(4)
    cluster.write_inventory(
        w1={"group": "db"}, w2={"group": "db"}, w3={"group": "web"}, w4={"group": "web"}
    )
    suite = cluster.folder / "mixed.yaml"
    suite.write_text(
        "cases:\n- groups: {db: 8k-70r-random, web: 4k-100r-random}\n  set: {runtime: 2, ramp: 0}\n"
    )
    done = cluster.hcio("run", str(suite), "-i", str(cluster.inventory), "--json", "--poll", "0.5")
    assert done.status in (0, 3), done.err
    case = json.loads(done.out)["cases"][0]
    assert (
        case["groups"]["db"]["received_workers"] == case["groups"]["web"]["received_workers"] == 2
    )
    assert case["groups"]["web"]["total"]["write"]["ios"] in (0, None)
    whole = (
        case["groups"]["db"]["total"]["read"]["ios"] + case["groups"]["web"]["total"]["read"]["ios"]
    )
    assert case["total"]["read"]["ios"] == whole


def test_targets_are_filled_a_few_workers_at_a_time(make_cluster: Callable[..., Cluster]) -> None:
    """A bound on the fill: as many at once as the suite says, each worker filled once."""
    cluster = make_cluster(3, size="4MiB")
    fill = 'prepare={"method": "random", "at_once": 2}'
    words = ("run", "4k-100r-random", "-i", str(cluster.inventory), "--keep", "--json", *SHORT)
    done = cluster.hcio(*words, "--set", fill)
    assert done.status in (0, 3), done.err
    lines = (cluster.run_folder() / "state.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    armed = [e for e in events if e["event"] == "case.armed" and e["case"] == "prepare"]
    assert [event["workers"] for event in armed] == [2, 1]
    assert cluster.starts("prepare") == {"w1": 1, "w2": 1, "w3": 1}
    assert "not-preconditioned" not in done.out


def test_check_finds_the_workers_fit(make_cluster: Callable[..., Cluster]) -> None:
    """`hcio check` on good workers is all green; with the server off it names each worker."""
    cluster = make_cluster(3)
    good = cluster.hcio("check", "-i", str(cluster.inventory))
    assert good.status == 0, good.out
    cluster.sshd.refuse()
    bad = cluster.hcio("check", "-i", str(cluster.inventory))
    assert bad.status == 1
    assert all(name in bad.out for name in cluster.names)

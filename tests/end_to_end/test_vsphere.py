"""The whole vSphere side, end to end: vcsim, real SSH, real fio, hosts that play ESXi."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.vsphere_lab import SETTINGS, Lab, lab_refusal, vsphere_lab

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(lab_refusal() is not None, reason=str(lab_refusal())),
]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Two workers."""
    with vsphere_lab(tmp_path, 2) as made:
        yield made


def words(suite: str, runtime: float, *more: str) -> list[str]:
    """A run on the inventory, with its times short and the cache cleared before every case."""
    sets = (f"runtime={runtime}", "ramp=1", "prepare=random", "clear_cache=true", *more)
    changes = [word for item in sets for word in ("--set", item)]
    return ["run", suite, "-i", "inventory.yaml", "--json", "--poll", "0.5", *changes]


def test_from_a_bare_cluster_to_a_result_and_back(tmp_path: Path) -> None:
    """Check, size, deploy eight workers on four hosts, fill, the classic four with the cache
    cleared before each, the known counters, report, destroy: the inventory is as before."""
    with vsphere_lab(tmp_path, 8) as lab:
        before = lab.vcsim.inventory()
        hosts = [f"DC0_C0_H{n}" for n in range(4)]
        figures = {
            "cpu.usage.average": [2500],
            "cpu.utilization.average": [4000],
            "mem.usage.average": [6000],
        }
        lab.vcsim.ask("figures", {"values": {host: figures for host in hosts}})

        check = json.loads(lab.hcio("check", "-i", "inventory.yaml", "--json").out)
        lights = {item["name"]: item["result"] for item in check["checks"]}
        assert {lights[n] for n in ("TLS", "login", "place", "vSAN", "privileges")} == {"green"}
        size = lab.hcio("size", "-i", "inventory.yaml", "--json")
        assert json.loads(size.out)["inputs"]["storage"]["value"] == "osa"

        run = lab.hcio(*words("easy-run", 3))
        assert run.status in (0, 1, 3), run.err  # seconds are too short for a verdict
        result = json.loads(run.out)
        assert [case["outcome"] for case in result["cases"]] == ["done"] * 4
        for case in result["cases"]:
            assert case["received_workers"] == 8
            assert case["platform"]["cache"]["done"] is True, case["platform"]["cache"]
            codes = {reason["code"] for reason in case["verdict"]["reasons"]}
            assert not codes & {"cache_not_cleared", "vmotion", "not-preconditioned"}, codes
        assert lab.cleared() == 4 * len(lab.hosts)
        assert lab.settings() == dict.fromkeys(lab.hosts, SETTINGS)
        workers = result["provenance"]["workers"]
        placed = [worker["host_start"] for worker in workers.values()]
        assert {host: placed.count(host) for host in hosts} == dict.fromkeys(hosts, 2)
        assert all(worker["host_end"] == worker["host_start"] for worker in workers.values())
        assert result["provenance"]["platform"]["vsan"]["architecture"] == "osa"
        assert result["provenance"]["conditions"]["storage policy"] == "raid1-ftt1"
        assert "are kept" in run.err

        again = lab.hcio(*words("4k-70r-random", 41), "--destroy")
        assert again.status in (0, 3), again.err
        assert "not filled again" in again.err
        [case] = json.loads(again.out)["cases"]
        usage = case["platform"]["platform"]["usage"]
        assert usage["average"] == {
            "cpu.usage.average": 25.0,
            "cpu.utilization.average": 40.0,
            "mem.usage.average": 60.0,
        }
        assert set(usage["hosts"]) == set(hosts)
        cell = usage["hosts"]["DC0_C0_H0"]["cpu.usage.average"]
        assert cell["used"] >= 1
        assert usage["window"]["end"] - usage["window"]["start"] == pytest.approx(41, abs=1)
        assert "VMs of bench removed" in again.err
        assert lab.vcsim.inventory() == before

        report = lab.hcio("report", "latest")
        assert "cpu.utilization" in report.out
        assert "25.00 %" in report.out


def test_a_failed_clear_a_move_and_a_lost_session(lab: Lab) -> None:
    """One host refuses its settings, a worker is moved, the session ends: the case is run all the
    same, its verdict is unknown for the first two, and nobody sees the third."""
    lab.set_leaf("127.0.6.2", "refuse", "/config/LSOM/intOpts/plogElevSleepTime")
    process = lab.start(*words("4k-70r-random", 4))
    lab.await_event("platform.watched", "4k-70r-random")
    lab.vcsim.ask("expire")
    move = {"type": "VmMigratedEvent", "vm": "bench-001", "host": "DC0_C0_H1", "message": "moved"}
    lab.vcsim.ask("event", move)
    out, err = process.communicate(timeout=120)
    [case] = json.loads(out)["cases"]
    assert case["outcome"] == "done", err
    reasons = {reason["code"]: reason for reason in case["verdict"]["reasons"]}
    assert reasons["cache_not_cleared"]["level"] == "unknown"
    assert "127.0.6.2" in reasons["cache_not_cleared"]["evidence"]
    assert (reasons["vmotion"]["level"], reasons["vmotion"]["worker"]) == ("unknown", "bench-001")
    assert process.returncode != 0
    assert "session" not in err.lower()
    assert case["platform"]["platform"]["warnings"] == []
    report = lab.hcio("report", "latest")
    assert "NOT cleared" in report.out
    assert "moved" in report.out


def test_ctrl_c_while_the_cache_drains_restores_the_settings(lab: Lab) -> None:
    """Nothing of a clearing that was interrupted is left on any host, and nothing was measured."""
    for host in lab.hosts:
        lab.set_leaf(host, "drain", 0)  # never drained
    process = lab.start(*words("4k-70r-random", 2))
    lab.await_settings({"plogRunElevator": 1, "plogElevSleepTime": 1, "dedupElevThrottle": 0})
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert lab.settings() == dict.fromkeys(lab.hosts, SETTINGS)
    assert [e["case"] for e in lab.journal() if e["event"] == "case.armed"] == ["prepare"]


@pytest.mark.parametrize("command", ["clean", "resume"])
def test_killed_while_the_cache_drains(lab: Lab, command: str) -> None:
    """After kill -9 the hosts stay changed until `clean` or `resume`, which put the settings back;
    `resume` then clears and measures."""
    for host in lab.hosts:
        lab.set_leaf(host, "drain", 0)
    process = lab.start(*words("4k-70r-random", 2))
    draining = {"plogRunElevator": 1, "plogElevSleepTime": 1, "dedupElevThrottle": 0}
    lab.await_settings(draining)
    process.kill()
    process.communicate()
    assert lab.settings() == dict.fromkeys(lab.hosts, draining)
    for host in lab.hosts:
        lab.set_leaf(host, "drain", 2**30)
    done = lab.hcio(command, "latest", *(["--json"] if command == "resume" else []))
    assert lab.settings() == dict.fromkeys(lab.hosts, SETTINGS), done.err
    if command == "resume":
        [case] = json.loads(done.out)["cases"]
        assert case["platform"]["cache"]["done"] is True
        assert case["outcome"] == "done"


def test_a_dry_run_asks_nobody(lab: Lab) -> None:
    """What would be deployed, from the inventory alone: the vCenter is not spoken to."""
    lab.vcsim.calls()
    done = lab.hcio(*(w for w in words("easy-run", 2) if w != "--json"), "--dry-run")
    assert done.status == 0, done.err
    assert "2 workers with 2 vCPU, 1 GiB" in done.out
    assert "clear cache: before every case" in done.out
    assert lab.vcsim.calls() == []
    assert not (lab.folder / "runs").exists()

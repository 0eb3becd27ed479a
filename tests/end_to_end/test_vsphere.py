"""The whole vSphere side, end to end: vcsim, real SSH, real fio, hosts that play ESXi."""

from __future__ import annotations

import json
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

        run = lab.hcio(*words("easy-run", 2))
        assert run.status in (0, 3), run.err
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

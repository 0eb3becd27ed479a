"""Conditions: what plans and provenance say a run ran under."""

from __future__ import annotations

from orchestrator.cluster import WorkerShape
from orchestrator.conditions import case_conditions, run_conditions, sizing_conditions

PLAN = {
    "suite": "easy-run",
    "hcio": "1.0",
    "workers": [
        {"targets": [{"size": 1024}, {"size": 2048}]},
        {"targets": [{"size": 1024}, {"path": "/dev/sdb"}]},
    ],
    "cases": [
        {"id": "a", "groups": {"all": {"name": "a", "block_size": 4096, "rate": {"iops": 500}}}},
        {"id": "b", "groups": {"log": {"iodepth": 1}, "data": {"iodepth": 8, "bssplit": None}}},
        {"id": 5, "groups": {}},
        "damaged",
    ],
}


def test_run_conditions_join_plan_and_provenance() -> None:
    """Suite, version, targets, and whatever the provenance states."""
    stated = {"conditions": {"storage policy": "RAID-5", "vsan": {"compression": True}}}
    assert run_conditions(PLAN, stated) == {
        "suite": "easy-run",
        "hcio": "1.0",
        "targets a worker": "2",
        "target size": "1024, 2048",
        "storage policy": "RAID-5",
        "vsan.compression": True,
    }


def test_nothing_said_is_nothing() -> None:
    """Without plan and provenance there are no conditions; odd types are no crash."""
    assert run_conditions({}, {}) == {}
    assert run_conditions({"workers": "x"}, {"conditions": 3}) == {}
    assert case_conditions({"cases": None}) == {}


def test_case_conditions_by_group() -> None:
    """Fields of a lone group stand alone, those of several carry the group's name."""
    assert case_conditions(PLAN) == {
        "a": {"block_size": 4096, "rate.iops": 500},
        "b": {"log/iodepth": 1, "data/iodepth": 8},
    }


def test_image_and_shape_of_workers_that_vsphere_makes() -> None:
    """What the section states; where the sizing decides, the formula and what it came to."""
    shape = {"source": {"template": "debian-12"}, "count": 4, "cpus": 8, "memory": 2**33}
    plan = {"vsphere": {"workers": shape}}
    stated = {"image": "debian-12", "worker cpus": 8, "worker memory": 2**33}
    assert run_conditions(plan, {}) == stated
    item = {"source": {"library": "lib", "item": "fio"}, "count": "auto", "cpus": 4}
    assert run_conditions({"vsphere": {"workers": item}}, {}) == {"image": "lib/fio"}
    sized = WorkerShape.model_validate({**shape, "count": 3})
    assert sizing_conditions(sized, "hcibench-3.0") == {
        "sizing formula": "hcibench-3.0",
        "worker cpus": 8,
        "worker memory": 2**33,
    }


def test_how_the_cache_and_the_warm_up_were_dealt_with() -> None:
    """A cleared cache against a warm one, and runs until steady, are told apart."""
    plan = {"clear_cache": True, "warm_up": {"window": 300.0, "cap": 3600.0}, "until": None}
    assert run_conditions(plan, {}) == {
        "clear_cache": True,
        "warm_up.window": 300.0,
        "warm_up.cap": 3600.0,
    }

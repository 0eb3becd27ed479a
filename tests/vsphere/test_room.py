"""Room for a deployment: space, processors, memory, addresses, names."""

from __future__ import annotations

import pytest

from orchestrator.cluster import Pool
from orchestrator.preflight import Light
from orchestrator.vsphere.base import Datastore, Host
from orchestrator.vsphere.facts import Demand, HostState
from orchestrator.vsphere.room import (
    check_addresses,
    check_capacity,
    check_compute,
    check_names,
)

GIB = 2**30
DEMAND = Demand(workers=4, cpus=4, memory=8 * GIB, disks=2, disk_size=10 * GIB, system_disk=0)


def _store(free: int, *, kind: str = "vsan", name: str = "ds") -> Datastore:
    return Datastore("datastore-1", name, kind, 1000 * GIB, free * GIB, True)


@pytest.mark.parametrize(
    ("free", "light"),
    [
        (1000 - 639, Light.GREEN),  # 639 + 4 x 20 x 2 = 799
        (1000 - 640, Light.YELLOW),  # 800: exactly 80 %
        (1000 - 739, Light.YELLOW),
        (1000 - 740, Light.RED),  # 900: exactly 90 %
    ],
)
def test_capacity_counts_the_policys_copies_and_its_limits_are_inclusive(
    free: int, light: Light
) -> None:
    """Data times the replication factor on top of what is used: 80 % warns, 90 % refuses."""
    found = check_capacity([_store(free)], DEMAND, {"ds": 2.0})
    assert found.light is light
    assert "x 2" in found.evidence


def test_capacity_splits_workers_over_datastores_and_judges_the_fullest() -> None:
    """Two datastores get half each; one that is too full makes the check red and is named."""
    stores = [_store(1000, name="a"), _store(100, name="b")]
    found = check_capacity(stores, DEMAND, {"a": 2.0, "b": 2.0})
    assert found.light is Light.RED
    assert found.evidence.startswith("b: 98.0 %")


def test_capacity_adds_swap_outside_vsan_and_leaves_out_what_is_there_already() -> None:
    """A plain datastore also holds each worker's swap; disks that exist are not counted twice."""
    plain = check_capacity([_store(1000, kind="NFS")], DEMAND, {"ds": 1.0})
    assert plain.evidence.startswith("ds: 11.2 %")  # 4 x (20 + 8)
    kept = Demand(4, 4, 8 * GIB, 2, 10 * GIB, 0, existing={"ds": 80 * GIB})
    assert check_capacity([_store(1000)], kept, {"ds": 2.0}).evidence.startswith("ds: 0.0 %")


def _host(name: str, cpus: int, memory: int) -> Host:
    return Host(name, name, True, False, frozenset(), frozenset(), cpus, cpus // 2, memory * GIB)


def test_compute_counts_other_machines_too() -> None:
    """vCPUs above the threads are yellow, memory above the host's is red, each host named."""
    hosts = [_host("esx1", 16, 64), _host("esx2", 16, 64)]
    free = check_compute({"esx1": 2, "esx2": 2}, hosts, {}, DEMAND)
    assert free.light is Light.GREEN
    busy = {"esx2": HostState("esx2", vcpus=12, vm_memory=8 * GIB)}
    crowded = check_compute({"esx1": 2, "esx2": 2}, hosts, busy, DEMAND)
    assert (crowded.light, crowded.evidence) == (
        Light.YELLOW,
        "esx2: 20 vCPUs on 16 threads (8 cores)",
    )
    full = {"esx2": HostState("esx2", vcpus=0, vm_memory=49 * GIB)}
    assert check_compute({"esx2": 2}, hosts, full, DEMAND).light is Light.RED


def _pool(first: str, last: str, **more: object) -> Pool:
    return Pool.model_validate(
        {"addresses": [f"{first}-{last}"], "prefix": 24, "gateway": "10.0.0.1"} | more
    )


def test_addresses_enough_and_free_are_green() -> None:
    """A pool with as many free addresses as workers, in the gateway's subnet, is good."""
    found = check_addresses(_pool("10.0.0.10", "10.0.0.13"), 4, {}, frozenset())
    assert found.light is Light.GREEN
    assert "4 of 4 pool addresses are free" in found.evidence


def test_addresses_in_use_are_named_with_who_has_them() -> None:
    """A conflict is red and says which machine, or that something answers there."""
    found = check_addresses(
        _pool("10.0.0.10", "10.0.0.20"), 4, {"10.0.0.11": "web1"}, frozenset({"10.0.0.12"})
    )
    assert found.light is Light.RED
    assert "10.0.0.11 (web1)" in found.evidence
    assert "10.0.0.12 (something that answers)" in found.evidence


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (_pool("10.0.0.10", "10.0.0.12"), "3 of 3 pool addresses are free, 4 are needed"),
        (_pool("10.0.0.1", "10.0.0.9"), "10.0.0.1: the subnet's own, the gateway"),
        (_pool("10.0.0.250", "10.0.0.255"), "10.0.0.255: the subnet's own"),
        (_pool("10.0.0.254", "10.0.1.9"), "outside 10.0.0.0/24"),
        (_pool("10.0.0.10", "10.0.0.19", gateway="10.9.0.1"), "the gateway, outside"),
    ],
)
def test_a_pool_that_cannot_work_is_red(pool: Pool, said: str) -> None:
    """Too small, the gateway or broadcast address among them, or two subnets: each is said."""
    found = check_addresses(pool, 4, {}, frozenset())
    assert found.light is Light.RED
    assert said in found.evidence


def test_dhcp_has_no_pool_to_judge() -> None:
    """With DHCP the check says how many addresses it must have."""
    assert "must have 4" in check_addresses(None, 4, {}, frozenset()).evidence


def test_names_of_strangers_are_red_and_of_our_own_are_kept() -> None:
    """An object that hcio didn't make blocks its name; a worker of ours is no clash."""
    assert check_names(["w1", "w2"], {"w1": True}).light is Light.GREEN
    found = check_names(["w1", "w2"], {"w1": True, "w2": False, "other": False})
    assert found.light is Light.RED
    assert found.evidence.endswith(": w2")

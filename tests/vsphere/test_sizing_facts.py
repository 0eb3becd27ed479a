"""From a cluster's facts to a sizing, and from a sizing back to the inventory's section."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from orchestrator.errors import NotFoundInVCenter
from orchestrator.sizing import size_easy_run
from orchestrator.sizing_inputs import resolve_inputs
from orchestrator.vsphere.base import Datastore, Host
from orchestrator.vsphere.facts import Policy, Vsan
from orchestrator.vsphere.fake_observer import FakeObserver
from orchestrator.vsphere.observer import Observer
from orchestrator.vsphere.sizing_facts import (
    apply_sizing,
    demand_of,
    read_sizing_inputs,
    sizing_inputs,
)
from orchestrator.vsphere.vcenter import VCenter
from tests.vsphere.conftest import cluster, fake_vsphere, template
from tests.vsphere.simulator import Vcsim

GIB = 2**30
VSAN = Datastore("datastore-1", "ds", "vsan", 40_960 * GIB + 5, 40_000 * GIB, True)
NFS = Datastore("datastore-2", "nfs", "NFS", 20_480 * GIB, 20_480 * GIB, True)


def _hosts(*stores: str) -> list[Host]:
    return [
        Host(f"host-{n}", f"esx{n}", True, False, frozenset(stores), frozenset(), 64, 32, GIB)
        for n in range(4)
    ]


def test_an_osa_cluster_sizes_without_a_word_from_the_user() -> None:
    """All that the formula needs is told by vCenter; the witness's group is not counted twice."""
    vsan = Vsan("osa", 4, 8, 6400 * GIB, True, witness="10.0.0.9", dedupe=True)
    policy = Policy("raid5", "p", vsan=True, erasure_coding=True, checksum=False)
    inputs = resolve_inputs({}, sizing_inputs([VSAN], _hosts("datastore-1"), vsan, policy))
    assert {value.source for value in inputs.values()} == {"vcenter", "default"}
    assert [name for name, value in inputs.items() if value.source == "default"] == [
        "latency_target"
    ]
    sizing = size_easy_run(inputs)
    assert (sizing.workers, sizing.disk_gib, sizing.iodepth_sequential) == (16, 21, 4)
    assert sizing.prepare == "random"


def test_esa_and_plain_datastores_are_told_apart() -> None:
    """ESA takes the vSAN cluster's hosts; a plain datastore the hosts that see it."""
    esa = sizing_inputs([VSAN], _hosts("datastore-1"), Vsan("esa", 6), None)
    assert (esa["storage"], esa["hosts"], esa["capacity_gib"]) == ("esa", 6, 40_960)
    assert "disk_groups" not in esa
    plain = sizing_inputs([NFS], _hosts("datastore-2"), Vsan("osa", 6, 8, 1, True), None)
    assert (plain["storage"], plain["hosts"]) == ("plain", 4)


def test_a_policy_that_was_not_asked_leaves_its_inputs_open() -> None:
    """Then the formula's defaults apply, and say that they are defaults."""
    inputs = sizing_inputs([VSAN], _hosts("datastore-1"), Vsan("esa", 6), None)
    assert resolve_inputs({}, inputs)["failures_to_tolerate"].source == "default"


def test_auto_becomes_the_sizings_workers_and_any_other_count_stays() -> None:
    """Workers, disks, CPUs and memory come from the sizing only where the count is auto."""
    facts: dict[str, Any] = sizing_inputs([VSAN], _hosts("datastore-1"), Vsan("esa", 4), None)
    sizing = size_easy_run(resolve_inputs({}, facts))
    made = apply_sizing(cluster(count="auto"), sizing).workers
    assert (made.count, made.disks.count, made.disks.size) == (8, 8, 64 * GIB)
    assert (made.cpus, made.memory) == (4, 8 * GIB)
    fixed = cluster(count=3)
    assert apply_sizing(fixed, sizing) == fixed


def test_demand_counts_what_is_there_already_by_datastore() -> None:
    """Disks of our own workers on the datastores under test; the image's disk for each new one."""
    store = Datastore("datastore-0", "LocalDS_0", "VMFS", 1, 1, True)
    demand = demand_of(cluster(count=4), template(), [template(ref="vm-9")], [store])
    assert (demand.workers, demand.data, demand.system_disk) == (4, 30 * GIB, 10 * GIB)
    assert demand.existing == {"LocalDS_0": 10 * GIB}


def test_datastores_that_are_not_there_are_named() -> None:
    """Nothing is sized for a datastore that nobody has."""
    with pytest.raises(NotFoundInVCenter, match="none of elsewhere"):
        read_sizing_inputs(fake_vsphere(), FakeObserver(), cluster(top_datastores=["elsewhere"]))


@pytest.fixture
def client(vcsim: Vcsim) -> Iterator[VCenter]:
    """The real client."""
    made = VCenter(vcsim.login(), call_timeout=20)
    yield made
    made.close()


@pytest.mark.real
def test_the_simulators_cluster_sizes_by_what_it_says(client: VCenter) -> None:
    """8 disk groups of 800 GiB, 4000 GiB free: 16 workers, the base halved once to 2400 GiB."""
    observer = Observer(client.session)
    section = cluster(count="auto", top_datastores=["LocalDS_0"])
    inputs = read_sizing_inputs(client, observer, section)
    observer.close()
    sizing = size_easy_run(resolve_inputs({}, inputs))
    assert (sizing.workers, sizing.disks_per_worker, sizing.disk_gib) == (16, 8, 7)

"""Stages for the vSphere tests: the fake one, and a simulator process with the real client."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from orchestrator.cluster import Cluster
from orchestrator.vsphere.base import Datastore, Disk, Host, Machine, Network, Nic, Site, VSphere
from orchestrator.vsphere.fake import FakeVSphere
from orchestrator.vsphere.vcenter import VCenter
from tests.vsphere.simulator import Vcsim

GIB = 2**30


def cluster(**workers: Any) -> Cluster:
    """An inventory's section; `workers` changes what a worker is, `top_*` the rest."""
    top = {key[4:]: workers.pop(key) for key in list(workers) if key.startswith("top_")}
    shape: dict[str, Any] = {
        "source": {"template": "ubuntu-24.04"},
        "count": 4,
        "cpus": 2,
        "memory": "1GiB",
        "disks": {"count": 3, "size": "10GiB"},
        "addresses": {"addresses": ["127.0.7.1-127.0.7.99"], "prefix": 24},
    }
    section: dict[str, Any] = {
        "deployment": "bench",
        "vcenter": {"host": "vcenter.test", "user": "u", "password": "env:VC"},
        "datacenter": "DC0",
        "cluster": "DC0_C0",
        "networks": ["VM Network"],
        "datastores": ["LocalDS_0", "LocalDS_1"],
        "workers": shape | workers,
    }
    return Cluster.model_validate(section | top)


def fake_site(hosts: int = 4, free: int = 4000 * GIB) -> Site:
    """The simulator's datacenter, as the fake knows it."""
    networks = (
        Network("network-1", "VM Network", "standard"),
        Network("dvpg-1", "DC0_DVPG0", "distributed", "switch-1", "dvpg-1"),
    )
    stores = tuple(
        Datastore(f"datastore-{n}", f"LocalDS_{n}", "VMFS", 4096 * GIB, free, True)
        for n in range(2)
    )
    return Site(
        vcenter="vcenter.test",
        datacenter="datacenter-1",
        cluster="cluster-1",
        cluster_name="DC0_C0",
        pool="pool-1",
        folder="folder-1",
        hosts=tuple(
            Host(
                f"host-{n}",
                f"DC0_C0_H{n}",
                True,
                False,
                frozenset(store.ref for store in stores),
                frozenset(network.ref for network in networks),
                32,
                16,
                256 * GIB,
            )
            for n in range(hosts)
        ),
        datastores=stores,
        networks=networks,
    )


def template(name: str = "ubuntu-24.04", ref: str = "vm-1") -> Machine:
    """A template with one disk and one card."""
    return Machine(
        ref=ref,
        name=name,
        instance=f"instance-of-{ref}",
        mark=None,
        template=True,
        power="off",
        host="host-0",
        folder="folder-1",
        cpus=1,
        memory=GIB,
        disks=(Disk(2000, 10 * GIB, "pvscsi", 0, 0, True, "aa", "datastore-0"),),
        nics=(Nic(4000, "dvpg-1", "00:50:56:00:00:01"),),
        controllers=(("pvscsi", 0),),
    )


def fake_vsphere(site: Site | None = None, **other: Any) -> FakeVSphere:
    """A fake with a template and a stranger's VM."""
    machines = [template(), template("somebody-elses", "vm-2")]
    policies = {"raid1-ftt1": "policy-1", "raid5-ftt1": "policy-2"}
    return FakeVSphere(site or fake_site(), machines, policies=policies, **other)


@dataclass
class Stage:
    """A VSphere to be tried, with the means to see everything and to play somebody else."""

    vsphere: VSphere
    vcsim: Vcsim | None

    def inventory(self) -> list[str]:
        """Everything there is."""
        if self.vcsim is not None:
            return self.vcsim.inventory()
        assert isinstance(self.vsphere, FakeVSphere)
        return self.vsphere.snapshot()

    def add_copy(self, source: str, name: str) -> None:
        """Somebody copies a VM, with all its settings."""
        if self.vcsim is not None:
            self.vcsim.ask("vm", {"name": name, "source": source, "copy": True})
            return
        assert isinstance(self.vsphere, FakeVSphere)
        found = next(
            m for m in self.vsphere.machines(fake_site(), policies=False) if m.name == source
        )
        copy = {**found.__dict__, "name": name, "ref": "vm-99", "instance": "a new one"}
        self.vsphere.add(Machine(**copy))


@pytest.fixture
def vcsim() -> Iterator[Vcsim]:
    """A simulator of the test's own."""
    started = Vcsim.start("-vsan=osa")
    yield started
    started.stop()


@pytest.fixture(params=["fake", pytest.param("vcsim", marks=pytest.mark.real)])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """The fake and the real client, to which the same holds."""
    if request.param == "fake":
        yield Stage(fake_vsphere(), None)
        return
    simulator = Vcsim.start("-vsan=osa")
    client = VCenter(simulator.login(), call_timeout=10)
    yield Stage(client, simulator)
    client.close()
    simulator.stop()

"""The preflight of a vSphere cluster: what is asked, in which order, and what each answer does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.cluster import Cluster
from orchestrator.errors import LoginRefused
from orchestrator.inspection import Inspection, Intent
from orchestrator.preflight import Check, Finding, Light, green, red, run_checks
from orchestrator.secrets import Secret
from orchestrator.vsphere.base import Datastore, Disk, Host, Machine, Network, Site
from orchestrator.vsphere.facts import HostState, Policy, Vsan, VsanState
from orchestrator.vsphere.fake import FakeVSphere
from orchestrator.vsphere.fake_observer import FakeObserver
from orchestrator.vsphere.session import Login

GIB = 2**30
LOGIN = Login("vc.test", 443, "bench", Secret("x"), thumbprint="00" * 32)
HOSTS = tuple(f"esx{number}" for number in range(1, 5))


class FakeReaching:
    """A network in which names, ports and addresses are as the test says."""

    def __init__(self) -> None:
        self.unknown: set[str] = set()
        self.closed: dict[str, str] = {}
        self.there: frozenset[str] = frozenset()
        self.certificate = green("pinned")

    def resolve(self, name: str) -> Sequence[str]:
        return () if name in self.unknown else ("127.0.0.1",)

    def refused(self, host: str, port: int) -> str | None:
        return self.closed.get(f"{host}:{port}")

    def answering(self, addresses: Sequence[str]) -> frozenset[str]:
        return self.there & set(addresses)

    def tls(self, login: Login) -> Finding:
        return self.certificate


def _site(**other: Any) -> Site:
    stores, networks = frozenset({"datastore-1"}), frozenset({"network-1"})
    hosts = tuple(
        Host(f"host-{name}", name, True, False, stores, networks, 64, 32, 512 * GIB)
        for name in HOSTS
    )
    values: dict[str, Any] = {
        "vcenter": "vc.test",
        "datacenter": "datacenter-1",
        "cluster": "domain-c1",
        "cluster_name": "c1",
        "pool": "resgroup-1",
        "folder": "group-v1",
        "hosts": hosts,
        "datastores": (
            Datastore("datastore-1", "vsanDatastore", "vsan", 40_000 * GIB, 39_000 * GIB, True),
        ),
        "networks": (Network("network-1", "bench", "standard"),),
        "vsan": True,
    }
    return Site(**(values | other))


def _template() -> Machine:
    disk = Disk(2000, 10 * GIB, "pvscsi", 0, 0, True, "image", "datastore-1")
    return Machine(
        ref="vm-1",
        name="ubuntu",
        instance="i",
        mark=None,
        template=True,
        power="off",
        host="host-esx1",
        folder="group-v9",
        cpus=2,
        memory=2 * GIB,
        disks=(disk,),
        nics=(),
    )


def _cluster(**workers: Any) -> Cluster:
    return Cluster.model_validate(
        {
            "deployment": "bench",
            "vcenter": {"host": "vc.test", "user": "bench", "password": "env:VC_PASSWORD"},
            "datacenter": "dc1",
            "cluster": "c1",
            "networks": ["bench"],
            "datastores": ["vsanDatastore"],
            "storage_policy": "raid1",
            "workers": {"source": {"template": "ubuntu"}, "count": 8} | workers,
        }
    )


class Lab:
    """All that an inspection asks, good unless the test changes it."""

    def __init__(self) -> None:
        self.site = _site()
        self.cluster = _cluster()
        self.machines = [_template()]
        self.reaching = FakeReaching()
        self.intent = Intent()
        self.refused: Exception | None = None
        self.observer = FakeObserver(
            hosts=[HostState(name, True, 0.1, 100, 100_000, GIB, 0, 0, 0) for name in HOSTS],
            known=[Policy("raid1", "p1", vsan=True, compatible=frozenset({"vsanDatastore"}))],
            config=Vsan("osa", 4, 8, 6400 * GIB, True, dedupe=False, performance_service=True),
        )
        self.deep: Any = None

    def inspect(self) -> dict[str, Check]:
        def connect() -> tuple[FakeVSphere, FakeObserver]:
            if self.refused is not None:
                raise self.refused
            return FakeVSphere(self.site, self.machines), self.observer

        self.inspection = Inspection(
            self.cluster, LOGIN, connect, self.reaching, self.intent, deep=self.deep
        )
        return {check.name: check for check in run_checks(self.inspection.checks())}


@pytest.fixture
def lab() -> Lab:
    """A lab in which every check is green."""
    return Lab()


def _not_green(checks: dict[str, Check]) -> dict[str, Light]:
    return {name: check.light for name, check in checks.items() if check.light is not Light.GREEN}


def test_a_good_cluster_is_green_throughout(lab: Lab) -> None:
    """Nothing to object to: every check that the issue names is there, and green."""
    checks = lab.inspect()
    assert _not_green(checks) == {}
    assert set(checks) >= {
        "name resolution",
        "port",
        "TLS",
        "login",
        "privileges",
        "place",
        "hosts",
        "networks",
        "datastores",
        "storage policy",
        "capacity",
        "processors and memory",
        "addresses",
        "names",
        "DRS",
        "vSAN health",
        "vSAN resync",
        "performance service",
        "ESXi SSH",
        "host clocks",
        "other load",
    }


def test_a_refused_login_makes_what_follows_red_and_says_why(lab: Lab) -> None:
    """Nothing behind the login is green by silence; what came before keeps its answer."""
    lab.refused = LoginRefused("vc.test", "logging in", "user or password refused")
    checks = lab.inspect()
    assert checks["TLS"].light is Light.GREEN
    assert "user or password refused" in checks["login"].evidence
    after = [
        check for name, check in checks.items() if name not in ("name resolution", "port", "TLS")
    ]
    assert all(check.light is Light.RED and not check.ran for check in after)


def test_case_51_a_vcenter_name_without_an_address_is_found_first(lab: Lab) -> None:
    """Case 51: the name is in the evidence of the first check."""
    lab.reaching.unknown = {"vc.test"}
    checks = lab.inspect()
    assert "no address for vc.test" in checks["name resolution"].evidence
    assert not checks["port"].ran


def test_one_red_hides_no_other(lab: Lab) -> None:
    """A wrong network, a full datastore, a resync and a stranger's name are all told at once."""
    lab.site = _site(
        networks=(Network("network-1", "other", "standard"),),
        datastores=(
            Datastore("datastore-1", "vsanDatastore", "vsan", 1000 * GIB, 500 * GIB, True),
        ),
    )
    lab.machines.append(replace(_template(), ref="vm-7", name="bench-001", folder="group-v1"))
    lab.observer.states = [VsanState("red", {"disk": "red"}, 5, 1)]
    reds = {name for name, light in _not_green(lab.inspect()).items() if light is Light.RED}
    assert reds >= {"networks", "vSAN health", "vSAN resync", "capacity", "names"}


def test_capacity_uses_the_policys_factor(lab: Lab) -> None:
    """Eight workers of 8 x 10 + 10 GiB, written twice."""
    evidence = lab.inspect()["capacity"].evidence
    assert "8 workers of 90 GiB x 2" in evidence


def test_without_a_policy_vsans_own_mirror_is_counted(lab: Lab) -> None:
    """No policy asked: the default writes twice all the same."""
    lab.cluster = lab.cluster.model_copy(update={"storage_policy": None})
    assert "x 2" in lab.inspect()["capacity"].evidence


def test_the_datastores_own_default_policy_is_counted(lab: Lab) -> None:
    """No policy asked, and the default is RAID-5: a third more, not twice."""
    lab.cluster = lab.cluster.model_copy(update={"storage_policy": None})
    lab.observer.defaults = {"vsanDatastore": Policy("d", "d", vsan=True, erasure_coding=True)}
    assert "x 1.33" in lab.inspect()["capacity"].evidence


def test_count_auto_takes_the_sizing(lab: Lab) -> None:
    """Auto: workers, disks and memory are the formula's, and what is checked is that."""
    lab.cluster = _cluster(count="auto")
    checks = lab.inspect()
    assert "16 workers with 4 vCPUs, 8 GiB and 8 disks of 14 GiB" in checks["size"].evidence
    assert lab.inspection.sized.workers.count == 16
    assert {value.name: value.source for value in lab.inspection.sizing().inputs}[
        "disk_groups"
    ] == "vcenter"


def test_per_host_counts_usable_hosts(lab: Lab) -> None:
    """Two on every host that can take one."""
    out = replace(lab.site.hosts[3], maintenance=True)
    lab.site = _site(hosts=(*lab.site.hosts[:3], out))
    lab.cluster = _cluster(count={"per_host": 2})
    checks = lab.inspect()
    assert "6 workers" in checks["size"].evidence
    assert checks["hosts"].light is Light.YELLOW


def test_clearing_the_cache_needs_ssh_to_each_host(lab: Lab) -> None:
    """OSA with clear cache: service, name and port of every ESXi host are asked."""
    lab.intent = Intent(clear_cache=True)
    lab.reaching.unknown = {"esx2"}
    lab.reaching.closed = {"esx3:22": "Connection refused"}
    states = list(lab.observer.hosts)
    lab.observer.hosts = [*states[:3], replace(states[3], ssh=False)]
    check = lab.inspect()["ESXi SSH"]
    assert check.light is Light.RED
    for text in ("no address for esx2", "esx3:22: Connection refused", "not run on esx4"):
        assert text in check.evidence


def test_addresses_of_a_pool_are_tried(lab: Lab) -> None:
    """Somebody answers at an address of the pool: red, named."""
    pool = {"addresses": ["10.0.0.10-10.0.0.30"], "prefix": 24}
    lab.cluster = _cluster(addresses=pool)
    lab.reaching.there = frozenset({"10.0.0.12"})
    assert "10.0.0.12" in lab.inspect()["addresses"].evidence


def test_missing_privileges_are_named_at_the_object(lab: Lab) -> None:
    """The datastore's name, not its id, stands beside what lacks there."""
    lab.observer.lacking = {"datastore-1": ["Datastore.AllocateSpace"]}
    assert lab.inspect()["privileges"].evidence == (
        "the user lacks vsanDatastore: Datastore.AllocateSpace"
    )


def test_a_plain_datastore_asks_nothing_of_vsan(lab: Lab) -> None:
    """Without vSAN its checks are green with the reason, and a byte is a byte."""
    store = Datastore("datastore-1", "vsanDatastore", "NFS", 40_000 * GIB, 39_000 * GIB, True)
    lab.site = _site(datastores=(store,), vsan=False)
    lab.cluster = lab.cluster.model_copy(update={"storage_policy": None})
    lab.observer.config = None
    checks = lab.inspect()
    assert _not_green(checks) == {}
    assert "x 1 " in checks["capacity"].evidence
    assert "vsan_state" not in lab.observer.calls


def test_the_deep_check_is_the_last_and_needs_the_others(lab: Lab) -> None:
    """A probe on every host is tried only when the place for it is good."""
    lab.deep = lambda vsphere, taken: red("esx2: no address", "see the VLAN")
    checks = lab.inspect()
    assert checks["deep: every host"].evidence == "esx2: no address"
    lab.cluster = lab.cluster.model_copy(update={"networks": ("nope",)})
    assert not lab.inspect()["deep: every host"].ran

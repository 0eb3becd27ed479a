"""The deep check: one tiny worker on every host, reached, and nothing left of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cluster import Pool
from orchestrator.errors import HostUnreachable, TaskFailed
from orchestrator.inventory import Worker
from orchestrator.preflight import Finding, Light
from orchestrator.vsphere.deploy import Tools
from orchestrator.vsphere.fake import FakeVSphere, Trouble
from orchestrator.vsphere.probe import check_every_host, probe_cluster
from orchestrator.vsphere.state import open_state
from tests.vsphere.conftest import Stage, cluster, fake_vsphere


def _check(
    vsphere: FakeVSphere | Stage, folder: Path, ready: Callable[[Worker], None] = lambda w: None
) -> Finding:
    section = cluster(count=8, addresses="dhcp")
    state = open_state(folder / "probe", probe_cluster(section).deployment)
    client = vsphere.vsphere if isinstance(vsphere, Stage) else vsphere
    return check_every_host(Tools(client, ready=ready), section, state)


def test_every_host_gets_one_and_everything_is_gone_afterwards(
    stage: Stage, tmp_path: Path
) -> None:
    """On the fake and on the simulator: four hosts, four probes, the inventory as before."""
    before = stage.inventory()
    seen: list[str] = []
    found = _check(stage, tmp_path, lambda worker: seen.append(worker.host_label or ""))
    assert found == Finding(Light.GREEN, "4 probes, one a host, were reached by SSH and removed")
    assert len(set(seen)) == 4
    assert stage.inventory() == before
    assert not (tmp_path / "probe").exists()


def test_a_host_whose_probe_is_silent_is_red_and_named(tmp_path: Path) -> None:
    """One host's VLAN is missing: the others are reached, and all are removed."""
    vsphere = fake_vsphere()
    before = vsphere.snapshot()

    def ready(worker: Worker) -> None:
        if worker.host_label == "DC0_C0_H2":
            raise HostUnreachable(worker.name, "connect", "no route")

    found = _check(vsphere, tmp_path, ready)
    assert found.light is Light.RED
    assert found.evidence.startswith("3 probes reached, not: bench-probe-00")
    assert "no route" in found.evidence
    assert vsphere.snapshot() == before


def test_a_deployment_that_fails_is_red_and_cleaned(tmp_path: Path) -> None:
    """A clone that fails is told, and the other probes are removed all the same."""
    vsphere = fake_vsphere()
    before = vsphere.snapshot()
    vsphere.troubles.append(
        Trouble("clone", TaskFailed("vc", "cloning", "NoPermission", "no"), times=99)
    )
    found = _check(vsphere, tmp_path)
    assert found.light is Light.RED
    assert "NoPermission" in found.evidence
    assert vsphere.snapshot() == before


def test_what_cannot_be_removed_is_said_and_its_state_kept(tmp_path: Path) -> None:
    """The folder stays while a probe stays: the next deep check removes it."""
    vsphere = fake_vsphere()
    before = vsphere.snapshot()
    vsphere.troubles.append(
        Trouble("destroy", TaskFailed("vc", "removing", "ResourceInUse", "busy"), times=99)
    )
    found = _check(vsphere, tmp_path)
    assert found.light is Light.RED
    assert "not all could be removed" in found.evidence
    vsphere.troubles.clear()
    assert _check(vsphere, tmp_path).light is Light.GREEN
    assert vsphere.snapshot() == before


@pytest.mark.parametrize("name", ["bench", "a" * 48])
def test_a_probe_is_tiny_and_has_a_name_of_its_own(name: str) -> None:
    """One a host, one vCPU, one small disk; the deployment's own workers are other names."""
    probe = probe_cluster(cluster(top_deployment=name))
    assert probe.deployment.endswith("-probe")
    assert len(probe.deployment) <= 48
    assert probe.workers.cpus == 1
    assert probe.workers.disks.count == 1


def test_a_probe_takes_no_address_of_a_worker() -> None:
    """From a pool it gets what the deployment's own workers don't have."""
    pool = {"addresses": ["127.0.7.1-127.0.7.8"], "prefix": 24}
    taken = frozenset({"127.0.7.1", "127.0.7.2"})
    probe = probe_cluster(cluster(addresses=pool), taken)
    assert isinstance(probe.workers.addresses, Pool)
    assert probe.workers.addresses.all()[:2] == ("127.0.7.3", "127.0.7.4")

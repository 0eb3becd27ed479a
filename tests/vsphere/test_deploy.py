"""Deploy and destroy on the fake: what stays, what changes and why, and what failures leave."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cluster import Cluster
from orchestrator.errors import (
    ConfigError,
    DeploymentFailed,
    HcioError,
    NotFoundInVCenter,
    TaskFailed,
    VCenterUnreachable,
)
from orchestrator.inventory import BlockTarget
from orchestrator.vsphere import cloudinit
from orchestrator.vsphere.base import Guest, GuestNic, Machine
from orchestrator.vsphere.deploy import Deployment, Patience, Tools, deploy, destroy, plan
from orchestrator.vsphere.fake import FakeVSphere, Trouble
from orchestrator.vsphere.state import DeploymentState, open_state, read_state
from tests.vsphere.conftest import GIB, cluster, fake_site, fake_vsphere, template

CHANGING = {"clone", "change", "power", "destroy", "set_rule", "pin", "import_ovf", "deploy_item"}
CASES = Path(__file__).parents[1] / "data" / "cases"


@pytest.fixture
def state(tmp_path: Path) -> DeploymentState:
    """A deployment's own folder."""
    return open_state(tmp_path / "bench", "bench", new_id=lambda: "id-1")


def run(
    vsphere: FakeVSphere, state: DeploymentState, section: Cluster, **other: Any
) -> tuple[Deployment, list[str]]:
    """Deploy, one worker at a time, and the lines that were said."""
    lines: list[str] = []
    vsphere.calls.clear()
    tools = Tools(vsphere, say=lines.append, parallel=1, patience=Patience(guest=0.01))
    return deploy(tools, section, state, **other), lines


def changing(vsphere: FakeVSphere) -> list[str]:
    """The calls that change something."""
    return [call.name for call in vsphere.calls if call.name in CHANGING]


def test_workers_become_inventory_workers(state: DeploymentState) -> None:
    """Each has its static address, our key, its host, and its data disks by serial and size."""
    done, _ = run(fake_vsphere(), state, cluster(addresses="dhcp"))
    assert [worker.name for worker in done.workers] == [f"bench-00{n}" for n in range(1, 5)]
    first = done.workers[0]
    assert (first.user, first.key, first.host_label) == ("hcio", str(state.key_file), "DC0_C0_H0")
    assert [target.size for target in first.targets] == [10 * GIB] * 3
    assert all(isinstance(target, BlockTarget) and target.serial for target in first.targets)
    assert len({worker.host for worker in done.workers}) == 4


def test_a_second_deploy_changes_nothing(state: DeploymentState) -> None:
    """What exists and fits stays: not one changing call."""
    vsphere = fake_vsphere()
    section = cluster(addresses="dhcp", anti_affinity=True, pin_hosts=True, count=3)
    run(vsphere, state, section)
    before = vsphere.snapshot()
    done, lines = run(vsphere, state, section)
    assert changing(vsphere) == []
    assert vsphere.snapshot() == before
    assert len(done.workers) == 3
    assert "bench-001: kept" in lines


@pytest.mark.parametrize(
    ("different", "reason"),
    [
        ({"cpus": 8}, "CPUs 2 -> 8"),
        ({"memory": "2GiB"}, "memory 1 GiB -> 2 GiB"),
        ({"disks": {"count": 4, "size": "10GiB"}}, "1 data disks of 10 GiB on pvscsi come"),
        ({"disks": {"count": 2, "size": "10GiB"}}, "1 data disks that don't fit go"),
        ({"disks": {"count": 3, "size": "20GiB"}}, "3 data disks that don't fit go"),
        (
            {"disks": {"count": 3, "size": "10GiB", "controller": "nvme"}},
            "3 data disks of 10 GiB on nvme come",
        ),
        ({"disks": {"count": 3, "size": "10GiB", "thin": False}}, "data disks that don't fit go"),
        ({"top_networks": ["DC0_DVPG0"]}, "network cards: DC0_DVPG0"),
        ({"top_storage_policy": "raid1-ftt1"}, "storage policy of 4 disks"),
    ],
)
def test_what_differs_is_changed_and_said(
    state: DeploymentState, different: dict[str, Any], reason: str
) -> None:
    """A difference in place keeps the VM, names the reason, and is gone at the next deploy."""
    vsphere = fake_vsphere()
    first, _ = run(vsphere, state, cluster(addresses="dhcp"))
    refs = {m.name: m.ref for m in vsphere.machines(fake_site(), policies=False)}
    section = cluster(**({"addresses": "dhcp"} | different))
    second, lines = run(vsphere, state, section)
    assert any(reason in line for line in lines), lines
    assert {m.name: m.ref for m in vsphere.machines(fake_site(), policies=False)} == refs
    assert len(second.workers) == len(first.workers)
    run(vsphere, state, section)
    assert changing(vsphere) == []


@pytest.mark.parametrize(
    ("different", "reason"),
    [
        ({"source": {"template": "somebody-elses"}}, "image is template:ubuntu-24.04"),
        ({"ssh_user": "root"}, "cloud-init data differs"),
        ({"cloud_init": {"packages": ["nvme-cli"]}}, "cloud-init data differs"),
    ],
)
def test_what_can_not_be_changed_is_made_anew(
    state: DeploymentState, different: dict[str, Any], reason: str
) -> None:
    """Another image or other cloud-init data needs a new VM, and says so."""
    vsphere = fake_vsphere()
    run(vsphere, state, cluster(addresses="dhcp", count=1))
    (old,) = vsphere.machines(fake_site(), policies=False)
    done, lines = run(vsphere, state, cluster(**({"addresses": "dhcp", "count": 1} | different)))
    (new,) = vsphere.machines(fake_site(), policies=False)
    assert new.ref != old.ref
    assert any(line.startswith("bench-001: renew") and reason in line for line in lines)
    assert len(done.workers) == 1


def test_fewer_workers_remove_the_surplus(state: DeploymentState) -> None:
    """Workers beyond the count go, with the reason; the others stay as they are."""
    vsphere = fake_vsphere()
    run(vsphere, state, cluster(addresses="dhcp"))
    done, lines = run(vsphere, state, cluster(addresses="dhcp", count=2))
    assert done.removed == ("bench-003", "bench-004")
    assert "bench-004: removed (no longer wanted)" in lines
    assert len(vsphere.machines(fake_site(), policies=False)) == 2


def test_destroy_leaves_what_was_there_before(state: DeploymentState) -> None:
    """VMs, the rule and the overrides go; template and strangers stay."""
    vsphere = fake_vsphere()
    before = vsphere.snapshot()
    section = cluster(addresses="dhcp", anti_affinity=True, pin_hosts=True)
    run(vsphere, state, section)
    removed = destroy(Tools(vsphere, parallel=1), section, state.id)
    assert removed == tuple(f"bench-00{n}" for n in range(1, 5))
    assert vsphere.snapshot() == before


def test_another_deployment_is_not_touched(state: DeploymentState, tmp_path: Path) -> None:
    """Two deployments in one folder know their own by id, whatever the names."""
    vsphere = fake_vsphere()
    run(vsphere, state, cluster(addresses="dhcp"))
    before = vsphere.snapshot()
    other = open_state(tmp_path / "other", "other", new_id=lambda: "id-2")
    section = cluster(addresses="dhcp", top_deployment="other")
    run(vsphere, other, section)
    destroy(Tools(vsphere, parallel=1), section, other.id)
    assert vsphere.snapshot() == before


def test_a_dry_run_touches_nothing(state: DeploymentState, tmp_path: Path) -> None:
    """The plan says what would be done and why, with and without a folder, and does none of it."""
    vsphere = fake_vsphere()
    layout = plan(vsphere, cluster(), None)
    assert [worker.action for worker in layout.workers] == ["make"] * 4
    assert list(tmp_path.iterdir()) == [state.folder]
    run(vsphere, state, cluster(addresses="dhcp"))
    vsphere.calls.clear()
    again = plan(vsphere, cluster(addresses="dhcp", cpus=8), state).as_json()
    assert [worker["action"] for worker in again["workers"]] == ["change"] * 4
    assert again["workers"][0]["reasons"] == ["CPUs 2 -> 8"]
    assert changing(vsphere) == []


def test_case_44_partial_clone_failure(state: DeploymentState) -> None:
    """Case 44: both problems are found before; forced, failures are per VM; only ours go."""
    case = CASES / "44-partial-clone-failure"
    expected = json.loads((case / "expected.json").read_text())
    written = json.loads((case / "plan.json").read_text())
    vsphere = fake_vsphere(fake_site(free=written["free_gb"] * GIB))
    for number, name in enumerate(written["existing_vms"]):
        vsphere.add(template(name, f"vm-9{number}"))
    section = cluster(
        count=written["count"],
        at_least=4,
        disks={"count": 1, "size": f"{written['per_vm_gb'] - 11}GiB"},
        top_datastores=["LocalDS_0"],
        addresses="dhcp",
    )
    with pytest.raises(ConfigError) as refused:
        run(vsphere, state, section)
    assert "bench-003 already exists and was not made by this deployment" in str(refused.value)
    assert "6 x 100 GiB does not fit in 500 GiB" in str(refused.value)
    assert changing(vsphere) == []

    # The sixth clone meets a full datastore; the third one's call never comes to vCenter's task.
    full = TaskFailed("vcenter.test", "cloning bench-006", "InsufficientStorageSpace", "")
    vsphere.troubles.append(Trouble("clone", full, skip=5))
    done, _ = run(vsphere, state, section, force=True)
    assert [worker.name for worker in done.workers] == expected["if_forced"]["created"]
    faults = {name: getattr(error, "fault", "") for name, error in done.errors.items()}
    assert faults == expected["if_forced"]["failed"]
    removed = destroy(Tools(vsphere, parallel=1), section, state.id)
    assert list(removed) == expected["cleanup_deletes"]
    left = vsphere.names(fake_site(), "folder-1")
    assert set(expected["cleanup_never_deletes"]) <= set(left)


def test_case_47_every_disk_carries_the_policy(state: DeploymentState) -> None:
    """Case 47: home and all disks carry it before power-on; an unknown name lists all."""
    vsphere = fake_vsphere()
    section = cluster(addresses="dhcp", count=1, top_storage_policy="raid1-ftt1")
    run(vsphere, state, section)
    (machine,) = vsphere.machines(fake_site(), policies=True)
    assert {disk.policy for disk in machine.disks} == {"policy-1"} == {machine.policy}
    steps = [call.name for call in vsphere.calls]
    assert steps.index("clone") < steps.index("change") < steps.index("power")
    with pytest.raises(NotFoundInVCenter, match="did you mean 'raid1-ftt1'") as caught:
        run(vsphere, state, cluster(top_storage_policy="raid1-ftt"))
    assert "raid5-ftt1" in caught.value.next_step


class DeafVSphere(FakeVSphere):
    """Says yes to every change of policy and does nothing."""

    def change(self, ref: str, change: Any, *, timeout: float) -> None:
        fields = {**change.__dict__, "policy": None, "policy_disks": ()}
        super().change(ref, type(change)(**fields), timeout=timeout)


def test_case_47_a_policy_that_does_not_hold_stops_the_worker(state: DeploymentState) -> None:
    """Case 47: when the disks don't carry what vCenter said yes to, the worker is not ready."""
    policies = {"raid1-ftt1": "policy-1"}
    vsphere = DeafVSphere(fake_site(), [template()], policies=policies)
    section = cluster(addresses="dhcp", count=1, top_storage_policy="raid1-ftt1")
    with pytest.raises(DeploymentFailed, match="it is not what was asked: storage policy"):
        run(vsphere, state, section)
    assert "power" not in changing(vsphere)


def failing_calls() -> Iterator[Any]:
    """Every changing call of a deploy, before and after it was carried out."""
    for name in ("clone", "change", "power", "set_rule"):
        for done in (False, True):
            for skip in range(1 if name == "set_rule" else 2):
                yield pytest.param(name, done, skip, id=f"{name}-{skip}-{'lost' if done else 'no'}")


@pytest.mark.parametrize(("name", "done", "skip"), list(failing_calls()))
def test_any_step_may_fail_once(state: DeploymentState, name: str, done: bool, skip: int) -> None:
    """After any one failure the next deploy succeeds, with no VM twice, and destroy leaves none."""
    vsphere = fake_vsphere()
    before = vsphere.snapshot()
    section = cluster(addresses="dhcp", count=2, anti_affinity=True)
    error = VCenterUnreachable("vcenter.test", name, "no answer in 60 s")
    vsphere.troubles.append(Trouble(name, error, skip=skip, done=done))
    with pytest.raises(HcioError, match="no answer in 60 s"):
        run(vsphere, state, section)
    finished, _ = run(vsphere, state, section)
    assert len(finished.workers) == 2
    assert len(vsphere.machines(fake_site(), policies=False)) == 2
    destroy(Tools(vsphere, parallel=1), section, state.id)
    assert vsphere.snapshot() == before


@pytest.mark.parametrize("name", ["power", "destroy"])
@pytest.mark.parametrize("done", [False, True])
def test_destroy_goes_on_where_it_failed(state: DeploymentState, name: str, done: bool) -> None:
    """One that fails doesn't stop the others, and a second destroy removes the rest."""
    vsphere = fake_vsphere()
    before = vsphere.snapshot()
    section = cluster(addresses="dhcp")
    run(vsphere, state, section)
    error = VCenterUnreachable("vcenter.test", name, "no answer in 60 s")
    vsphere.troubles.append(Trouble(name, error, done=done))
    with pytest.raises(DeploymentFailed, match="1 of 4 workers failed"):
        destroy(Tools(vsphere, parallel=1), section, state.id)
    assert len(vsphere.machines(fake_site(), policies=False)) <= 1
    destroy(Tools(vsphere, parallel=1), section, state.id)
    assert vsphere.snapshot() == before


def test_enough_workers_are_enough(state: DeploymentState) -> None:
    """Above `at_least` a deployment goes on without those that failed, and says which."""
    vsphere = fake_vsphere()
    error = TaskFailed("vcenter.test", "cloning", "NoDiskSpace", "")
    vsphere.troubles.append(Trouble("clone", error, skip=1))
    done, _ = run(vsphere, state, cluster(addresses="dhcp", at_least=3))
    assert len(done.workers) == 3
    assert set(done.errors) == {"bench-002"}


def same_address(machine: Machine) -> Guest:
    """Every guest has the address that the template's lease gave."""
    return Guest(True, "192.0.2.9", (GuestNic(None, True, ("192.0.2.9",), machine.nics[0].mac),))


def link_local(machine: Machine) -> Guest:
    """No DHCP server answered."""
    return Guest(True, None, (GuestNic(None, True, ("169.254.3.4",), machine.nics[0].mac),))


@pytest.mark.parametrize(
    ("boot", "said"),
    [
        (same_address, "192.0.2.9 is also the address of bench-002"),
        (link_local, r"no DHCP answer \(169\.254"),
    ],
)
def test_a_wrong_address_is_an_error_that_says_why(
    state: DeploymentState, boot: Any, said: str
) -> None:
    """Two guests with one address, or none from DHCP, are never called ready."""
    section = cluster(addresses="dhcp", count=2)
    with pytest.raises(DeploymentFailed, match=said):
        run(fake_vsphere(boot=boot), state, section)


def test_a_worker_without_ssh_is_not_ready(state: DeploymentState) -> None:
    """The last word has the function that tries SSH."""

    def refuse(worker: Any) -> None:
        if worker.name == "bench-002":
            raise HcioError("connection refused")

    vsphere = fake_vsphere()
    tools = Tools(vsphere, ready=refuse, parallel=1)
    with pytest.raises(DeploymentFailed, match="connection refused") as caught:
        deploy(tools, cluster(addresses="dhcp"), state)
    assert len(caught.value.ready) == 3


def test_the_folder_is_private_and_pins_every_host_key(state: DeploymentState) -> None:
    """Keys are 0600 in a folder 0700, and known_hosts holds each worker's own key."""
    done, _ = run(fake_vsphere(), state, cluster(addresses="dhcp", ssh_port=2222))
    assert stat.S_IMODE(state.folder.stat().st_mode) == 0o700
    for path in (state.key_file, state.folder / "hosts" / "bench-001", state.known_hosts):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lines = state.known_hosts.read_text().splitlines()
    assert len(lines) == 4
    public = state.host_key("bench-001").public.split()
    assert lines[0] == f"[{done.workers[0].host}]:2222 {public[0]} {public[1]}"
    assert "PRIVATE" not in repr(state.login_key()) + repr(state)
    kept = json.loads((state.folder / "workers.json").read_text())
    assert kept["ssh"]["known_hosts"] == str(state.known_hosts)
    planned = json.loads((state.folder / "plan.json").read_text())
    assert [worker["action"] for worker in planned["workers"]] == ["make"] * 4


def test_a_folder_keeps_its_deployment(state: DeploymentState, tmp_path: Path) -> None:
    """The id survives, another name is refused, and a removed folder is gone."""
    run(fake_vsphere(), state, cluster(addresses="dhcp"))
    assert open_state(state.folder, "bench").id == "id-1"
    with pytest.raises(ConfigError, match="belongs to the deployment 'bench'"):
        open_state(state.folder, "other")
    state.remove()
    assert read_state(tmp_path / "bench") is None
    assert not state.folder.exists()


def test_an_ovf_is_brought_once_and_cloned(state: DeploymentState) -> None:
    """The image is uploaded once, marked, kept, replaced when another is wanted, and removed."""
    vsphere = fake_vsphere()
    before = vsphere.snapshot()
    section = cluster(addresses="dhcp", source={"ovf": "/images/noble.ova"})
    run(vsphere, state, section)
    assert changing(vsphere).count("import_ovf") == 1
    run(vsphere, state, section)
    assert changing(vsphere) == []
    run(vsphere, state, cluster(addresses="dhcp", source={"library": "images", "item": "noble"}))
    assert changing(vsphere).count("deploy_item") == 1
    roles = [m.mark.role for m in vsphere.machines(fake_site(), policies=False) if m.mark]
    assert roles.count("image") == 1
    destroy(Tools(vsphere, parallel=1), section, state.id)
    assert vsphere.snapshot() == before


def test_several_networks_are_told_apart_by_their_cards(state: DeploymentState) -> None:
    """With two cards the guest is told which is which by hardware address."""
    section = cluster(addresses="dhcp", count=1, top_networks=["VM Network", "DC0_DVPG0"])
    vsphere = fake_vsphere()
    done, _ = run(vsphere, state, section)
    assert len(done.workers) == 1
    (machine,) = vsphere.machines(fake_site(), policies=False)
    assert [nic.network for nic in machine.nics] == ["network-1", "portgroup:dvpg-1"]
    assert machine.settings["hcio.seed"]
    assert len(cloudinit.unpacked(cloudinit.packed("x"))) == 1


def test_an_instant_clone_ends_as_what_is_wanted(state: DeploymentState) -> None:
    """It starts as a running copy of its source; it is switched off, fitted and started anew."""
    source = template("running", "vm-3")
    running = Machine(**{**source.__dict__, "template": False, "power": "on"})
    vsphere = FakeVSphere(fake_site(), [running])
    section = cluster(addresses="dhcp", count=1, source={"template": "running", "clone": "instant"})
    done, _ = run(vsphere, state, section)
    assert len(done.workers) == 1
    assert changing(vsphere) == ["clone", "power", "change", "power"]
    run(vsphere, state, section)
    assert changing(vsphere) == []


@pytest.mark.parametrize(
    ("clone", "said"),
    [("linked", "a linked clone needs a snapshot"), ("instant", "needs a running VM")],
)
def test_a_source_that_can_not_be_cloned_so_is_said(
    state: DeploymentState, clone: str, said: str
) -> None:
    """Before anything is made, with what to do instead."""
    section = cluster(source={"template": "ubuntu-24.04", "clone": clone})
    vsphere = fake_vsphere()
    with pytest.raises(ConfigError, match=said):
        run(vsphere, state, section)
    assert changing(vsphere) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"top_networks": ["VM Netwrk"]}, "no network 'VM Netwrk'.*did you mean 'VM Network'"),
        ({"top_datastores": ["LocalDS_9"]}, "no datastore 'LocalDS_9'"),
        ({"top_hosts": ["elsewhere"]}, "no host can take a worker.*elsewhere: not in the cluster"),
    ],
)
def test_what_the_cluster_has_not_is_named(
    state: DeploymentState, changes: dict[str, Any], said: str
) -> None:
    """Names that aren't there, and hosts of which none is left."""
    with pytest.raises(NotFoundInVCenter, match=said):
        run(fake_vsphere(), state, cluster(**changes))


def test_a_pool_that_is_too_small_is_a_problem(state: DeploymentState) -> None:
    """Nothing is made when there are fewer addresses than workers."""
    pool = {"addresses": ["10.0.0.1-10.0.0.2"], "prefix": 24}
    with pytest.raises(ConfigError, match="the pool has 2 addresses for 4 workers"):
        run(fake_vsphere(), state, cluster(addresses=pool))

"""Deploy and destroy with the real client on the simulator, also when its calls fail or hang."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.cluster import Cluster
from orchestrator.errors import DeploymentFailed, HcioError, VSphereError
from orchestrator.vsphere import cloudinit
from orchestrator.vsphere.deploy import Deployment, Patience, Tools, deploy, destroy
from orchestrator.vsphere.state import DeploymentState, open_state
from orchestrator.vsphere.vcenter import VCenter
from tests.vsphere.conftest import GIB, cluster
from tests.vsphere.simulator import Vcsim

pytestmark = pytest.mark.real

PATIENCE = Patience(clone=20, change=20, power=20, guest=20, policy=20)


@pytest.fixture
def client(vcsim: Vcsim) -> Iterator[VCenter]:
    """A logged-in client."""
    opened = VCenter(vcsim.login(), call_timeout=20)
    yield opened
    opened.close()


@pytest.fixture
def state(tmp_path: Path) -> DeploymentState:
    """A deployment's own folder."""
    return open_state(tmp_path / "bench", "bench")


def full_section(count: int = 8) -> Cluster:
    """Everything that a section can ask for at once."""
    return cluster(
        count=count,
        disks={"count": 5, "size": "10GiB"},
        anti_affinity=True,
        pin_hosts=True,
        top_storage_policy="raid1-ftt1",
    )


def run(client: VCenter, state: DeploymentState, section: Cluster, parallel: int = 8) -> Deployment:
    """Deploy."""
    return deploy(Tools(client, parallel=parallel, patience=PATIENCE), section, state)


def test_eight_workers_on_four_hosts_and_back(
    vcsim: Vcsim, client: VCenter, state: DeploymentState
) -> None:
    """Two a host, static loopback addresses, policy on every disk; afterwards all is as before."""
    before = vcsim.inventory()
    section = full_section()
    done = run(client, state, section)
    assert [w.host for w in done.workers] == [f"127.0.7.{n}" for n in range(1, 9)]
    hosts = [w.host_label for w in done.workers]
    assert {host: hosts.count(host) for host in hosts} == {f"DC0_C0_H{n}": 2 for n in range(4)}
    site = client.site("DC0", "DC0_C0", pool=None, folder=None)
    policy = client.policies()["raid1-ftt1"]
    for machine in client.machines(site, policies=True):
        assert {disk.policy for disk in machine.disks} == {policy}
        assert machine.belongs_to(state.id)
        assert (machine.cpus, machine.memory, machine.power) == (2, GIB, "on")
    vcsim.calls()
    again = run(client, state, section)
    assert again.workers == done.workers
    assert not [call for call in vcsim.calls() if call.endswith("_Task")]
    destroy(Tools(client, patience=PATIENCE), section, state.id)
    assert vcsim.inventory() == before


def test_addresses_that_come_late_and_link_local_first(
    vcsim: Vcsim, client: VCenter, state: DeploymentState
) -> None:
    """A guest that first shows a link-local address is waited for until it has a real one."""
    vcsim.ask("boot", {"delay": 0.6, "first": "169.254.7.7"})
    done = run(client, state, cluster(count=2, addresses="dhcp"))
    assert all(worker.host.startswith("127.9.") for worker in done.workers)


def test_a_guest_that_never_starts_is_named(
    vcsim: Vcsim, client: VCenter, state: DeploymentState
) -> None:
    """The error says which one, what is missing and for how long it was waited."""
    vcsim.ask("boot", {"delay": 0.02, "dead": ["bench-002"]})
    tools = Tools(client, patience=Patience(guest=1.0))
    with pytest.raises(DeploymentFailed) as caught:
        deploy(tools, cluster(count=2), state)
    assert set(caught.value.errors) == {"bench-002"}
    assert "tools not running after 1 s" in str(caught.value)


def test_the_guest_gets_its_key_and_address(
    vcsim: Vcsim, client: VCenter, state: DeploymentState
) -> None:
    """What the VM carries in guestinfo is what the folder's keys and the pool say."""
    from pyVmomi import vim

    from orchestrator.vsphere.collector import read

    run(client, state, cluster(count=1))
    site = client.site("DC0", "DC0_C0", pool=None, folder=None)
    (machine,) = client.machines(site, policies=False)
    vm = vim.VirtualMachine(machine.ref, client.session.stub)
    (found,) = read(client.session, "t", [vm], {vim.VirtualMachine: ["config.extraConfig"]})
    extra = {option.key: option.value for option in found.get("config.extraConfig")}
    userdata = cloudinit.unpacked(extra["guestinfo.userdata"])
    assert state.login_key().public in userdata
    assert "127.0.7.1/24" in cloudinit.unpacked(extra["guestinfo.metadata"])
    assert extra["disk.EnableUUID"] == "TRUE"


@pytest.mark.parametrize(("parallel", "losses"), [(1, 99), (8, 1)])
def test_a_session_lost_in_the_middle_is_not_seen(
    vcsim: Vcsim, client: VCenter, state: DeploymentState, parallel: int, losses: int
) -> None:
    """The session ends at every step of one worker, or once under eight threads; nobody sees it."""
    section = full_section(8 if losses == 1 else 3)
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        if len(lines) <= losses:
            vcsim.ask("expire")

    tools = Tools(client, say=say, patience=PATIENCE, parallel=parallel)
    before = vcsim.inventory()
    assert not deploy(tools, section, state).errors
    destroy(tools, section, state.id)
    assert vcsim.inventory() == before
    assert vcsim.ask("logins") >= min(losses, 5) + 1


def test_machines_of_others_are_left_alone(
    vcsim: Vcsim, client: VCenter, state: DeploymentState
) -> None:
    """A VM with one of our names, and a copy of one of our workers, survive deploy and destroy."""
    run(client, state, cluster(count=2))
    vcsim.ask("vm", {"name": "bench-007"})
    vcsim.ask("vm", {"name": "precious", "source": "bench-001", "copy": True})
    destroy(Tools(client, patience=PATIENCE), cluster(count=2), state.id)
    site = client.site("DC0", "DC0_C0", pool=None, folder=None)
    names = client.names(site, site.folder)
    assert {"bench-007", "precious"} <= set(names)
    assert not {"bench-001", "bench-002"} & set(names)


def test_calls_grow_with_the_workers_alone(vcsim: Vcsim, client: VCenter, tmp_path: Path) -> None:
    """Each worker costs the same calls, whatever their number; looking again costs hardly any."""
    made: dict[int, int] = {}
    for count in (2, 12):
        state = open_state(tmp_path / str(count), "bench")
        section = cluster(count=count, top_storage_policy="raid1-ftt1")
        vcsim.calls()
        run(client, state, section)
        made[count] = len(vcsim.calls())
        run(client, state, section)
        assert len(vcsim.calls()) <= 30
        destroy(Tools(client, patience=PATIENCE), section, state.id)
    # 23 to 24 in quiet, of which one WaitForUpdatesEx a task; a slow machine waits once more each.
    assert (made[12] - made[2]) / 10 <= 28


@pytest.mark.parametrize("clone", ["linked", "full"])
def test_a_vm_with_a_snapshot_is_cloned_either_way(
    client: VCenter, state: DeploymentState, clone: str
) -> None:
    """A linked clone names the snapshot that it was made of."""
    section = cluster(count=1, source={"template": "golden", "clone": clone})
    assert len(run(client, state, section).workers) == 1
    site = client.site("DC0", "DC0_C0", pool=None, folder=None)
    (machine,) = client.machines(site, policies=False)
    assert machine.settings["hcio.image"].startswith(f"template:golden:{clone}:")


class Sweep:
    """Every call of a step made to go wrong once, one after the other."""

    def __init__(self, vcsim: Vcsim, folder: Path, timeout: float) -> None:
        self.vcsim = vcsim
        self.folder = folder
        self.timeout = timeout
        self.section = cluster(count=1, pin_hosts=True, top_storage_policy="raid1-ftt1")
        self.before = vcsim.inventory()
        self.failed = 0

    def client(self, timeout: float = 20) -> VCenter:
        """A new client: what a user's next attempt is."""
        return VCenter(self.vcsim.login(), call_timeout=timeout)

    def attempt(self, step: Callable[[VCenter], object], rule: dict[str, object] | None) -> None:
        """Do the step; with a rule it may fail, but only with an error of ours that has a place."""
        error = self.error_of(step, rule)
        if error is None:
            return
        assert rule is not None, error
        assert "127.0.0.1" in str(error), error
        inner = error.errors.values() if isinstance(error, DeploymentFailed) else [error]
        assert all(isinstance(one, VSphereError) for one in inner), error
        self.failed += 1

    def error_of(
        self, step: Callable[[VCenter], object], rule: dict[str, object] | None
    ) -> HcioError | None:
        """What the step ended with."""
        client = self.client(self.timeout if rule else 20)
        self.vcsim.rules(*([rule] if rule else []))
        try:
            step(client)
        except HcioError as error:
            return error
        finally:
            self.vcsim.rules()
            client.close()
        return None

    def deploy(self, state: DeploymentState) -> Callable[[VCenter], object]:
        """The step of deploying."""
        return lambda client: run(client, state, self.section, parallel=1)

    def destroy(self, state: DeploymentState) -> Callable[[VCenter], object]:
        """The step of destroying."""
        return lambda client: destroy(
            Tools(client, parallel=1, patience=PATIENCE), self.section, state.id
        )

    def calls(self, step: Callable[[VCenter], object]) -> int:
        """How many calls a step makes when all is well."""
        self.vcsim.calls()
        self.attempt(step, None)
        return len([call for call in self.vcsim.calls() if call not in ("Login", "Logout")])

    def over(self, kind: str, which: str) -> None:
        """Sweep over every call of deploy, or of destroy."""
        state = open_state(self.folder / "first", "bench")
        counts = {
            "deploy": self.calls(self.deploy(state)),
            "destroy": self.calls(self.destroy(state)),
        }
        assert self.vcsim.inventory() == self.before
        for skip in range(counts[which]):
            state = open_state(self.folder / f"{kind}-{skip}", "bench")
            rule = {"method": "*", "skip": skip, "count": 1, "kind": kind, "fault": "SystemError"}
            if which == "deploy":
                self.attempt(self.deploy(state), rule)
                self.attempt(self.deploy(state), None)
                self.attempt(self.destroy(state), None)
            else:
                self.attempt(self.deploy(state), None)
                self.attempt(self.destroy(state), rule)
                self.attempt(self.destroy(state), None)
            assert self.vcsim.inventory() == self.before, (kind, skip)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("which", ["deploy", "destroy"])
@pytest.mark.parametrize("kind", ["fault", "task", "hang", "lost"])
def test_any_call_may_go_wrong_once(vcsim: Vcsim, tmp_path: Path, which: str, kind: str) -> None:
    """Each call fails, its task fails, it hangs, or its answer is lost: a clear error, no orphan,
    nothing of others touched, and the next attempt succeeds."""
    sweep = Sweep(vcsim, tmp_path, timeout=0.5)
    sweep.over(kind, which)
    assert sweep.failed > 0

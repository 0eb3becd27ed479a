"""`hcio check` and `hcio size` on the simulator, with a real sshd as the probes' own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.main import run_cli
from orchestrator.errors import EXIT_GOOD, EXIT_NO, EXIT_UNKNOWN, EXIT_USAGE
from orchestrator.vsphere.state import open_state
from tests.sshd import Sshd
from tests.vsphere.simulator import Vcsim

pytestmark = pytest.mark.real

INVENTORY = """\
vsphere:
  deployment: bench
  vcenter:
    host: 127.0.0.1
    port: {port}
    user: {user}
    password: env:VC_PASSWORD
    thumbprint: "{thumbprint}"
  datacenter: DC0
  cluster: DC0_C0
  networks: [{network}]
  datastores: [LocalDS_0]
  workers:
    source: {{template: ubuntu-24.04}}
    count: {count}
    cpus: 1
    memory: 512MiB
    disks: {{count: 2, size: 10GiB}}
    addresses: {{addresses: [127.0.9.1-127.0.9.9], prefix: 24}}
    ssh_user: {ssh_user}
    ssh_port: {ssh_port}
"""


@pytest.fixture
def vcsim() -> Iterator[Vcsim]:
    """Four hosts, OSA."""
    started = Vcsim.start("-vsan=osa")
    yield started
    started.stop()


@pytest.fixture
def guest() -> Iterator[Sshd]:
    """The SSH server of every probe; it listens on another port than the pool is tried at."""
    with Sshd() as server:
        yield server


@pytest.fixture
def hcio(
    vcsim: Vcsim,
    guest: Sshd,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str, str]]:
    """Run hcio with an inventory in a folder of its own: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VC_PASSWORD", vcsim.password)

    def run(*words: str, **other: Any) -> tuple[int, str, str]:
        values: dict[str, Any] = {
            "port": vcsim.port,
            "user": vcsim.user,
            "thumbprint": vcsim.thumbprint,
            "network": "VM Network",
            "count": 4,
            "ssh_user": guest.user,
            "ssh_port": guest.port,
        }
        (tmp_path / "inventory.yaml").write_text(INVENTORY.format(**(values | other)))
        code = run_cli([*words, "-i", "inventory.yaml"])
        done = capsys.readouterr()
        return code, done.out, done.err

    return run


def _checks(out: str) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in json.loads(out)["checks"]}


def test_check_says_all_that_is_wrong_at_once(hcio: Any, vcsim: Vcsim) -> None:
    """A wrong network, a resync and a host's clock: three reds, exit code 1, nothing changed."""
    before = vcsim.inventory()
    vcsim.ask("vsan", {"groups": 1, "cache": 2**40, "health": "green", "bytes": 5, "objects": 1})
    vcsim.ask("clock", {"name": "DC0_C0_H1", "ahead": 100.0})
    code, out, err = hcio("check", "--json", network="nope")
    checks = _checks(out)
    reds = {name for name, check in checks.items() if check["result"] == "red" and check["ran"]}
    assert {"networks", "vSAN resync", "host clocks"} <= reds
    assert checks["login"]["result"] == "green"
    assert code == EXIT_NO
    assert "checking storage policy" in err
    assert vcsim.password not in out + err
    assert vcsim.inventory() == before


def test_check_with_a_wrong_password_could_not_tell(
    hcio: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything behind the login is red for want of it; nothing that ran said no."""
    monkeypatch.setenv("VC_PASSWORD", "not this one")
    code, out, _ = hcio("check", "--json")
    checks = _checks(out)
    assert "user or password refused" in checks["login"]["evidence"]
    assert checks["capacity"]["ran"] is False
    assert code == EXIT_UNKNOWN


def test_deep_check_reaches_a_probe_on_every_host_and_leaves_nothing(
    hcio: Any, vcsim: Vcsim, guest: Sshd, tmp_path: Path
) -> None:
    """Real SSH with pinned host keys to a probe on each of four hosts; the inventory as before."""
    before = vcsim.inventory()
    place = tmp_path / "deployments" / "bench-probe"
    state = open_state(place, "bench-probe")
    (place / "hosts").mkdir(mode=0o700)
    for number in range(1, 5):
        for end in ("", ".pub"):
            name = f"bench-probe-{number:03d}{end}"
            shutil.copy(guest.folder / f"host_key{end}", place / "hosts" / name)
    guest.allow(state.login_key().public)
    _, out, _ = hcio("check", "--deep", "--json")
    deep = _checks(out)["deep: every host"]
    assert deep["evidence"] == "4 probes, one a host, were reached by SSH and removed"
    assert vcsim.inventory() == before
    assert not place.exists()


def test_size_asks_vcenter_and_says_where_each_figure_came_from(hcio: Any) -> None:
    """Detected inputs are vCenter's; one that the user gives wins, and both are shown."""
    code, out, err = hcio("size", "--json", "--set", "disk_groups=6")
    assert code == EXIT_GOOD, err
    document = json.loads(out)
    assert document["inputs"]["disk_groups"] == {"value": 6, "source": "given", "overridden": 8}
    assert document["inputs"]["cache_gib"]["source"] == "vcenter"
    assert document["result"]["workers"] == 12


def test_size_of_static_workers_asks_for_the_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a vsphere section there is no vCenter to ask, and the message says what to do."""
    path = tmp_path / "inventory.yaml"
    worker = {"name": "w1", "targets": [{"file": "/x/y", "size": "1g"}]}
    path.write_text(json.dumps({"workers": [worker]}))
    assert run_cli(["size", "-i", str(path)]) == EXIT_USAGE
    assert "--set NAME=VALUE" in capsys.readouterr().err

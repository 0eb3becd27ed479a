"""`hcio workers` on the simulator, with a real sshd as the guests' own."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.catalog import load_inventory
from orchestrator.cli.main import run_cli
from orchestrator.cli.workers import with_workers
from orchestrator.errors import EXIT_BROKEN, EXIT_GOOD, EXIT_USAGE, ConfigError
from orchestrator.vsphere.state import open_state
from tests.sshd import Sshd
from tests.vsphere.simulator import Vcsim

pytestmark = pytest.mark.real

Run = Callable[..., tuple[int, str, str]]

INVENTORY = """\
vsphere:
  deployment: bench
  vcenter:
    host: 127.0.0.1
    port: {port}
    user: {user}
    password: env:VC_PASSWORD
    {trust}
  datacenter: DC0
  cluster: DC0_C0
  networks: [VM Network]
  datastores: [LocalDS_0]
  workers:
    source: {{template: ubuntu-24.04}}
    count: 1
    cpus: 2
    memory: 1GiB
    disks: {{count: 2, size: 10GiB}}
    addresses: {{addresses: [127.0.8.1-127.0.8.9], prefix: 24}}
    ssh_user: {ssh_user}
    ssh_port: {ssh_port}
    fio: image
"""


@pytest.fixture(scope="module")
def vcsim() -> Iterator[Vcsim]:
    """One simulator for all of this file: every test destroys what it deploys."""
    started = Vcsim.start()
    yield started
    started.stop()


@pytest.fixture
def guest() -> Iterator[Sshd]:
    """The SSH server of every guest, where sudo asks nothing, as cloud-init sets it up."""
    tools = Path(tempfile.mkdtemp(prefix="hcio-tools-"))
    tools.chmod(0o755)
    sudo = tools / "sudo"
    sudo.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nexec "$@"\n')
    sudo.chmod(0o755)
    with Sshd(f"SetEnv PATH={tools}:/usr/local/bin:/usr/bin:/bin") as server:
        yield server
    shutil.rmtree(tools)


@pytest.fixture
def hcio(
    vcsim: Vcsim,
    guest: Sshd,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Run `hcio workers ...` in a folder with an inventory: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VC_PASSWORD", vcsim.password)

    def run(*words: str, trust: str = f"thumbprint: {vcsim.thumbprint}") -> tuple[int, str, str]:
        text = INVENTORY.format(
            port=vcsim.port,
            user=vcsim.user,
            trust=trust,
            ssh_user=guest.user,
            ssh_port=guest.port,
        )
        (tmp_path / "inventory.yaml").write_text(text)
        code = run_cli(["workers", *words, "-i", "inventory.yaml"])
        done = capsys.readouterr()
        return code, done.out, done.err

    return run


def boot_with(guest: Sshd, folder: Path) -> None:
    """The guest's server has the host key and the authorized key that cloud-init would set."""
    state = open_state(folder, "bench")
    (folder / "hosts").mkdir(mode=0o700, exist_ok=True)
    for end in ("", ".pub"):
        shutil.copy(guest.folder / f"host_key{end}", folder / "hosts" / f"bench-001{end}")
    guest.allow(state.login_key().public)


def test_deploy_list_destroy(hcio: Run, vcsim: Vcsim, guest: Sshd, tmp_path: Path) -> None:
    """From an inventory to a worker that answers with its pinned key, and back to nothing."""
    before = vcsim.inventory()
    folder = tmp_path / "deployments" / "bench"
    boot_with(guest, folder)
    code, out, err = hcio("deploy", "--json")
    assert code == EXIT_GOOD, err
    document = json.loads(out)
    assert [worker["host"] for worker in document["workers"]] == ["127.0.8.1"]
    assert "bench-001: ready at 127.0.8.1" in err
    assert vcsim.password not in out + err
    assert all(vcsim.password not in path.read_text() for path in folder.rglob("*.*"))
    (deployed,) = with_workers(load_inventory(tmp_path / "inventory.yaml")).workers
    assert (deployed.host, deployed.key) == ("127.0.8.1", str(folder / "id_ed25519"))
    assert [target.label for target in deployed.targets] == ["disk0", "disk1"]
    code, out, _ = hcio("list", "--json")
    (row,) = json.loads(out)
    assert (row["name"], row["ours"], row["power"]) == ("bench-001", True, "on")
    code, out, _ = hcio("destroy", "--dry-run")
    assert out == "bench-001  would be removed\n"
    code, out, err = hcio("destroy")
    assert (code, out) == (EXIT_GOOD, "bench-001  removed\n"), err
    assert vcsim.inventory() == before
    assert not folder.exists()
    with pytest.raises(ConfigError, match="no workers are deployed for 'bench'"):
        with_workers(load_inventory(tmp_path / "inventory.yaml"))


def test_another_host_key_is_not_a_worker(
    hcio: Run, vcsim: Vcsim, guest: Sshd, tmp_path: Path
) -> None:
    """Whoever answers at a worker's address without its key is refused: the lab is broken."""
    before = vcsim.inventory()
    guest.allow(open_state(tmp_path / "deployments" / "bench", "bench").login_key().public)
    code, _, err = hcio("deploy")
    assert code == EXIT_BROKEN
    assert "bench-001" in err
    assert "host key" in err
    assert hcio("destroy")[0] == EXIT_GOOD
    assert vcsim.inventory() == before


def test_a_dry_run_makes_no_folder(hcio: Run, vcsim: Vcsim, tmp_path: Path) -> None:
    """The plan goes to stdout; neither vCenter nor this machine is written."""
    before = vcsim.inventory()
    code, out, _ = hcio("deploy", "--dry-run")
    assert code == EXIT_GOOD
    assert out == "bench-001  make    DC0_C0_H0  LocalDS_0  127.0.8.1\n"
    assert not (tmp_path / "deployments").exists()
    assert vcsim.inventory() == before


def test_an_unchecked_certificate_is_said_out_loud(hcio: Run) -> None:
    """Case 42: insecure: true is a warning at every use; by default the three ways are named."""
    assert "is not checked" in hcio("list", trust="insecure: true")[2]
    code, _, err = hcio("list", trust="")
    assert code == EXIT_BROKEN
    for way in ("ca_file", "thumbprint", "insecure: true"):
        assert way in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("destroy",), "holds no deployment"),
        (("destroy", "--id", "nobody"), None),
    ],
)
def test_nothing_to_destroy(hcio: Run, words: tuple[str, ...], said: str | None) -> None:
    """Without a folder or an id it isn't known what is ours; an unknown id has nothing."""
    code, out, err = hcio(*words)
    if said is None:
        assert (code, out) == (EXIT_GOOD, "nothing removed\n")
    else:
        assert code == EXIT_USAGE
        assert said in err


def test_static_workers_need_no_vsphere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An inventory without a vsphere section is told so, as usage."""
    path = tmp_path / "inventory.yaml"
    worker: dict[str, Any] = {"name": "w1", "targets": [{"file": "/x/y", "size": "1g"}]}
    path.write_text(json.dumps({"workers": [worker]}))
    assert run_cli(["workers", "list", "-i", str(path)]) == EXIT_USAGE
    assert "no vsphere section" in capsys.readouterr().err

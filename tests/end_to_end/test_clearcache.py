"""Clearing vSAN's cache over real SSH, on servers that play ESXi with their settings as files."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.clearcache import (
    clear_osa,
    restore_hosts,
    unrestored_settings,
)
from orchestrator.lsom import DRAIN_SETTINGS
from orchestrator.osacache import CACHE_RESTORED, CACHE_SAVED, Opener, Pace
from orchestrator.store import RunFolder, RunStore
from orchestrator.transport.base import Transport
from orchestrator.transport.ssh import SshSettings, open_ssh
from tests.sshd import Sshd, worker_user

pytestmark = pytest.mark.real

VSISH = Path(__file__).parents[1] / "data" / "esxi" / "vsish"
OPTIONS = "config/LSOM/intOpts"
BEFORE = {"plogRunElevator": 0, "plogElevSleepTime": 10, "dedupElevThrottle": 5}
MIB = 2**20


class Esxi:
    """An sshd whose logins find our `vsish` first."""

    def __init__(self, folder: Path, server: Sshd) -> None:
        self.tree = folder / "tree"
        self.server = server

    def options(self) -> dict[str, int]:
        return {
            path.name: int(path.read_text()) for path in sorted((self.tree / OPTIONS).iterdir())
        }

    def open(self) -> Transport:
        settings = SshSettings(
            host="127.0.0.1",
            port=self.server.port,
            user=self.server.user,
            key=self.server.key,
            known_hosts=self.server.known_hosts,
            agent=False,
        )
        return open_ssh("esx1", settings)


def _furnish(folder: Path) -> None:
    shutil.copy(VSISH, folder / "vsish")
    leaves: dict[str, Any] = {f"{OPTIONS}/{name}": value for name, value in BEFORE.items()}
    leaves |= {
        "vmkModules/plog/plogLogThreshold": 16384,
        "drain": 500 * MIB,
        "vmkModules/plog/devices/t10.cache/info": "isSSD:1",
        "vmkModules/plog/devices/t10.cache/elevStats": f"plogDataUsage:{900 * MIB}",
        "vmkModules/lsom/disks/naa.1/components/c1/dropRcCache": 0,
    }
    for name, value in leaves.items():
        path = folder / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")


def _give(folder: Path, user: str) -> None:
    if os.geteuid() == 0:
        entry = pwd.getpwnam(user)
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, entry.pw_uid, entry.pw_gid)


@pytest.fixture
def esxi(make_server: Callable[..., Sshd]) -> Iterator[Esxi]:
    """One host."""
    folder = Path(tempfile.mkdtemp(prefix="hcio-esxi-"))
    folder.chmod(0o755)
    _furnish(folder)
    server = make_server(f"SetEnv PATH={folder}:/usr/bin:/bin")
    _give(folder, worker_user())
    yield Esxi(folder, server)
    shutil.rmtree(folder)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run folder whose journal keeps the saved settings."""
    return RunStore(tmp_path / "runs").create("run-1", plan="{}")


def _pace(**more: Any) -> Pace:
    return Pace(**({"interval": 0.05, "grace": 0.05, "pause": 0.05} | more))


def _clear(esxi: Esxi, run: RunFolder, **more: Any) -> Any:
    hosts: dict[str, Opener] = {"esx1": esxi.open}
    return clear_osa(hosts, run, pace=_pace(**more))


def test_the_cache_is_cleared_and_the_settings_are_back(esxi: Esxi, run: RunFolder) -> None:
    """Over real SSH: saved in the journal, drained, restored, read back."""
    cleared = _clear(esxi, run)
    assert cleared.done is True, cleared.why
    assert esxi.options() == BEFORE
    assert [event.name for event in run.events()] == [CACHE_SAVED, CACHE_RESTORED]


def test_a_session_cut_while_draining_is_made_again(esxi: Esxi, run: RunFolder) -> None:
    """Every open session dies in the middle; the drain goes on and the settings come back."""
    cuts = [1]

    def cut(text: str) -> None:
        if cuts:
            cuts.pop()
            assert esxi.server.kill_sessions() > 0

    cleared = clear_osa({"esx1": esxi.open}, run, pace=_pace(), progress=cut)
    assert not cuts
    assert cleared.done is True, cleared.why
    assert esxi.options() == BEFORE


CONTROLLER = """
import sys
from pathlib import Path
from orchestrator.clearcache import Pace, clear_osa
from orchestrator.lsom import DRAIN_SETTINGS
from orchestrator.store import RunFolder
from orchestrator.transport.ssh import SshSettings, open_ssh

folder, port, user, key, known = sys.argv[1:]
settings = SshSettings(
    host="127.0.0.1", port=int(port), user=user, key=Path(key), known_hosts=Path(known), agent=False
)
clear_osa({"esx1": lambda: open_ssh("esx1", settings)}, RunFolder(Path(folder)),
          pace=Pace(interval=0.05))
"""


def test_a_controller_killed_while_draining_is_made_good_from_the_journal(
    esxi: Esxi, run: RunFolder
) -> None:
    """kill -9 in the middle of a drain: the next process restores from the run folder."""
    (esxi.tree / "drain").write_text("0\n")
    server = esxi.server
    where = [run.path, server.port, server.user, server.key, server.known_hosts]
    controller = subprocess.Popen([sys.executable, "-c", CONTROLLER, *map(str, where)])
    try:
        for _ in range(600):
            if esxi.options() == DRAIN_SETTINGS:
                break
            time.sleep(0.05)
    finally:
        controller.kill()
        controller.wait()
    assert esxi.options() == DRAIN_SETTINGS

    pending = unrestored_settings(run.events())
    restored = restore_hosts(pending, {"esx1": esxi.open}, run, pace=_pace())
    assert restored.done is True, restored.why
    assert esxi.options() == BEFORE
    assert unrestored_settings(run.events()) == {}

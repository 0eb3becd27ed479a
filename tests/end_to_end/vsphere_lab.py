"""A vSphere cluster on this machine: vcsim, one sshd as all guests, one as all ESXi hosts.

Guests are told apart by the address that they are reached at, and so are hosts. A guest finds
its data disk as a loop device: its `lsblk` shows the serial number that vCenter gave the disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from orchestrator.vsphere.state import DeploymentState, open_state
from tests.cluster import Done
from tests.end_to_end.test_loop_devices import loop_refusal
from tests.sshd import Sshd, worker_user
from tests.vsphere.simulator import Vcsim

VSISH = Path(__file__).parents[1] / "data" / "esxi" / "vsish"
OPTIONS = "config/LSOM/intOpts"
#: The hosts' settings as an administrator left them.
SETTINGS = {"plogRunElevator": 0, "plogElevSleepTime": 10, "dedupElevThrottle": 5}
MIB = 2**20
DISK = 8 * MIB

SUDO = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
case "$*" in *drop_caches*) exit 0 ;; esac
exec "$@"
"""

#: `disks` holds lines `ADDRESS DEVICE SERIAL`; it appears when the workers are known.
LSBLK = r"""#!/bin/sh
tries=0
while [ ! -e {disks} ] && [ $tries -lt 200 ]; do sleep 0.1; tries=$((tries + 1)); done
address=$(echo "$SSH_CONNECTION" | cut -d' ' -f3)
/usr/bin/lsblk "$@" | awk -v address="$address" '
  FNR == NR {{ if ($1 == address) serial[$2] = $3; next }}
  /"path":/ {{ path = $0; sub(/.*"path": *"/, "", path); sub(/".*/, "", path) }}
  /"serial":/ && (path in serial) {{ sub(/"serial": *[^,]*/, "\"serial\": \"" serial[path] "\"") }}
  {{ print }}' {disks} -
"""

#: Every guest has a /var/tmp of its own, as a machine has.
GUEST = """#!/bin/sh
address=$(echo "$SSH_CONNECTION" | cut -d' ' -f3)
export OWN={guests}/$address
mkdir -p "$OWN"
exec unshare --map-root-user --mount sh -c \\
  'mount --bind "$OWN" /var/tmp && exec sh -c "${{SSH_ORIGINAL_COMMAND:-sh}}"'
"""

VSISH_OF_HOST = """#!/bin/sh
set -- "$@"
address=$(echo "$SSH_CONNECTION" | cut -d' ' -f3)
VSISH_TREE={trees}/$address exec sh {vsish} "$@"
"""


@dataclass
class Lab:
    """Everything, and hcio's command line in a folder with an inventory."""

    vcsim: Vcsim
    guests: Sshd
    esxi: Sshd
    folder: Path
    tools: Path
    workers: int
    state: DeploymentState
    loops: list[str] = field(default_factory=list)

    @property
    def hosts(self) -> list[str]:
        """Addresses of the ESXi hosts."""
        return [f"127.0.6.{n}" for n in range(1, 5)]

    def settings(self) -> dict[str, dict[str, int]]:
        """Each host's settings now."""
        return {
            host: {
                name: int((self.tools / "trees" / host / OPTIONS / name).read_text())
                for name in SETTINGS
            }
            for host in self.hosts
        }

    def set_leaf(self, host: str, name: str, value: object) -> None:
        """Change what a host's vsish shows."""
        (self.tools / "trees" / host / name).write_text(f"{value}\n")

    def cleared(self) -> int:
        """How often the elevators were switched on, over all hosts."""
        logs = (self.tools / "trees" / host / "log" for host in self.hosts)
        lines = [line for log in logs if log.exists() for line in log.read_text().splitlines()]
        return sum(line.endswith("plogRunElevator 1") for line in lines)

    def write_inventory(self, **changes: Any) -> None:
        """The inventory; `changes` replace fields of the vsphere section."""
        document = {
            "vsphere": {
                "deployment": "bench",
                "vcenter": {
                    "host": "127.0.0.1",
                    "port": self.vcsim.port,
                    "user": self.vcsim.user,
                    "password": "env:VC_PASSWORD",
                    "thumbprint": self.vcsim.thumbprint,
                },
                "datacenter": "DC0",
                "cluster": "DC0_C0",
                "networks": ["VM Network"],
                "datastores": ["LocalDS_0"],
                "storage_policy": "raid1-ftt1",
                "workers": {
                    "source": {"template": "ubuntu-24.04"},
                    "count": self.workers,
                    "cpus": 2,
                    "memory": "1GiB",
                    "disks": {"count": 1, "size": DISK},
                    "addresses": {
                        "addresses": [f"127.0.7.1-127.0.7.{self.workers}"],
                        "prefix": 24,
                    },
                    "ssh_user": self.guests.user,
                    "ssh_port": self.guests.port,
                    "fio": "image",
                },
            }
            | changes,
            "clear_cache": {
                "hosts": self.hosts,
                "user": self.esxi.user,
                "port": self.esxi.port,
                "key": str(self.esxi.key),
                "known_hosts": str(self.esxi.known_hosts),
                "every": "100ms",
                "grace": "100ms",
            },
        }
        (self.folder / "inventory.yaml").write_text(yaml.safe_dump(document))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start hcio and leave it running."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "LC_ALL": "C.UTF-8",
            "VC_PASSWORD": self.vcsim.password,
        }
        return subprocess.Popen(
            [sys.executable, "-m", "orchestrator", *words],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def hcio(self, *words: str, timeout: float = 240) -> Done:
        """Run hcio to its end."""
        process = self.start(*words)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"hcio {words} did not end:\n{out}\n{err}") from None
        return Done(process.returncode, out, err)

    def journal(self) -> list[dict[str, Any]]:
        """The latest run's events."""
        path = self.folder / "runs" / "latest" / "state.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def await_event(self, name: str, case: str, seconds: float = 90) -> dict[str, Any]:
        """The first event of that name about a case, once the journal has it."""
        for _ in range(int(seconds * 20)):
            with contextlib.suppress(ValueError):  # a line half written
                events = [event for event in self.journal() if event["event"] == name]
                found = [event for event in events if event["case"] == case]
                if found:
                    return found[0]
            time.sleep(0.05)
        raise AssertionError(f"no {name} after {seconds} s: {self.journal()}")

    def await_settings(self, wanted: dict[str, int], seconds: float = 90) -> None:
        """Wait until every host has these settings."""
        for _ in range(int(seconds * 20)):
            with contextlib.suppress(ValueError):  # a file half written
                if all(found == wanted for found in self.settings().values()):
                    return
            time.sleep(0.05)
        raise AssertionError(f"not {wanted} after {seconds} s: {self.settings()}")


def _give(path: Path, user: str) -> None:
    if os.geteuid() == 0:
        entry = pwd.getpwnam(user)
        for item in [path, *path.rglob("*")]:
            os.chown(item, entry.pw_uid, entry.pw_gid)


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _furnish(tools: Path, hosts: list[str]) -> None:
    _program(tools / "sudo", SUDO)
    _program(tools / "lsblk", LSBLK.format(disks=tools / "disks"))
    _program(tools / "guest", GUEST.format(guests=tools / "guests"))
    (tools / "guests").mkdir()
    (tools / "esxi").mkdir()
    shutil.copy(VSISH, tools / "vsish-tree")
    wrapped = VSISH_OF_HOST.format(trees=tools / "trees", vsish=tools / "vsish-tree")
    _program(tools / "esxi" / "vsish", wrapped)
    leaves: dict[str, Any] = {f"{OPTIONS}/{name}": value for name, value in SETTINGS.items()}
    leaves |= {
        "vmkModules/plog/plogLogThreshold": 16384,
        "drain": 500 * MIB,
        "vmkModules/plog/devices/t10.cache/info": "isSSD:1",
        "vmkModules/plog/devices/t10.cache/elevStats": f"plogDataUsage:{900 * MIB}",
        "vmkModules/lsom/disks/naa.1/components/c1/dropRcCache": 0,
    }
    for host in hosts:
        for name, value in leaves.items():
            path = tools / "trees" / host / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{value}\n")


def _loop_devices(folder: Path, count: int, user: str) -> list[str]:
    devices = []
    for number in range(count):
        image = folder / f"disk{number}.img"
        image.write_bytes(bytes(DISK))
        command = ["losetup", "--find", "--show", str(image)]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        devices.append(found.stdout.strip())
        os.chown(devices[-1], pwd.getpwnam(user).pw_uid, -1)
    return devices


class _Plugger(threading.Thread):
    """Plays the hypervisor: as soon as workers are known, gives each its loop device."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(daemon=True)
        self._lab = lab
        self._done = threading.Event()

    def run(self) -> None:
        path = self._lab.folder / "deployments" / "bench" / "workers.json"
        while not self._done.wait(0.05):
            with contextlib.suppress(OSError, ValueError):
                workers = json.loads(path.read_text())["workers"]
                lines = [
                    f"{worker['host']} {device} {worker['targets'][0]['serial']}\n"
                    for worker, device in zip(workers, self._lab.loops, strict=False)
                ]
                new = self._lab.tools / ".disks.new"
                new.write_text("".join(lines))
                new.chmod(0o644)
                new.replace(self._lab.tools / "disks")

    def stop(self) -> None:
        self._done.set()
        self.join()


def lab_refusal() -> str | None:
    """Why this machine can't play a cluster; None when it can."""
    if (why := loop_refusal()) is not None:
        return why
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return None if done.returncode == 0 else f"unshare: {done.stderr.decode().strip()}"


@contextlib.contextmanager
def vsphere_lab(folder: Path, workers: int, *flags: str) -> Iterator[Lab]:
    """A lab with an OSA cluster of four hosts, unless the flags say otherwise."""
    with contextlib.ExitStack() as stack:
        tools = Path(tempfile.mkdtemp(prefix="hcio-tools-"))
        stack.callback(shutil.rmtree, tools)
        tools.chmod(0o755)
        vcsim = Vcsim.start(*(flags or ("-vsan=osa",)))
        stack.callback(vcsim.stop)
        path = f"{tools}:/usr/local/bin:/usr/bin:/bin"
        guests = stack.enter_context(Sshd(f"SetEnv PATH={path}", f"ForceCommand {tools}/guest"))
        esxi = stack.enter_context(Sshd(f"SetEnv PATH={tools}/esxi:/usr/bin:/bin"))
        state = open_state(folder / "deployments" / "bench", "bench")
        lab = Lab(vcsim, guests, esxi, folder, tools, workers, state)
        _furnish(tools, lab.hosts)
        _give(tools / "trees", worker_user())
        _give(tools / "guests", worker_user())
        guests.allow(state.login_key().public)
        (state.folder / "hosts").mkdir(mode=0o700, exist_ok=True)
        for number in range(1, workers + 1):
            for end in ("", ".pub"):
                key = guests.folder / f"host_key{end}"
                shutil.copy(key, state.folder / "hosts" / f"bench-{number:03d}{end}")
        lab.loops = _loop_devices(folder, workers, guests.user)
        stack.callback(_detach, lab.loops)
        plugger = _Plugger(lab)
        plugger.start()
        stack.callback(plugger.stop)
        lab.write_inventory()
        yield lab


def _detach(devices: list[str]) -> None:
    for device in devices:
        os.chown(device, 0, -1)
        with contextlib.suppress(subprocess.CalledProcessError):
            subprocess.run(["losetup", "--detach", device], check=True)

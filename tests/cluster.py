"""A cluster on this machine for end-to-end tests: one sshd, many loopback addresses, real fio.

The command line runs as a process of its own, as a user would run it.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.sshd import Sshd


@dataclass
class Done:
    """What a command of hcio did."""

    status: int
    out: str
    err: str


@dataclass
class Cluster:
    """Workers `w1`, `w2`, ... below one sshd, each with a work folder and one file target."""

    sshd: Sshd
    folder: Path
    workers: int
    size: str = "8MiB"
    extra: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = [f"w{n}" for n in range(1, self.workers + 1)]
        for name in self.names:
            self.own(self.sshd.work / name)
        self.inventory = self.folder / "inventory.yaml"
        self.write_inventory()

    def own(self, path: Path) -> Path:
        """Make a folder that belongs to the worker's user."""
        path.mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0:
            entry = pwd.getpwnam(self.sshd.user)
            os.chown(path, entry.pw_uid, entry.pw_gid)
        return path

    def write_inventory(self, **changes: Mapping[str, object]) -> None:
        """Write the inventory; `changes` replace values of single workers."""
        document = {
            "ssh": {
                "known_hosts": str(self.sshd.known_hosts),
                "config": None,
                "agent": False,
                "connect_timeout": 5,
            },
            "defaults": {"user": self.sshd.user, "port": self.sshd.port, "key": str(self.sshd.key)},
            "workers": [self._worker(n) | dict(changes.get(f"w{n}", {})) for n in self._numbers()],
        }
        self.inventory.write_text(yaml.safe_dump(document))

    def behind(self, server: Sshd, name: str) -> dict[str, object]:
        """What a worker's entry must say to stand behind another server: its port, key, folder."""
        base = self.own(server.work / name)
        known = self.sshd.known_hosts.read_text()
        if server.known_hosts_line not in known:
            self.sshd.known_hosts.write_text(known + server.known_hosts_line)
        return {
            "port": server.port,
            "key": str(server.key),
            "work_dir": str(base / "hcio"),
            "targets": [{"file": str(base / "disk0"), "size": self.size}],
        }

    def _numbers(self) -> Sequence[int]:
        return range(1, self.workers + 1)

    def _worker(self, number: int) -> dict[str, object]:
        base = self.sshd.work / f"w{number}"
        return {
            "name": f"w{number}",
            "host": f"127.0.1.{number}",
            "work_dir": str(base / "hcio"),
            "targets": [{"file": str(base / "disk0"), "size": self.size}],
            **self.extra,
        }

    @property
    def environment(self) -> dict[str, str]:
        """A clean environment: nothing of the developer's own shell decides a test."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "HCIO_RUNS": str(self.folder / "runs"),
            "LC_ALL": "C.UTF-8",
        }

    def start(
        self, *arguments: str, program: Sequence[str] = ("-m", "orchestrator")
    ) -> subprocess.Popen[str]:
        """Start hcio and leave it running."""
        return subprocess.Popen(
            [sys.executable, *program, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def hcio(self, *arguments: str, timeout: float = 240) -> Done:
        """Run hcio to its end."""
        process = self.start(*arguments)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"hcio {arguments} did not end:\n{out}\n{err}") from None
        return Done(process.returncode, out, err)

    def run_folder(self) -> Path:
        """The folder of the latest run."""
        return (self.folder / "runs" / "latest").resolve()

    def starts(self, case: str) -> dict[str, int]:
        """How often fio was executed for a case, as each worker counted it."""
        run = self.run_folder().name
        counts = {}
        for name in self.names:
            file = self.sshd.work / name / "hcio" / run / case / "starts"
            counts[name] = len(file.read_text().splitlines()) if file.exists() else 0
        return counts

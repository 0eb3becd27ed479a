"""The folder of a deployment: its id, its keys and the host keys that its workers are known by.

    deployment.json   id and name, written before anything is made
    id_ed25519        the private key (mode 0600), and id_ed25519.pub
    hosts/NAME        a worker's host key pair (mode 0600), and NAME.pub
    known_hosts       what the workers' SSH servers must show
    sizing.json       what `count: auto` came to, so that a second deploy asks the same
    plan.json         what the last deploy set out to do, and why
    workers.json      the workers as an inventory, once they are ready

The folder is mode 0700. Every file appears by rename.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.errors import ConfigError
from orchestrator.vsphere.keys import KeyPair, known_host, new_pair


@dataclass(frozen=True)
class DeploymentState:
    """An opened folder."""

    folder: Path
    id: str
    name: str

    @property
    def key_file(self) -> Path:
        """The private key that logs in."""
        return self.folder / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        """The file of the workers' host keys."""
        return self.folder / "known_hosts"

    def login_key(self) -> KeyPair:
        """Our own pair; made when it isn't there."""
        return self._pair(self.key_file, f"hcio-{self.name}")

    def host_key(self, worker: str) -> KeyPair:
        """A worker's host key pair; made when it isn't there, and kept as long as the worker."""
        return self._pair(self.folder / "hosts" / worker, worker)

    def _pair(self, path: Path, comment: str) -> KeyPair:
        public = path.with_name(f"{path.name}.pub")
        if path.exists() and public.exists():
            return KeyPair(path.read_text(), public.read_text().strip())
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        pair = new_pair(comment)
        write_private(path, pair.private)
        write_private(public, pair.public + "\n")
        return pair

    def write_known_hosts(self, workers: Sequence[tuple[str, str, int]]) -> None:
        """Pin the host keys: name, address and port of each worker."""
        lines = [known_host(a, port, self.host_key(name).public) for name, a, port in workers]
        write_private(self.known_hosts, "".join(f"{line}\n" for line in lines))

    def write_plan(self, plan: dict[str, Any]) -> None:
        """Keep what a deploy sets out to do."""
        write_private(self.folder / "plan.json", json.dumps(plan, indent=1) + "\n")

    def write_sizing(self, sizing: dict[str, int]) -> None:
        """Keep what `count: auto` came to."""
        write_private(self.folder / "sizing.json", json.dumps(sizing, indent=1) + "\n")

    def write_workers(self, inventory: dict[str, Any]) -> Path:
        """Keep the workers as an inventory of static hosts."""
        path = self.folder / "workers.json"
        write_private(path, json.dumps(inventory, indent=1) + "\n")
        return path

    def remove(self) -> None:
        """Remove the files of this deployment, and the folder where nothing else is in it."""
        ours = [*sorted(self.folder.glob("hosts/*")), self.known_hosts, self.key_file]
        names = ("id_ed25519.pub", "plan.json", "sizing.json", "workers.json", "deployment.json")
        ours += [self.folder / name for name in names]
        for path in ours:
            path.unlink(missing_ok=True)
        for folder in (self.folder / "hosts", self.folder):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def open_state(
    folder: Path, name: str, *, new_id: Callable[[], str] = lambda: str(uuid.uuid4())
) -> DeploymentState:
    """Open a deployment's folder, or make it. ConfigError when it is another deployment's."""
    folder = folder.absolute()
    found = read_state(folder)
    if found is not None:
        if found.name != name:
            raise ConfigError(
                f"{folder} belongs to the deployment {found.name!r}, not {name!r}",
                next_step="give another folder (--state DIR), or that deployment's name",
            )
        return found
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = DeploymentState(folder, new_id(), name)
    write_private(folder / "deployment.json", json.dumps({"id": state.id, "name": name}) + "\n")
    return state


def read_state(folder: Path) -> DeploymentState | None:
    """A deployment's folder if there is one. ConfigError when its file is damaged."""
    folder = folder.absolute()
    path = folder / "deployment.json"
    if not path.exists():
        return None
    try:
        data = json.loads(path.read_text())
        return DeploymentState(folder, str(data["id"]), str(data["name"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} can't be read: {error}",
            next_step="put it back from a copy; the id in it is what marks the deployment's VMs",
        ) from error


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, by rename."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)

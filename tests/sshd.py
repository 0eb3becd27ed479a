"""OpenSSH's own server for tests: on a free high port, on every 127.x.y.z at once.

As root its logins are a user of their own with a light shell and no start-up files, as anybody
else they are that user. Nothing outside its own folder is touched but that user's entry.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

WORKER_USER = "hcio-worker"

_CONFIG = """\
Port {port}
ListenAddress 0.0.0.0
AllowUsers {user}@127.*
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
UseDNS no
PrintMotd no
PasswordAuthentication no
KbdInteractiveAuthentication no
"""
_DEFAULTS = ("MaxStartups 1000", "MaxSessions 100", "LoginGraceTime 60")


def program() -> str | None:
    """Path of the server, None where it isn't installed."""
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


class Sshd:
    """One running server. `key` is a private key file that it accepts for `user`; `work` a
    folder that this user may write; `log` what the server said."""

    def __init__(self, *extra: str) -> None:
        """`extra` are lines of sshd_config; the first line of a keyword wins."""
        self.folder = Path(tempfile.mkdtemp(prefix="hcio-sshd-"))
        self.folder.chmod(0o755)  # the worker's user must get to its key list
        self.user = worker_user()
        self.port = free_port()
        self.key = self.folder / "id"
        self.log = self.folder / "log"
        self._extra = extra
        self._process: subprocess.Popen[bytes] | None = None
        self._prepare()

    @property
    def pid(self) -> int:
        """The listening process."""
        assert self._process is not None
        return self._process.pid

    @property
    def known_hosts_line(self) -> str:
        """A known_hosts line for all its addresses."""
        kind, blob = (self.folder / "host_key.pub").read_text().split()[:2]
        return f"[127.*]:{self.port} {kind} {blob}\n"

    @property
    def known_hosts(self) -> Path:
        """A known_hosts file with that line."""
        return self.folder / "known_hosts"

    def know(self, addresses: Iterable[str]) -> None:
        """Write a known_hosts file with one plain line an address instead."""
        end = self.known_hosts_line.partition("]")[2]
        self.known_hosts.write_text("".join(f"[{address}]{end}" for address in addresses))

    def allow(self, public_key: str) -> None:
        """Let one more key in."""
        with (self.folder / "authorized_keys").open("a") as file:
            file.write(public_key.strip() + "\n")

    def accept(self) -> None:
        """Listen (again), on the same port."""
        binary = program()
        assert binary is not None, "sshd is not installed"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [binary, "-D", "-e", "-f", str(self.folder / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait_until_it_answers()

    def refuse(self) -> None:
        """Stop listening; sessions that are open stay."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def kill_sessions(self) -> int:
        """Cut every open session as a crash would; commands running in them are not touched.
        Gives the number of processes killed."""
        killed = 0
        for pid in _descendants(self.pid):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip().startswith("sshd"):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
        return killed

    def stop(self) -> None:
        """End the server and its sessions, and remove its folder."""
        if self._process is not None:
            self.kill_sessions()
            self.refuse()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        self.accept()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def work(self) -> Path:
        """A folder that the worker's user may write."""
        return self.folder / "work"

    def _prepare(self) -> None:
        keygen(self.folder / "host_key", "-t", "ed25519")
        keygen(self.key, "-t", "ed25519")
        self.allow(self.key.with_suffix(".pub").read_text())
        lines = _CONFIG.format(port=self.port, user=self.user, folder=self.folder).splitlines()
        settings = [*self._extra, *lines, *_DEFAULTS]
        (self.folder / "sshd_config").write_text("\n".join(settings) + "\n")
        (self.folder / "user").write_text(self.user)
        self.known_hosts.write_text(self.known_hosts_line)
        self.work.mkdir()
        if os.geteuid() == 0:
            entry = pwd.getpwnam(self.user)
            os.chown(self.work, entry.pw_uid, entry.pw_gid)
            # Debian's server wants this folder and nothing in it.
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)

    def _greets(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as opened:
                opened.settimeout(5)
                return opened.recv(4) == b"SSH-"
        except OSError:
            return False

    def _wait_until_it_answers(self) -> None:
        for _ in range(200):
            if self._greets():
                return
            if self._process is not None and self._process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"sshd does not answer: {self.log.read_text()}")


def keygen(path: Path, *options: str, passphrase: str = "") -> Path:
    """Make a key pair with OpenSSH's own tool."""
    command = ["ssh-keygen", "-q", "-N", passphrase, "-C", path.name, "-f", str(path), *options]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return path


def free_port() -> int:
    """A port that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def worker_user() -> str:
    """The user that logs in: as root one of its own, made when missing."""
    if os.geteuid() != 0:
        return getpass.getuser()
    # Several test processes may get here at once.
    with Path(tempfile.gettempdir(), "hcio-worker-user.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            pwd.getpwnam(WORKER_USER)
        except KeyError:
            shell = shutil.which("dash") or "/bin/sh"
            options = ["--create-home", "--skel", "/dev/null", "--shell", shell]
            # `*` is no password; the default `!` would lock the account for keys too.
            subprocess.run(["useradd", *options, "--password", "*", WORKER_USER], check=True)
    return WORKER_USER


def _descendants(pid: int) -> Sequence[int]:
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(folder.name))
    found: list[int] = []
    todo = [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found

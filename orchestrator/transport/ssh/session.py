"""The SSH session: the verbs of a transport over one kept connection."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

import paramiko

from orchestrator.errors import CommandTimedOut, ConnectionLost, TransportError
from orchestrator.transport import framing, transfer
from orchestrator.transport.base import Command, CommandResult, Exchange
from orchestrator.transport.deadline import Deadline
from orchestrator.transport.ssh.channel import RunningCommand
from orchestrator.transport.ssh.connect import Connection, connect
from orchestrator.transport.ssh.failures import translated
from orchestrator.transport.ssh.keys import KeyCache
from orchestrator.transport.ssh.settings import SshSettings

#: Seconds that telling a remote process group to end may take.
_ENDING = 5.0

_KEYS = KeyCache()


class SshTransport:
    """A session with one host over one SSH connection, a channel a command."""

    def __init__(
        self,
        name: str,
        connection: Connection,
        *,
        sudo: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._name = name
        self._connection = connection
        self._sudo = sudo
        self._clock = clock
        self._mark = f"hcio{uuid.uuid4().hex}"

    @property
    def host(self) -> str:
        """The worker's name."""
        return self._name

    @property
    def alive(self) -> bool:
        """Whether the connection still stands, as far as anybody has noticed."""
        return self._connection.transport.is_active()

    def run(self, command: Command, *, timeout: float, stdin: bytes = b"") -> CommandResult:
        """Run a command to its end; CommandTimedOut after `timeout` seconds, ConnectionLost
        when the connection ends first or gives no sign of life at the deadline."""
        started, deadline = self._clock(), Deadline(timeout)
        with self._running(command, deadline) as running:
            finished = running.feed(stdin, deadline) and running.finish(deadline)
            if not finished:
                raise self._timed_out(command, running, timeout)
        framed = framing.unframe(bytes(running.stdout), self._mark)
        stderr = framing.body(bytes(running.stderr), self._mark)
        if framed is None:
            said = stderr or bytes(running.stdout)
            raise framing.never_started(
                self._name, command.label, running.status, said, sudo=self._sudo
            )
        return CommandResult(
            host=self._name,
            command=command.shell(),
            label=command.label,
            status=running.status,
            stdout=framed.body,
            stderr=stderr,
            started=started,
            duration=deadline.spent(),
        )

    def exchange(
        self, command: Command, lines: Sequence[bytes], *, timeout: float
    ) -> list[Exchange]:
        """Send line by line to one running command, each after the answer to the one before."""
        deadline = Deadline(timeout)
        with self._running(command, deadline) as running:
            try:
                while not running.line(deadline)[0].startswith(self._mark.encode()):
                    pass
                exchanges = [running.ask(line, deadline) for line in lines]
            except TimeoutError as error:
                raise self._timed_out(command, running, timeout) from error
            if not (running.feed(b"", deadline) and running.finish(deadline)):
                raise self._timed_out(command, running, timeout)
        return exchanges

    def put(self, content: bytes, path: str, *, timeout: float, mode: int = 0o600) -> None:
        """Write a file by rename, size and checksum compared."""
        transfer.put(self, content, path, timeout=timeout, mode=mode)

    def get(self, path: str, *, timeout: float) -> bytes:
        """Read a file, size and checksum compared."""
        return transfer.get(self, path, timeout=timeout)

    def close(self) -> None:
        """End the connection. Safe to call twice."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _running(self, command: Command, deadline: Deadline) -> Iterator[RunningCommand]:
        text = framing.frame(command, self._mark, sudo=self._sudo)
        with translated(self._name, command.label, opening=False):
            channel = self._start(text, command.label, deadline.left())
            try:
                yield RunningCommand(self._name, command.label, channel, self._clock)
            finally:
                channel.close()

    def _start(self, text: str, step: str, timeout: float) -> paramiko.Channel:
        transport = self._connection.transport
        if not transport.is_active():
            raise ConnectionLost(
                self._name,
                step,
                "the connection is gone",
                means="what runs on the worker goes on there",
                next_step="connect again",
            )
        channel = transport.open_session(timeout=max(timeout, 0.001))
        # The library waits for the answer to `exec` without a limit of its own.
        watch = threading.Timer(timeout, channel.close)
        watch.daemon = True
        watch.start()
        try:
            channel.exec_command(text)
        except BaseException:
            channel.close()
            raise
        finally:
            watch.cancel()
        return channel

    def _timed_out(
        self, command: Command, running: RunningCommand, seconds: float
    ) -> TransportError:
        """End the remote group; whether that could be said tells a slow command from a dead
        connection."""
        what = f"not done after {seconds:g} s"
        framed = framing.unframe(bytes(running.stdout), self._mark)
        group = running.group or (framed.group if framed else None)
        if not self._told_to_end(group):
            self.close()
            return ConnectionLost(
                self._name,
                command.label,
                f"{what}, and the host gives no sign of life",
                means="the connection was cut on the way; what runs on the worker goes on there",
                next_step="connect again; a firewall that forgets quiet connections needs a "
                "shorter keepalive",
            )
        return CommandTimedOut(
            self._name,
            command.label,
            what,
            means="its process group was told to end"
            if group
            else "it never got as far as to run: the login shell's start files may hang",
            next_step="raise the time allowed for this step if the work really takes that long",
        )

    def _told_to_end(self, group: int | None) -> bool:
        text = framing.ending(group, sudo=self._sudo) if group else "exit 0"
        deadline = Deadline(_ENDING)
        with suppress(OSError, EOFError, paramiko.SSHException, TransportError):
            channel = self._start(text, "end the command", deadline.left())
            try:
                return channel.status_event.wait(deadline.left())
            finally:
                channel.close()
        return False


def open_ssh(
    name: str,
    settings: SshSettings,
    *,
    clock: Callable[[], float] = time.time,
    keys: KeyCache = _KEYS,
) -> SshTransport:
    """Connect, check the host key and log in. `clock` gives seconds since the epoch; `keys`
    keeps unlocked private keys for the next host that uses them.

    Raises HostUnreachable, HostKeyRejected, KeyUnusable, AuthenticationFailed, ConfigError.
    """
    return SshTransport(name, connect(name, settings, keys), sudo=settings.sudo, clock=clock)

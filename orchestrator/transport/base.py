"""What a transport is: a connected session to one host, five verbs, and the evidence they return.

A transport runs commands and moves bytes. Retries, fan-out and what the commands mean live
above it, in wrappers of the same shape (`retrying`) or in functions over many (`fanout`).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from orchestrator.errors import CommandFailed, CommandKilled

#: How much of a stream an error text shows; the whole of it stays in the CommandResult.
SHOWN_BYTES = 2000


class Literal(str):
    """A part of a command that the shell must see unquoted."""

    __slots__ = ()


@dataclass(frozen=True)
class Command:
    """A command as a list of parts, each quoted unless Literal; `label` names its step.

    `repeatable` says that running it twice is the same as once: only then may a wrapper run it
    again after a lost connection. A measured command never is.
    """

    parts: tuple[str, ...]
    label: str
    repeatable: bool = False

    @classmethod
    def of(cls, label: str, *parts: str, repeatable: bool = False) -> Command:
        """Build a command; `label` is the step's name in every error and log."""
        return cls(tuple(parts), label, repeatable)

    def shell(self) -> str:
        """The text that a POSIX shell runs."""
        return " ".join(
            part if isinstance(part, Literal) else shlex.quote(part) for part in self.parts
        )


@dataclass(frozen=True)
class CommandResult:
    """What one command did. `status` is None when it ended by a signal or none was sent.

    `signal` is its name without SIG (`KILL`) where known. Streams are bytes as they came, kept
    apart. `started` is in seconds since the epoch, `duration` in seconds, by the caller's clock.
    """

    host: str
    command: str
    label: str
    status: int | None
    stdout: bytes
    stderr: bytes
    started: float
    duration: float
    signal: str | None = None

    @property
    def text(self) -> str:
        """stdout, undecodable bytes replaced."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        """stderr, undecodable bytes replaced."""
        return self.stderr.decode("utf-8", "replace")

    def check(self) -> CommandResult:
        """Return self; raise CommandFailed or CommandKilled unless the status is 0."""
        if self.status == 0:
            return self
        tail = (self.stderr or self.stdout)[-SHOWN_BYTES:].decode("utf-8", "replace").strip()
        said = f": {tail}" if tail else ""
        if self.status is None:
            how = f"by signal {self.signal}" if self.signal else "without an exit status"
            raise CommandKilled(f"{self.host}: {self.label}: ended {how}{said}", self)
        raise CommandFailed(f"{self.host}: {self.label}: exit status {self.status}{said}", self)


@dataclass(frozen=True)
class Exchange:
    """One line sent to a running command and the line it answered, with the caller's instants.

    `sent` and `received` are seconds since the epoch on the controller.
    """

    sent: float
    reply: bytes
    received: float


class Transport(Protocol):
    """A connected session to one host, usable from one thread at a time, a context manager.

    Every verb takes its own deadline in seconds (`timeout`, no default). It raises a
    TransportError (never a library's own error) when the host can't be used: ConnectionLost,
    CommandTimedOut, TransferFailed, ... A command's own "no" is in the result's status.
    """

    @property
    def host(self) -> str:
        """The worker's name, as in the inventory."""
        ...

    def run(self, command: Command, *, timeout: float, stdin: bytes = b"") -> CommandResult:
        """Run a command until it ended and both its streams are closed, draining them together.

        When the deadline passes its whole process group is told to end: CommandTimedOut. So a
        command that leaves something running behind it must redirect that one's streams.
        """
        ...

    def exchange(
        self, command: Command, lines: Sequence[bytes], *, timeout: float
    ) -> list[Exchange]:
        """Start a command and, line by line, send one and wait for its one-line answer."""
        ...

    def put(self, content: bytes, path: str, *, timeout: float, mode: int = 0o600) -> None:
        """Write a file by rename, after its size and SHA-256 were checked on the host."""
        ...

    def get(self, path: str, *, timeout: float) -> bytes:
        """Read a whole file; size and SHA-256 are checked. FileNotFoundError never escapes:
        a missing file is a CommandFailed."""
        ...

    def close(self) -> None:
        """End the session. Safe to call twice; what runs detached on the host goes on."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

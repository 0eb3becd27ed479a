"""The fake transport: scripted, recording, and failing on anything that wasn't scripted."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from orchestrator.errors import CommandFailed, CommandTimedOut, ConnectionLost, TransportError
from orchestrator.transport.base import Command, CommandResult, Exchange

Verb = Literal["run", "exchange", "put", "get"]


class NotScripted(AssertionError):
    """The script and what happened differ. Not one of our errors: nothing may handle it."""


@dataclass(frozen=True)
class Reply:
    """What a scripted command does: its streams and status, after `duration` seconds that
    nobody waits for, or the transport error that is raised instead."""

    stdout: bytes = b""
    stderr: bytes = b""
    status: int | None = 0
    signal: str | None = None
    duration: float = 0.0
    error: TransportError | None = None


#: Answers a command given its stdin; None when it doesn't know the command.
Handler = Callable[[Command, bytes], Reply | None]


@dataclass(frozen=True)
class Call:
    """One recorded call: `what` is the shell text or the path, `data` the stdin or the content."""

    verb: Verb
    what: str
    label: str = ""
    data: bytes = b""
    mode: int | None = None


@dataclass
class _Expectation:
    pattern: str
    reply: Reply | Handler
    left: int | None
    used: int = 0

    def fits(self, command: Command) -> bool:
        return self.left != 0 and re.search(self.pattern, command.shell()) is not None

    def use(self, command: Command, stdin: bytes) -> Reply | None:
        self.used += 1
        if self.left is not None:
            self.left -= 1
        return self.reply if isinstance(self.reply, Reply) else self.reply(command, stdin)


@dataclass
class _Conversation:
    pattern: str
    answer: Callable[[bytes], bytes]
    used: int = 0


class FakeTransport:
    """A session with a host that exists only in a script.

    Commands are answered by the first expectation that fits and isn't used up, else by `handler`;
    files live in `files` (path to content). Anything else raises NotScripted. `calls` is the
    record; `verify` fails when an expectation was never met.
    """

    def __init__(
        self,
        name: str,
        *,
        handler: Handler | None = None,
        files: dict[str, bytes] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._name = name
        self._handler = handler
        self._clock = clock
        self._expectations: list[_Expectation] = []
        self._conversations: list[_Conversation] = []
        self._lost: ConnectionLost | None = None
        self.files: dict[str, bytes] = dict(files or {})
        self.calls: list[Call] = []

    @property
    def host(self) -> str:
        """The worker's name."""
        return self._name

    def expect(self, pattern: str, reply: Reply | Handler, *, times: int | None = 1) -> None:
        """Answer a command whose shell text the regular expression finds, `times` times
        (None: any number, at least once)."""
        self._expectations.append(_Expectation(pattern, reply, times))

    def expect_exchange(self, pattern: str, answer: Callable[[bytes], bytes]) -> None:
        """Answer line by line a command whose shell text the regular expression finds."""
        self._conversations.append(_Conversation(pattern, answer))

    def lose(self) -> None:
        """Break the connection: every verb from now on raises ConnectionLost."""
        self._lost = ConnectionLost(self._name, "run", "the connection is gone")

    def verify(self) -> None:
        """Raise NotScripted when something expected didn't happen."""
        missing = [
            f"{entry.pattern!r} (used {entry.used} times)"
            for entry in self._expectations
            if entry.left or not entry.used
        ]
        missing += [f"exchange {talk.pattern!r}" for talk in self._conversations if not talk.used]
        if missing:
            raise NotScripted(f"{self._name}: expected but not called: {', '.join(missing)}")

    def run(self, command: Command, *, timeout: float, stdin: bytes = b"") -> CommandResult:
        """Answer from the script; a reply longer than `timeout` is a CommandTimedOut."""
        self._record(Call("run", command.shell(), command.label, stdin), command.label)
        reply = self._reply(command, stdin)
        if reply.error is not None:
            raise reply.error
        if reply.duration > timeout:
            raise CommandTimedOut(self._name, command.label, f"not done after {timeout:g} s")
        return CommandResult(
            host=self._name,
            command=command.shell(),
            label=command.label,
            status=reply.status,
            stdout=reply.stdout,
            stderr=reply.stderr,
            started=self._clock(),
            duration=reply.duration,
            signal=reply.signal,
        )

    def exchange(
        self, command: Command, lines: Sequence[bytes], *, timeout: float
    ) -> list[Exchange]:
        """Answer each line from the script."""
        call = Call("exchange", command.shell(), command.label, b"\n".join(lines))
        self._record(call, command.label)
        for talk in self._conversations:
            if re.search(talk.pattern, command.shell()):
                talk.used += 1
                return [Exchange(self._clock(), talk.answer(x), self._clock()) for x in lines]
        raise self._unknown("exchange", command.shell())

    def put(self, content: bytes, path: str, *, timeout: float, mode: int = 0o600) -> None:
        """Keep the content in `files`."""
        self._record(Call("put", path, data=content, mode=mode), f"put {path}")
        self.files[path] = content

    def get(self, path: str, *, timeout: float) -> bytes:
        """The content in `files`; CommandFailed when there is none, as on a real host."""
        self._record(Call("get", path), f"get {path}")
        if path not in self.files:
            said = f"sh: cannot open {path}: No such file\n".encode()
            step = f"get {path}"
            result = CommandResult(self._name, step, step, 2, b"", said, self._clock(), 0.0)
            raise CommandFailed(f"{self._name}: {step}: no such file", result)
        return self.files[path]

    def close(self) -> None:
        """End the session."""
        self._lost = ConnectionLost(self._name, "run", "the session was closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _record(self, call: Call, step: str) -> None:
        self.calls.append(call)
        if self._lost is not None:
            raise ConnectionLost(self._name, step, "the connection is gone")

    def _reply(self, command: Command, stdin: bytes) -> Reply:
        for entry in self._expectations:
            if entry.fits(command):
                reply = entry.use(command, stdin)
                if reply is not None:
                    return reply
        reply = self._handler(command, stdin) if self._handler else None
        if reply is None:
            raise self._unknown("run", command.shell())
        return reply

    def _unknown(self, verb: Verb, what: str) -> NotScripted:
        known = [entry.pattern for entry in self._expectations]
        return NotScripted(f"{self._name}: {verb} {what!r} is not in the script (known: {known})")

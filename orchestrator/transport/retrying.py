"""The retrying transport: reconnects, and repeats only what is harmless to repeat."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

from orchestrator.errors import ConnectionLost, HostUnreachable
from orchestrator.retry import CONNECT, READ, TRANSFER, Attempt, Pauses, Policy, retrying
from orchestrator.transport.base import Command, CommandResult, Exchange, Transport
from orchestrator.transport.deadline import Deadline

T = TypeVar("T")


@dataclass(frozen=True)
class Policies:
    """One policy a kind of work."""

    connect: Policy = CONNECT
    transfer: Policy = TRANSFER
    read: Policy = READ


class RetryingTransport:
    """Wraps a function that connects. Connecting, `put`, `get` and commands marked `repeatable`
    are tried again; any other command and an `exchange` run at most once, but the next verb
    after a lost connection connects anew.

    `gate`, shared by many, limits how many log in at the same time (a semaphore). `on_retry` is
    told of every repetition: nothing is repeated in silence. The first connection is made by
    the first verb or by `connect`.
    """

    def __init__(
        self,
        host: str,
        connect: Callable[[], Transport],
        *,
        policies: Policies | None = None,
        pauses: Pauses | None = None,
        gate: threading.Semaphore | None = None,
        on_retry: Callable[[Attempt], None] | None = None,
    ) -> None:
        self._host = host
        self._connect = connect
        self._policies = policies or Policies()
        self._pauses = pauses or Pauses()
        self._gate: AbstractContextManager[object] = gate or nullcontext()
        self._on_retry = on_retry
        self._inner: Transport | None = None
        self._closed = False

    @property
    def host(self) -> str:
        """The worker's name."""
        return self._host

    def connect(self, *, timeout: float | None = None) -> None:
        """Connect now, trying again as the policy says, at most `timeout` seconds."""
        retrying(
            self._policies.connect,
            self._session,
            pauses=self._pauses,
            on_retry=self._on_retry,
            limit=timeout,
        )

    def run(self, command: Command, *, timeout: float, stdin: bytes = b"") -> CommandResult:
        """Run a command: once, unless it is marked repeatable."""

        def work(inner: Transport, left: float) -> CommandResult:
            return inner.run(command, timeout=left, stdin=stdin)

        if command.repeatable:
            return self._again(self._policies.read, work, timeout)
        return self._once(work, timeout)

    def exchange(
        self, command: Command, lines: Sequence[bytes], *, timeout: float
    ) -> list[Exchange]:
        """Line by line with one running command, once: a repeated line could be a repeated act."""

        def work(inner: Transport, left: float) -> list[Exchange]:
            return inner.exchange(command, lines, timeout=left)

        if command.repeatable:
            return self._again(self._policies.read, work, timeout)
        return self._once(work, timeout)

    def put(self, content: bytes, path: str, *, timeout: float, mode: int = 0o600) -> None:
        """Write a file; again when it arrived changed or the connection went away."""
        self._again(
            self._policies.transfer,
            lambda inner, left: inner.put(content, path, timeout=left, mode=mode),
            timeout,
        )

    def get(self, path: str, *, timeout: float) -> bytes:
        """Read a file; again when it arrived changed or the connection went away."""
        return self._again(
            self._policies.transfer, lambda inner, left: inner.get(path, timeout=left), timeout
        )

    def close(self) -> None:
        """End the session for good."""
        self._closed = True
        self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _again(self, policy: Policy, work: Callable[[Transport, float], T], timeout: float) -> T:
        """Both the verb's own time and the policy's limit hold over all tries together."""
        deadline = Deadline(timeout, ticks=self._pauses.ticks)
        return retrying(
            policy,
            lambda: self._try(work, deadline),
            pauses=self._pauses,
            on_retry=self._on_retry,
            limit=timeout,
        )

    def _once(self, work: Callable[[Transport, float], T], timeout: float) -> T:
        return self._try(work, Deadline(timeout, ticks=self._pauses.ticks))

    def _try(self, work: Callable[[Transport, float], T], deadline: Deadline) -> T:
        if self._inner is None:
            self._reconnect(deadline)
        inner = self._session()
        try:
            return work(inner, deadline.left())
        except ConnectionLost:
            self._drop()
            raise

    def _reconnect(self, deadline: Deadline) -> None:
        try:
            self.connect(timeout=deadline.left())
        except HostUnreachable as error:
            # The connect policy is used up; the verb's own must not multiply it.
            error.retryable = False
            raise

    def _session(self) -> Transport:
        if self._closed:
            lost = ConnectionLost(self._host, "connect", "the session was closed")
            lost.retryable = False
            raise lost
        if self._inner is None:
            with self._gate:
                self._inner = self._connect()
        return self._inner

    def _drop(self) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.close()

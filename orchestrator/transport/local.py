"""The local transport: this machine, through its own POSIX shell."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import IO, Self

from orchestrator.errors import CommandTimedOut, ConnectionLost, WorkerError
from orchestrator.transport import framing, transfer
from orchestrator.transport.base import Command, CommandResult, Exchange
from orchestrator.transport.deadline import Deadline

Process = subprocess.Popen[bytes]


class LocalTransport:
    """Runs commands on this machine, each in a process group of its own."""

    def __init__(
        self,
        name: str,
        *,
        sudo: bool = False,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._name = name
        self._sudo = sudo
        self._environment = environment
        self._clock = clock
        self._mark = f"hcio{uuid.uuid4().hex}"
        self._open = True

    @property
    def host(self) -> str:
        """The worker's name."""
        return self._name

    def run(self, command: Command, *, timeout: float, stdin: bytes = b"") -> CommandResult:
        """Run a command to its end; CommandTimedOut after `timeout` seconds."""
        started, deadline = self._clock(), Deadline(timeout)
        with self._process(command) as process:
            try:
                stdout, stderr = process.communicate(stdin, timeout=timeout)
            except subprocess.TimeoutExpired as error:
                raise _timed_out(self._name, command.label, timeout) from error
        return self._result(command, process.returncode, stdout, stderr, started, deadline.spent())

    def exchange(
        self, command: Command, lines: Sequence[bytes], *, timeout: float
    ) -> list[Exchange]:
        """Send line by line to one running command, each after the answer to the one before."""
        deadline = Deadline(timeout)
        with self._process(command) as process:
            talk = _Talk(self._name, command.label, process, deadline, self._clock)
            talk.wait_for(self._mark.encode())
            exchanges = [talk.say(line) for line in lines]
            with suppress(BrokenPipeError):
                talk.stdin.close()
            try:
                process.wait(deadline.left())
            except subprocess.TimeoutExpired as error:
                raise _timed_out(self._name, command.label, timeout) from error
        return exchanges

    def put(self, content: bytes, path: str, *, timeout: float, mode: int = 0o600) -> None:
        """Write a file by rename, size and checksum compared."""
        transfer.put(self, content, path, timeout=timeout, mode=mode)

    def get(self, path: str, *, timeout: float) -> bytes:
        """Read a file, size and checksum compared."""
        return transfer.get(self, path, timeout=timeout)

    def close(self) -> None:
        """End the session."""
        self._open = False

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
    def _process(self, command: Command) -> Iterator[Process]:
        """The command's process, in a group of its own that ends with the block."""
        if not self._open:
            raise ConnectionLost(self._name, command.label, "the session was closed")
        text = framing.frame(command, self._mark, sudo=self._sudo)
        process = subprocess.Popen(
            ["sh", "-c", text],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environment,
            start_new_session=True,
            bufsize=0,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                self._end(process)
            for stream in (process.stdin, process.stdout, process.stderr):
                with suppress(BrokenPipeError):
                    _there(stream).close()

    def _end(self, process: Process) -> None:
        """Ask the group to end, kill it after the grace time."""
        if self._sudo:
            ending = framing.ending(process.pid, sudo=True)
            subprocess.run(["sh", "-c", ending], check=False, stdin=subprocess.DEVNULL)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(framing.GRACE)
        # Also when the leader ended: what ignored the first signal is still in the group.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _result(
        self,
        command: Command,
        code: int,
        stdout: bytes,
        stderr: bytes,
        started: float,
        duration: float,
    ) -> CommandResult:
        framed = framing.unframe(stdout, self._mark)
        if framed is None:
            raise framing.never_started(
                self._name, command.label, code, stderr or stdout, sudo=self._sudo
            )
        return CommandResult(
            host=self._name,
            command=command.shell(),
            label=command.label,
            status=code if code >= 0 else None,
            stdout=framed.body,
            stderr=framing.body(stderr, self._mark),
            started=started,
            duration=duration,
            signal=None if code >= 0 else signal.Signals(-code).name.removeprefix("SIG"),
        )


def open_local(
    name: str,
    *,
    sudo: bool = False,
    environment: Mapping[str, str] | None = None,
    clock: Callable[[], float] = time.time,
) -> LocalTransport:
    """A session on this machine. `environment` (default: this process's own) is what its
    commands see; `clock` gives seconds since the epoch."""
    return LocalTransport(name, sudo=sudo, environment=environment, clock=clock)


class _Talk:
    """Lines to and from a running process."""

    def __init__(
        self,
        host: str,
        step: str,
        process: Process,
        deadline: Deadline,
        clock: Callable[[], float],
    ) -> None:
        self.stdin = _there(process.stdin)
        self._stdout = _there(process.stdout).fileno()
        self._stderr = _there(process.stderr).fileno()
        self._host, self._step = host, step
        self._deadline, self._clock = deadline, clock
        self._buffer = b""

    def wait_for(self, mark: bytes) -> None:
        """Skip all up to the line that opens with `mark`."""
        while not self._line()[0].startswith(mark):
            pass

    def say(self, line: bytes) -> Exchange:
        """Send a line, wait for its answer."""
        sent = self._clock()
        try:
            self.stdin.write(line + b"\n")
        except BrokenPipeError as error:
            raise went_silent(self._host, self._step) from error
        reply, received = self._line()
        return Exchange(sent, reply, received)

    def _line(self) -> tuple[bytes, float]:
        received = self._clock()
        while b"\n" not in self._buffer:
            left = self._deadline.left()
            ready, _, _ = select.select([self._stdout, self._stderr], [], [], left)
            received = self._clock()
            if not ready:
                raise _timed_out(self._host, self._step, self._deadline.seconds)
            self._read(ready)
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line, received

    def _read(self, ready: list[int]) -> None:
        if self._stdout not in ready:
            os.read(self._stderr, 65536)
            return
        chunk = os.read(self._stdout, 65536)
        if not chunk:
            raise went_silent(self._host, self._step)
        self._buffer += chunk


def went_silent(host: str, step: str) -> WorkerError:
    """The error for a command that ended in the middle of an exchange."""
    return WorkerError(
        host,
        step,
        "the command ended before it had answered every line",
        next_step="run the command by hand on the worker and look at what it prints",
    )


def _timed_out(host: str, step: str, seconds: float) -> CommandTimedOut:
    return CommandTimedOut(
        host,
        step,
        f"not done after {seconds:g} s",
        means="its process group was told to end",
        next_step="raise the time allowed for this step if the work really takes that long",
    )


def _there(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # noqa: S101 - all three are pipes here
    return stream

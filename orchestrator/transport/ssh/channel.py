"""A command running in a channel: both streams drained together, lines timed on arrival."""

from __future__ import annotations

import threading
from collections.abc import Callable

import paramiko

from orchestrator.errors import ConnectionLost, WorkerError
from orchestrator.transport.base import Exchange
from orchestrator.transport.deadline import Deadline

_READ = 1 << 20
#: The library cuts what is sent to the size of one packet anyway.
_WRITE = 32768
#: Seconds to wait for room before the other direction is looked at again.
_ROOM = 0.02
#: Seconds in which a connection that dropped a channel shows whether it is dead itself.
_LAST_WORDS = 0.5


class Arrival(threading.Event):
    """Set by the library's reader when bytes arrive on either stream; keeps the instant.

    The library clears it whenever one stream runs empty, which would lose the other's sign,
    so only `rearm` clears it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._now = clock
        self.at = clock()

    def set(self) -> None:
        """Something arrived, now."""
        self.at = self._now()
        super().set()

    def clear(self) -> None:
        """Not for the library to say."""

    def rearm(self) -> None:
        """Wait for the next arrival."""
        super().clear()


class RunningCommand:
    """One command's streams, as far as they have come. `status` None until it is known, and
    when the command ended by a signal."""

    def __init__(
        self, host: str, step: str, channel: paramiko.Channel, clock: Callable[[], float]
    ) -> None:
        self._host, self._step = host, step
        self._channel = channel
        self._clock = clock
        self._arrival = Arrival(clock)
        channel.in_buffer.set_event(self._arrival)
        channel.in_stderr_buffer.set_event(self._arrival)
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.status: int | None = None
        self.group: int | None = None

    def feed(self, stdin: bytes, deadline: Deadline) -> bool:
        """Send all of stdin and close it, reading meanwhile. False when the deadline passed."""
        rest = memoryview(stdin)
        self._channel.settimeout(_ROOM)
        while rest:
            if deadline.passed():
                return False
            try:
                rest = rest[self._channel.send(bytes(rest[:_WRITE])) :]
            except TimeoutError:
                self._drain()
            except OSError:
                # A command may end without reading all it was given; its status tells.
                break
            if self._channel.closed:
                break
        if not self._channel.closed:
            self._channel.shutdown_write()
        return True

    def finish(self, deadline: Deadline) -> bool:
        """Read both streams to their end, then the status. False when the deadline passed."""
        while True:
            self._arrival.rearm()
            if self._drain():
                break
            if not self._arrival.wait(deadline.left()):
                return False
        if not self._channel.status_event.wait(deadline.left()):
            return False
        status = self._channel.exit_status
        if status == -1:
            self._require_connection()
        self.status = None if status == -1 else status
        return True

    def ask(self, line: bytes, deadline: Deadline) -> Exchange:
        """Send a line, wait for its answer. TimeoutError when the deadline passes."""
        data = line + b"\n"
        self._channel.settimeout(max(deadline.left(), 0.001))
        sent = self._clock()
        try:
            self._channel.sendall(data)
        except TimeoutError:
            raise
        except OSError as error:
            raise self._silent() from error
        reply, received = self.line(deadline)
        return Exchange(sent, reply, received)

    def line(self, deadline: Deadline) -> tuple[bytes, float]:
        """The next line of stdout and the instant its end arrived."""
        while True:
            self._arrival.rearm()
            ended = self._drain()
            received = self._arrival.at
            line, found, rest = self.stdout.partition(b"\n")
            if found:
                self.stdout = rest
                self._note_group(bytes(line))
                return bytes(line), received
            if ended:
                raise self._silent()
            if not self._arrival.wait(deadline.left()):
                raise TimeoutError

    def _silent(self) -> WorkerError:
        """The error for a command that ended in the middle of an exchange."""
        self._require_connection()
        return WorkerError(
            self._host,
            self._step,
            "the command ended before it had answered every line",
            next_step="run the command by hand on the worker and look at what it prints",
        )

    def _note_group(self, line: bytes) -> None:
        words = line.split()
        if self.group is None and len(words) == 2 and words[0].startswith(b"hcio"):
            self.group = int(words[1]) if words[1].isdigit() else None

    def _drain(self) -> bool:
        """Take what has come; True when nothing more can come."""
        ended = bool(self._channel.eof_received or self._channel.closed)
        while self._channel.recv_ready():
            self.stdout += self._channel.recv(_READ)
        while self._channel.recv_stderr_ready():
            self.stderr += self._channel.recv_stderr(_READ)
        return ended

    def _require_connection(self) -> None:
        """ConnectionLost when the channel ended because the connection did."""
        transport = self._channel.get_transport()
        if not self._channel.eof_received:
            # The reader drops its channels a moment before it calls itself dead.
            transport.join(_LAST_WORDS)
        if not transport.is_active():
            raise ConnectionLost(
                self._host,
                self._step,
                "the connection went away while the command ran",
                means="what runs on the worker goes on there",
                next_step="connect again and ask the worker",
            )

"""Clearing vSAN OSA's cache on one host: settings saved, caches dropped and drained, settings back.

The connection is made again when it is lost; every command may be repeated. Whatever goes wrong,
the settings are restored and read back, or the answer says that they are not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Protocol, Self

from orchestrator.errors import CommandFailed, HcioError, TransportError, WorkerError
from orchestrator.lsom import (
    LEAST_LOG_THRESHOLD,
    LOG_THRESHOLD,
    READ_CACHE_SCRIPT,
    SETTINGS_SCRIPT,
    USAGE_SCRIPT,
    SavedSettings,
    differing,
    parse_dropped,
    parse_number,
    parse_settings,
    parse_usage,
    set_script,
    still_full,
    usable_settings,
)
from orchestrator.transport.base import Command, CommandResult, Transport
from orchestrator.units import show_size

#: Journal events: a host's settings before the change, and that they are back.
CACHE_SAVED: Final = "cache.saved"
CACHE_RESTORED: Final = "cache.restored"

#: Seconds: for one short command on a host; between two looks at a drain; that a drained buffer
#: is watched on (HCIBench's figures for the latter two).
COMMAND_LIMIT: Final = 60.0
POLL_INTERVAL: Final = 10.0
GRACE: Final = 30.0
#: Seconds that clearing may take unless the suite says otherwise: 600 GiB of write buffer, the
#: most that vSAN uses of a cache disk, drain at 300 MB/s in about 36 minutes.
DEFAULT_LIMIT: Final = 3600.0
#: A command is tried so often when the connection fails, so many seconds apart, each time on a
#: new connection: all of them may be repeated.
TRIES: Final = 3
PAUSE: Final = 5.0

#: Opens a new session with one host.
Opener = Callable[[], Transport]


class Journal(Protocol):
    """Where saved settings survive this process: `record` returns once the disk has the event."""

    def record(self, name: str, /, **fields: Any) -> object:
        """Keep one event."""
        ...


@dataclass(frozen=True)
class Clearing:
    """What clearing did on one host. `left` is bytes in each write buffer at the last look.

    `restored` is None where nothing had been changed.
    """

    host: str
    done: bool
    text: str
    seconds: float | None = None
    components: int | None = None
    left: Mapping[str, int | None] = field(default_factory=dict)
    restored: bool | None = None


@dataclass(frozen=True)
class Pace:
    """Limits of a clearing in seconds, its clock, and whether it is told to end early."""

    limit: float = DEFAULT_LIMIT
    interval: float = POLL_INTERVAL
    grace: float = GRACE
    pause: float = PAUSE
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    stopped: Callable[[], bool] = lambda: False


USUAL_PACE: Final = Pace()


class HostSession:
    """Commands on one host over a connection that is opened when needed, and again when lost."""

    def __init__(self, host: str, opener: Opener, pace: Pace) -> None:
        self.host = host
        self._opener = opener
        self._pace = pace
        self._transport: Transport | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._drop()

    def run(self, label: str, script: str) -> CommandResult:
        """Run a script that may be repeated; the last connection error when all tries fail."""
        for _ in range(TRIES - 1):
            try:
                return self._once(label, script)
            except TransportError as error:
                if not error.retryable:
                    raise
                self._drop()
                self._pace.sleep(self._pace.pause)
        return self._once(label, script)

    def _once(self, label: str, script: str) -> CommandResult:
        if self._transport is None:
            self._transport = self._opener()
        return self._transport.run(Command.of(label, "sh", "-c", script), timeout=COMMAND_LIMIT)

    def _drop(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None


class OsaHost:
    """Clearing on one OSA host."""

    def __init__(
        self, session: HostSession, journal: Journal, pace: Pace, progress: Callable[[str], None]
    ) -> None:
        self._session = session
        self._journal = journal
        self._pace = pace
        self._progress = progress
        self._components: int | None = None
        self._left: dict[str, int | None] = {}

    def clear(self, known: SavedSettings | None) -> Clearing:
        """Drop, drain, restore; `known` are settings that an earlier clearing saved."""
        started = self._pace.monotonic()
        saved = self._save(known)
        trouble = ""
        try:
            self._drop_read_caches()
            self._drain(saved)
        except HcioError as error:
            trouble = error.what
        finally:
            lost = self._put_back(saved)
        return Clearing(
            self._session.host,
            not trouble and not lost,
            "; ".join(text for text in (trouble, lost) if text) or "cleared",
            self._pace.monotonic() - started,
            self._components,
            self._left,
            restored=not lost,
        )

    def _save(self, known: SavedSettings | None) -> SavedSettings:
        if known is not None:
            return known
        saved = _read_settings(self._session)
        self._journal.record(CACHE_SAVED, **saved.fields())
        return saved

    def _drop_read_caches(self) -> None:
        result = self._session.run("drop read caches", READ_CACHE_SCRIPT)
        counts = parse_dropped(result.check().text)
        if counts is None or counts[1]:
            raise CommandFailed(
                f"{self._session.host}: drop read caches: "
                + ("no answer" if counts is None else f"{counts[1]} components refused"),
                result,
            )
        self._components = counts[0]

    def _drain(self, saved: SavedSettings) -> None:
        """Set what drains, and watch until every buffer is empty and stays so for the grace."""
        reply = self._session.run("read log threshold", f"vsish -e get {LOG_THRESHOLD}")
        threshold = parse_number(reply.text)
        if threshold is not None and threshold < LEAST_LOG_THRESHOLD:
            self._progress(f"{self._session.host}: write buffers are too small to drain")
            return
        self._heed()
        self._session.run("set cache settings", set_script(usable_settings(saved.values))).check()
        deadline = self._pace.monotonic() + self._pace.limit
        self._watch(deadline)
        self._pace.sleep(self._pace.grace)
        self._watch(deadline)

    def _watch(self, deadline: float) -> None:
        while full := still_full(self._look()):
            self._heed()
            text = ", ".join(f"{device} {_size(left)}" for device, left in full.items())
            if self._pace.monotonic() >= deadline:
                raise WorkerError(
                    self._session.host,
                    "drain write buffers",
                    f"not done after {self._pace.limit:g} s: {text}",
                    means="something still writes to this cluster, or its disks are slow",
                    next_step="stop other writers, or raise the time limit",
                )
            self._progress(f"{self._session.host}: draining {text}")
            self._pace.sleep(self._pace.interval)

    def _heed(self) -> None:
        """End here when told to: the settings are put back on the way out."""
        if self._pace.stopped():
            raise WorkerError(self._session.host, "drain write buffers", "interrupted")

    def _look(self) -> dict[str, int | None]:
        result = self._session.run("read write buffers", USAGE_SCRIPT).check()
        self._left = parse_usage(result.text)
        if not self._left:
            raise WorkerError(
                self._session.host,
                "read write buffers",
                "no cache disk found",
                means="nobody can tell whether the write buffers are empty",
                next_step="see that this host takes part in vSAN OSA",
            )
        return self._left

    def _put_back(self, saved: SavedSettings) -> str:
        """Restore; the trouble in words, empty when the settings are back."""
        try:
            restore_settings(self._session, saved, self._journal)
        except HcioError as error:
            return f"{error.what}; settings NOT restored, `hcio clean` tries again"
        return ""


def _size(left: int | None) -> str:
    return "unknown" if left is None else show_size(left)


def _read_settings(session: HostSession) -> SavedSettings:
    return parse_settings(session.host, session.run("read cache settings", SETTINGS_SCRIPT).text)


def restore_settings(session: HostSession, saved: SavedSettings, journal: Journal) -> None:
    """Set the saved values, read them back, and say so in the journal."""
    result = session.run("restore cache settings", set_script(saved.values))
    wrong = differing(saved.values, _read_settings(session).values)
    if wrong:
        raise CommandFailed(
            f"{session.host}: restore cache settings: {', '.join(wrong)}",
            result,
            next_step="set them by hand: vsish -e set /config/LSOM/intOpts/NAME VALUE",
        )
    journal.record(CACHE_RESTORED, host=session.host)

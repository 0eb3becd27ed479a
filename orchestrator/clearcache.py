"""Clearing the cache before a case: on vSAN OSA over SSH to the hosts, else by a user's command.

Settings are saved before they are changed, and restored in every case: at the end, after an
error, and after a crash by `restore_hosts` fed with what was saved. Each restore is read back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from orchestrator.errors import HcioError, WorkerError
from orchestrator.lsom import SavedSettings, set_script
from orchestrator.osacache import (
    CACHE_RESTORED,
    CACHE_SAVED,
    COMMAND_LIMIT,
    TRIES,
    USUAL_PACE,
    Clearing,
    HostSession,
    Journal,
    Opener,
    OsaHost,
    Pace,
    restore_settings,
)
from orchestrator.store import Event
from orchestrator.transport.base import Command, Transport
from orchestrator.transport.fanout import gather

#: As root or through sudo; clean pages only, so nothing is lost.
GUEST_SCRIPT: Final = """\
sync
if [ "$(id -u)" = 0 ]; then echo 3 > /proc/sys/vm/drop_caches
else sudo -n sh -c 'echo 3 > /proc/sys/vm/drop_caches'; fi
"""


@dataclass(frozen=True)
class Cleared:
    """What clearing did on all hosts. `done` is None where there is nothing to clear."""

    done: bool | None
    how: str
    hosts: tuple[Clearing, ...] = ()

    @property
    def why(self) -> str:
        """What failed, by host; how it was done where nothing did."""
        failed = [
            f"{host.host}: {host.text.removeprefix(f'{host.host}: ')}"
            for host in self.hosts
            if not host.done
        ]
        return "; ".join(failed) or self.how


def clear_cache(
    architecture: Literal["osa", "esa"] | None,
    hosts: Mapping[str, Opener],
    journal: Journal,
    *,
    command: str | None = None,
    unrestored: Mapping[str, SavedSettings] | None = None,
    pace: Pace = USUAL_PACE,
    progress: Callable[[str], None] = lambda text: None,
) -> Cleared:
    """Clear as the storage needs it: a user's command goes first, then vSAN's own way.

    `architecture` is None where the storage isn't vSAN: then, without a command, it fails.
    """
    if command is None and architecture == "esa":
        return nothing_to_clear()
    if command is None and architecture is None:
        return Cleared(False, "nothing is known of this storage's cache: give clear_cache.command")
    if not hosts:
        return Cleared(False, "no host to clear the cache on: give clear_cache.hosts")
    if command is not None:
        return clear_by_command(hosts, command, pace=pace)
    return clear_osa(hosts, journal, unrestored=unrestored, pace=pace, progress=progress)


def nothing_to_clear() -> Cleared:
    """vSAN ESA: there is no cache tier, and the result says so."""
    return Cleared(None, "vSAN ESA has no cache tier, there is nothing to clear")


def clear_osa(
    hosts: Mapping[str, Opener],
    journal: Journal,
    *,
    unrestored: Mapping[str, SavedSettings] | None = None,
    pace: Pace = USUAL_PACE,
    progress: Callable[[str], None] = lambda text: None,
) -> Cleared:
    """Drop read caches and drain write buffers on all hosts at once.

    `unrestored` are settings that an earlier, crashed clearing saved: they are the true ones.
    Failures are in the answer, never raised: the case's verdict says so (`events.judge_cache`).
    """
    known = unrestored or {}

    def work(host: str) -> Clearing:
        with HostSession(host, hosts[host], pace) as session:
            return OsaHost(session, journal, pace, progress).clear(known.get(host))

    # Beyond the drain's own limit: one reopening and the restore.
    limit = pace.limit + 4 * TRIES * COMMAND_LIMIT
    return _on_all(hosts, work, "read caches dropped, write buffers drained", limit)


def clear_by_command(
    hosts: Mapping[str, Opener], command: str, *, pace: Pace = USUAL_PACE
) -> Cleared:
    """Run a user's own shell command on every host at once; status 0 means cleared."""

    def work(host: str) -> Clearing:
        started = pace.monotonic()
        with hosts[host]() as transport:
            step = Command.of("clear cache", "sh", "-c", command)
            transport.run(step, timeout=pace.limit).check()
        return Clearing(host, True, "done", pace.monotonic() - started)

    return _on_all(hosts, work, f"by the command: {command}", pace.limit + COMMAND_LIMIT)


def drop_guest_caches(workers: Mapping[str, Transport]) -> Cleared:
    """Drop the page cache of every worker; files as targets would be read from it."""

    def work(worker: str) -> Clearing:
        step = Command.of("drop guest cache", "sh", "-c", GUEST_SCRIPT)
        workers[worker].run(step, timeout=COMMAND_LIMIT).check()
        return Clearing(worker, True, "dropped")

    return _on_all(workers, work, "guest caches dropped", 2 * COMMAND_LIMIT)


def unrestored_settings(events: Iterable[Event]) -> dict[str, SavedSettings]:
    """By host, what a run's journal says was saved and never restored; the first save counts."""
    pending: dict[str, SavedSettings] = {}
    for event in events:
        if event.name == CACHE_SAVED:
            saved = SavedSettings.from_fields(event.fields)
            pending.setdefault(saved.host, saved)
        elif event.name == CACHE_RESTORED:
            pending.pop(str(event.fields["host"]), None)
    return pending


def restore_hosts(
    pending: Mapping[str, SavedSettings],
    hosts: Mapping[str, Opener],
    journal: Journal,
    *,
    pace: Pace = USUAL_PACE,
) -> Cleared:
    """Put saved settings back, as after a crash. A host that can't be reached is in the answer."""

    def work(host: str) -> Clearing:
        if host not in hosts:
            raise WorkerError(
                host,
                "restore cache settings",
                "the inventory doesn't know this host any more",
                next_step=f"on the host: {set_script(pending[host].values)}",
            )
        with HostSession(host, hosts[host], pace) as session:
            restore_settings(session, pending[host], journal)
        return Clearing(host, True, "restored", restored=True)

    limit = 2 * TRIES * (COMMAND_LIMIT + pace.pause)
    return _on_all(pending, work, "cache settings restored and read back", limit)


def _on_all(
    hosts: Iterable[str], work: Callable[[str], Clearing], how: str, limit: float
) -> Cleared:
    """Do the work on every host at once and put answers and errors together."""
    names = {host: host for host in hosts}
    gathered = gather(how, names, work, timeout=limit)
    answers = [
        gathered.results[host]
        if host in gathered.results
        else Clearing(host, False, _words(gathered.errors[host]))
        for host in names
    ]
    return Cleared(all(answer.done for answer in answers), how, tuple(answers))


def _words(error: Exception) -> str:
    return error.what if isinstance(error, HcioError) else f"{type(error).__name__}: {error}"

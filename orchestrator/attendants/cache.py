"""Clears the cache before every case, and puts the hosts' settings back in every case.

What an earlier process saved and did not restore is restored when the walk begins, and by `clean`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from orchestrator.attendance import Attendance
from orchestrator.clearcache import (
    Cleared,
    clear_cache,
    drop_guest_caches,
    restore_hosts,
    unrestored_settings,
)
from orchestrator.errors import HcioError
from orchestrator.events import judge_cache
from orchestrator.osacache import USUAL_PACE, Opener, Pace
from orchestrator.progress import Notice, Report
from orchestrator.results import Reason
from orchestrator.store import RunFolder
from orchestrator.transport.base import Transport
from orchestrator.vsphere.facts import Architecture

#: Journal event: what clearing before a case did.
CLEARED: Final = "cache.cleared"
#: Seconds that an interrupted clearing gets to put its settings back itself.
PUT_BACK_S: Final = 60.0


@dataclass(frozen=True)
class Storage:
    """What holds the cache: vSAN's architecture (None: not vSAN), how each host is reached."""

    architecture: Architecture | None
    hosts: Mapping[str, Opener]


class CacheAttendant:
    """Attends by clearing."""

    name = "cache"

    def __init__(
        self,
        storage: Callable[[], Storage],
        opener: Callable[[str], Opener],
        guests: Callable[[Sequence[str]], Mapping[str, Transport]],
        report: Report,
        *,
        command: str | None = None,
        pace: Pace = USUAL_PACE,
    ) -> None:
        """`storage` may fail with an error of ours: then nothing is cleared, and the case says so.
        `opener` opens a host that the journal names, `guests` gives workers' open connections."""
        self._storage = storage
        self._opener = opener
        self._guests = guests
        self._report = report
        self._command = command
        self._stop = threading.Event()
        self._pace = replace(pace, sleep=self._rest, stopped=self._stop.is_set)
        self._sleep = pace.sleep
        self._folder: RunFolder | None = None
        self._at_work = False

    def open(self, folder: RunFolder) -> None:
        """Restore what an earlier process left changed."""
        self._folder = folder
        self._restore()

    def before(self, case: str, workers: Sequence[str]) -> None:
        """Clear, and drop the guests' page caches; the journal keeps what was done."""
        folder = self._folder
        if folder is None:
            return
        self._say(f"clearing the cache before {case}")
        self._at_work = True
        cleared = self._clear(folder)
        guests = drop_guest_caches(self._guests(workers))
        self._at_work = False
        folder.record(
            CLEARED,
            case=case,
            done=cleared.done,
            how=cleared.how,
            why=cleared.why,
            hosts=[asdict(host) for host in cleared.hosts],
            guests={"done": guests.done, "why": guests.why},
        )
        failed = cleared.done is False
        self._say(f"cache: {cleared.why}", warning=failed)

    def begin(self, case: str, workers: Sequence[str]) -> None:
        """Nothing."""

    def during(self) -> None:
        """Nothing."""

    def after(self, case: str, begin: float, end: float) -> Attendance:
        """What clearing before this case did, whichever process did it."""
        folder = self._folder
        events = folder.events() if folder is not None else []
        found = [e.fields for e in events if e.name == CLEARED and e.fields["case"] == case]
        if not found:
            reasons = judge_cache(True, False, "hcio died before it could say what it cleared")
            return Attendance(tuple(reasons), {"done": False})
        said = {key: value for key, value in found[-1].items() if key != "case"}
        reasons = judge_cache(True, said["done"], said["why"])
        if said["guests"]["done"] is False:
            reasons.append(_guest_cache(said["guests"]["why"]))
        return Attendance(tuple(reasons), said)

    def close(self) -> None:
        """Restore in every case: a clearing that was interrupted gets time to do it itself."""
        self._stop.set()
        if self._folder is None:
            return
        left = PUT_BACK_S
        while self._at_work and left > 0 and unrestored_settings(self._folder.events()):
            self._sleep(0.2)
            left -= 0.2
        self._restore()

    def _clear(self, folder: RunFolder) -> Cleared:
        try:
            storage = self._storage()
        except HcioError as error:
            return Cleared(False, error.what)
        return clear_cache(
            storage.architecture,
            storage.hosts,
            folder,
            command=self._command,
            unrestored=unrestored_settings(folder.events()),
            pace=self._pace,
            progress=self._say,
        )

    def _restore(self) -> None:
        if self._folder is not None:
            restored = restore_run(self._folder, self._opener, pace=self._pace)
            if restored is not None:
                self._say(f"cache settings: {restored.why}", warning=not restored.done)

    def _rest(self, seconds: float) -> None:
        """Sleep, unless told to stop: nothing is waited for any more then."""
        if not self._stop.is_set():
            self._sleep(seconds)

    def _say(self, text: str, warning: bool = False) -> None:
        self._report(Notice(text, warning))


def restore_run(
    folder: RunFolder, opener: Callable[[str], Opener], *, pace: Pace = USUAL_PACE
) -> Cleared | None:
    """Put back what a run's journal says is changed; None when nothing is."""
    pending = unrestored_settings(folder.events())
    if not pending:
        return None
    return restore_hosts(pending, {host: opener(host) for host in pending}, folder, pace=pace)


def _guest_cache(why: str) -> Reason:
    return Reason(
        code="guest_cache_kept",
        text="the workers' own page caches were not dropped before the case",
        level="note",
        evidence=why,
        next_step="direct I/O passes them by; buffered reads need workers with root or sudo",
    )

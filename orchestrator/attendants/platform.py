"""Watches the platform during every case: hosts' counters over the measured window, vSAN, events.

What can't be read is said, and ends nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from orchestrator.attendance import Attendance
from orchestrator.attendants.ground import Ground, Surveyor
from orchestrator.counters import Window
from orchestrator.errors import HcioError
from orchestrator.progress import Notice, Report
from orchestrator.results import Reason
from orchestrator.store import PLATFORM, RunFolder
from orchestrator.vsphere.watching import CaseWatch, Watched

#: Journal event: a case is watched from this instant, with its workers on these hosts.
WATCHED: Final = "platform.watched"


class PlatformAttendant:
    """Attends with a vCenter."""

    name = "platform"

    def __init__(
        self,
        surveyor: Surveyor,
        report: Report,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._surveyor = surveyor
        self._report = report
        self._clock = clock
        self._sleep = sleep
        self._folder: RunFolder | None = None
        self._ground: Ground | None = None
        self._trouble: HcioError | None = None
        self._watch: CaseWatch | None = None
        self._case = ""

    def open(self, folder: RunFolder) -> None:
        """Find the cluster; the facts of the start are kept once a run."""
        self._folder = folder
        try:
            self._ground = self._surveyor.ground()
        except HcioError as error:
            self._trouble = error
            self._say(f"the platform is not watched: {error.what}")
            return
        if self._ground.missing:
            self._say(f"no VM found of {', '.join(self._ground.missing)}")
        if folder.read(PLATFORM) is None:
            folder.write(PLATFORM, json.dumps(dict(self._ground.facts), indent=1) + "\n")

    def before(self, case: str, workers: Sequence[str]) -> None:
        """Nothing: state before a case is read when it is armed."""

    def begin(self, case: str, workers: Sequence[str]) -> None:
        """Note the state before the case; a case found under way is watched from its start on."""
        ground, folder = self._ground, self._folder
        if ground is None or folder is None:
            return
        machines = {name: ground.machines[name] for name in workers if name in ground.machines}
        watch = CaseWatch(
            ground.observer, ground.site, machines, clock=self._clock, sleep=self._rest
        )
        earlier = None if self._case == case else _earlier(folder, case)
        if earlier is None:
            watch.begin()
            folder.record(WATCHED, case=case, begun=watch.began, hosts=dict(watch.hosts))
        else:
            watch.rejoin(earlier["begun"], earlier["hosts"])
        self._watch, self._case = watch, case

    def during(self) -> None:
        """Fetch counters when it is time."""
        if self._watch is not None:
            self._watch.sample()

    def after(self, case: str, begin: float, end: float) -> Attendance:
        """Everything that the platform did meanwhile."""
        watch, self._watch = self._watch, None
        if watch is None or case != self._case:
            why = self._trouble.what if self._trouble is not None else "nobody watched the case"
            return Attendance((_unwatched(why),), {"warnings": [why]})
        watched = watch.end(Window(begin, end))
        self._note_hosts(watched)
        return Attendance(tuple(watched.reasons()), watched.document())

    def close(self) -> None:
        """Log out."""
        self._surveyor.close()

    def _note_hosts(self, watched: Watched) -> None:
        """Keep where the workers are after the latest case, beside where they were at the start."""
        folder = self._folder
        text = folder.read(PLATFORM) if folder is not None else None
        if folder is None or text is None:
            return
        facts: dict[str, Any] = json.loads(text)
        for name, host in watched.hosts_after.items():
            facts["workers"].setdefault(name, {})["host_end"] = host
        folder.write(PLATFORM, json.dumps(facts, indent=1) + "\n")

    def _rest(self, seconds: float) -> None:
        self._report(Notice(f"waiting {seconds:g} s for the hosts' last samples"))
        self._sleep(seconds)

    def _say(self, text: str) -> None:
        self._report(Notice(text, warning=True))


def _earlier(folder: RunFolder, case: str) -> dict[str, Any] | None:
    """How an earlier process began to watch a case; None when none did."""
    found = [e for e in folder.events() if e.name == WATCHED and e.fields["case"] == case]
    return dict(found[-1].fields) if found else None


def _unwatched(why: str) -> Reason:
    return Reason(
        code="platform_unknown",
        text="what the platform did during the case is not known",
        level="note",
        evidence=why,
        next_step="see that the vCenter is reachable, then run the case again",
    )

"""One trial's turn in a run: joined or started, watched, collected, with the attendants there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.arming import ROUNDS
from orchestrator.attendance import Attendant, keep_attendance
from orchestrator.engine import Fleet
from orchestrator.journal import collected_workers, last_arming
from orchestrator.progress import Notice
from orchestrator.spec import Lab
from orchestrator.store import RunFolder
from orchestrator.trial import Trial


@dataclass(frozen=True)
class Mode:
    """How a plan is walked. `start`: cases that run nowhere may be started. `wait`: cases that
    run are waited for. `detach`: leave once every case is armed, each at its own instant.
    `keep`: leave files on the workers when the run is over."""

    start: bool = True
    wait: bool = True
    detach: bool = False
    keep: bool = False


#: A walk to the end.
WHOLE = Mode()


class Turns:
    """Conducts trials one after the other. Attendants are told of those that are measured."""

    def __init__(
        self,
        folder: RunFolder,
        fleet: Fleet,
        lab: Lab,
        mode: Mode,
        attendants: Sequence[Attendant] = (),
    ) -> None:
        self.folder = folder
        self.fleet = fleet
        self.lab = lab
        self.mode = mode
        self.attendants = tuple(attendants)

    def run(self, trial: Trial) -> bool:
        """Join or start a case, watch it, collect it; False when it still runs or may not start."""
        self.fleet.revive(trial.spec.workers)
        attempt, t0, _ = last_arming(trial.spec.case, self.folder.events())
        if trial.arming.settle(t0, attempt):
            if not self.mode.wait and trial.crew.pending():
                self._say(f"case {trial.spec.case} still runs on the workers")
                return False
            self._attend(trial)
            trial.watch()
        elif not self.mode.start:
            self._say(f"case {trial.spec.case} was not started")
            return False
        else:
            self._start(trial, attempt)
        self.folder.record("case.ended", case=trial.spec.case)
        self.collect(trial)
        self._dismiss(trial)
        return True

    def _attend(self, trial: Trial) -> None:
        """Tell the attendants that a case is under way; what isn't measured isn't attended."""
        if trial.spec.phase == "measure":
            for attendant in self.attendants:
                attendant.begin(trial.spec.case, trial.spec.workers)
            trial.during = self._during

    def _during(self) -> None:
        for attendant in self.attendants:
            attendant.during()

    def _dismiss(self, trial: Trial) -> None:
        """Keep what the attendants have to say of a case that is over."""
        if trial.spec.phase != "measure" or trial.t0 is None:
            return
        begin = trial.t0 + trial.spec.ramp_s
        end = max(begin, min(self.lab.clock(), trial.t0 + (trial.spec.wall_s or 0.0)))
        for attendant in self.attendants:
            said = attendant.after(trial.spec.case, begin, end)
            keep_attendance(self.folder, trial.spec.case, attendant.name, said)

    def _start(self, trial: Trial, attempt: int) -> None:
        """Arm and watch; once more when nobody woke in time for T0, so that nothing ran."""
        if trial.spec.phase == "measure":
            for attendant in self.attendants:
                attendant.before(trial.spec.case, trial.spec.workers)
        for _ in range(ROUNDS):
            trial.arming.arm(attempt + 1)
            self._attend(trial)
            trial.watch()
            if not trial.crew.missed():
                return
            self._say(f"T0 of case {trial.spec.case} was missed by all", warning=True)
            attempt, _, _ = last_arming(trial.spec.case, self.folder.events())

    def collect(self, trial: Trial) -> None:
        """Fetch what hasn't been fetched yet."""
        events = self.folder.events()
        _, _, clocks = last_arming(trial.spec.case, events)
        trial.collect(clocks, collected_workers(trial.spec.case, events))

    def _say(self, text: str, *, warning: bool = False) -> None:
        self.lab.report(Notice(text, warning))

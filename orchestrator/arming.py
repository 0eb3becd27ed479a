"""Before T0: whether a case is under way already, and arming it for one instant on all workers."""

from __future__ import annotations

from typing import Final

from orchestrator.clocks import choose_start
from orchestrator.crew import Crew
from orchestrator.engine import Answers, unreachable
from orchestrator.errors import CommandTimedOut
from orchestrator.progress import Notice
from orchestrator.spec import Lab
from orchestrator.store import RunFolder
from orchestrator.worker.states import ArmReply

#: States of a case that fio was, is or will be run for.
STARTED: Final = frozenset({"armed", "running", "done", "lost"})
#: How often T0 is moved for workers that acknowledge too late, before they are left out.
ROUNDS: Final = 3
#: However far off T0 is, arming all workers takes no longer, in seconds.
ARM_S: Final = 120.0
#: Before T0, in seconds at the least: no worker acknowledges later, so that all can be taken back.
LEAST_GUARD_S: Final = 1.0
NEVER_ARMED: Final = "it was never armed: hcio died while it armed the others"


class Arming:
    """Arms one case, or finds it armed."""

    def __init__(self, crew: Crew, folder: RunFolder, lab: Lab) -> None:
        self.crew = crew
        self.fleet = crew.fleet
        self.spec = crew.spec
        self.watched = crew.watched
        self.folder = folder
        self.lab = lab
        #: the agreed start by the controller's clock; None before there is one, or not known
        self.t0: float | None = None

    def settle(self, known_start: float | None, attempt: int) -> bool:
        """Whether the case is under way. One that is armed only here and there is disarmed first:
        its controller died while it armed. Workers that were never reached then stay out."""
        states = self.crew.ask()
        started = {name for name, state in states.items() if state in STARTED}
        if started and len(started) < len(states):
            armed = [name for name in started if states[name] == "armed"]
            self.fleet.mark_broken(self.fleet.disarm(armed, self.spec.case).errors)
            states = self.crew.ask()
            started = {name for name, state in states.items() if state in STARTED}
            for name in states.keys() - started if started else ():
                self.watched.failed[name] = NEVER_ARMED
        if not started:
            return False
        self.t0 = known_start
        self.folder.record("case.joined", case=self.spec.case, attempt=attempt)
        return True

    def arm(self, first_attempt: int, at: float | None = None) -> None:
        """Arm every worker for one T0 (`at`, or as soon as all can be). NotEnoughWorkers when the
        policy's number is not reached; then nothing starts."""
        names = self.fleet.alive(self.spec.workers)
        self.fleet.mark_broken(self.fleet.read_clocks(names).errors)
        self.crew.require("clocks")
        lead = 0.0
        for attempt in range(first_attempt, first_attempt + ROUNDS):
            names = self.fleet.alive(self.spec.workers)
            guard = max(LEAST_GUARD_S, 2 * max(self.fleet.last_round_s, default=0.0))
            t0 = at or guard + lead + choose_start(
                self.lab.clock(),
                self.fleet.last_round_s,
                workers_at_once=self.fleet.at_once,
                workers=len(names),
            )
            late = self._arm_once(names, t0, attempt, guard)
            if not late:
                break
            last = attempt == first_attempt + ROUNDS - 1
            if last or at is not None or not self._take_back(names, late):
                self.fleet.mark_broken(dict.fromkeys(late, "it acknowledged too late for T0"))
                break
            self.lab.report(Notice(f"T0 is moved: {', '.join(late)} acknowledged too late", True))
            lead = 2 * lead + 5.0
        self.crew.require("arm", undo=True)
        self.folder.record("case.armed", case=self.spec.case, workers=len(self.crew.participants()))

    def _take_back(self, names: list[str], late: list[str]) -> bool:
        """Disarm those that did acknowledge; False when one of them has started already."""
        armed = [name for name in names if name not in late]
        answers = self.fleet.disarm(armed, self.spec.case)
        self.fleet.mark_broken(answers.errors)
        self.watched.take(Answers(answers.results))
        return all(state.state == "staged" for state in answers.results.values())

    def _arm_once(self, names: list[str], t0: float, attempt: int, guard: float) -> list[str]:
        """Arm these for one instant; returns those that were too late for it, while there is still
        time (half of `guard`, in seconds) to take the others back."""
        clocks = {n: c for n in names if (c := self.fleet.members[n].clock) is not None}
        self.folder.record(
            "case.arming",
            case=self.spec.case,
            attempt=attempt,
            t0=t0,
            clocks={n: [c.offset_s, c.uncertainty_s] for n, c in clocks.items()},
        )
        answers = self.fleet.arm(
            names,
            self.spec.case,
            t0=t0,
            deadline_s=self.spec.deadline_s,
            attempt=attempt,
            margin_s=guard,
            within=min(ARM_S, max(guard / 2, t0 - self.lab.clock() - guard / 2)),
        )
        self.t0 = t0
        return self._sort(answers)

    def _sort(self, answers: Answers[ArmReply]) -> list[str]:
        """Note who is armed, silent or broken; returns those that were too late."""
        late = [n for n, e in answers.errors.items() if isinstance(e, CommandTimedOut)]
        for name in late:
            del answers.errors[name]
        # A worker that did not answer may be armed all the same: it is watched like the others.
        self.watched.silent = {n: e for n, e in answers.errors.items() if unreachable(e)}
        self.fleet.mark_broken({n: e for n, e in answers.errors.items() if not unreachable(e)})
        fresh = {n: r.state for n, r in answers.results.items() if r.answer == "armed"}
        self.watched.states = fresh
        for name, reply in answers.results.items():
            if reply.answer == "late":
                late.append(name)
            elif not reply.armed:
                why = f": {reply.why}" if reply.why else ""
                self.fleet.mark_broken({name: f"it could not be armed ({reply.answer}{why})"})
        return late

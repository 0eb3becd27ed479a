"""One case on its workers: armed for one instant, watched, ended, collected.

A case that was started anywhere is never started again: whoever comes later (a `resume` after a
crash, a `collect`) joins it. Only a case that provably runs nowhere is armed anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from orchestrator.arming import Arming
from orchestrator.clocks import ClockReading
from orchestrator.crew import Crew
from orchestrator.engine import Fleet
from orchestrator.harvest import Harvest
from orchestrator.journal import CASE_STOPPED
from orchestrator.plan import Plan
from orchestrator.progress import Notice, Snapshot
from orchestrator.spec import Lab, Spec
from orchestrator.steady import decide, judge_samples
from orchestrator.store import RunFolder

#: From a worker's deadline to its KILL, in seconds (the worker program's own grace).
KILL_S: Final = 10.0
#: After that a worker has half the plan's grace, at least so long, to answer.
LEAST_PATIENCE_S: Final = 10.0


class Trial:
    """Conducts one case."""

    def __init__(self, spec: Spec, plan: Plan, fleet: Fleet, folder: RunFolder, lab: Lab) -> None:
        self.spec = spec
        self.plan = plan
        self.fleet = fleet
        self.folder = folder
        self.lab = lab
        self.crew = Crew(spec, plan, fleet)
        self.watched = self.crew.watched
        self.arming = Arming(self.crew, folder, lab)
        #: told after every look at the workers
        self.during: Callable[[], None] = _nothing
        #: ended, or to be ended, because it is steady
        self.steady = False
        self._decide_s = 0.0 if spec.until is None else spec.until.window

    @property
    def t0(self) -> float | None:
        """The agreed start by the controller's clock; None before there is one, or not known."""
        return self.arming.t0

    def watch(self) -> None:
        """Ask until every worker is over, or its deadline is long past."""
        t0 = self.t0 if self.t0 is not None else self.lab.clock()
        patience = max(LEAST_PATIENCE_S, self.plan.grace / 2)
        give_up = t0 + self.spec.deadline_s + KILL_S + patience
        checked = self.spec.fast_fail_s <= 0
        self._tell(self.lab.clock())
        self._sleep_until(t0 + min(1.0, (self.spec.wall_s or 1.0) / 2))
        while pending := self.crew.pending():
            self.watched.take(self.fleet.poll(pending, self.spec.case))
            now = self.lab.clock()
            self._tell(now)
            self.during()
            if not checked and now >= t0 + self.spec.fast_fail_s:
                checked = True
                self._fast_fail(pending)
            self._until_steady(now, t0)
            if now >= give_up:
                return
            if any(not self.watched.over(n) for n in pending):
                self.lab.sleep(self._pause(now, t0))

    def _sleep_until(self, instant: float) -> None:
        left = instant - self.lab.clock()
        if left > 0:
            self.lab.sleep(left)

    def _pause(self, now: float, t0: float) -> float:
        """Seconds to the next question: the interval, but soon after the expected end."""
        wall = self.spec.wall_s
        interval = self.lab.poll_s or min(10.0, max(1.0, (wall or 60.0) / 30))
        if self.spec.until is not None:
            interval = min(interval, self.spec.until.window / 20)
        if wall is None:
            return min(interval, 1.0) if self.lab.poll_s is None else interval
        end = t0 + wall
        if now < end:
            return max(0.05, min(interval, end + 0.2 - now))
        return min(interval, 1.0 if now > end + 5 else 0.3)

    def _fast_fail(self, pending: list[str]) -> None:
        """Name the workers that do no I/O; stop the case when the policy can't go on without."""
        idle = [
            name
            for name in pending
            if name not in self.watched.doing_io and name not in self.watched.silent
        ]
        if not idle:
            return
        after = f"{self.spec.fast_fail_s:g} s"
        self.folder.record("case.idle", case=self.spec.case, workers=idle)
        self.lab.report(Notice(f"no I/O {after} after T0: {', '.join(idle)}", True))
        if not self.crew.enough_without(len({*idle, *self.crew.missing()})):
            self.watched.failed.update({name: f"no I/O {after} after T0" for name in idle})
            self.stop()

    def _until_steady(self, now: float, t0: float) -> None:
        """After each whole window: end the case when it is steady, or let it go on to its cap."""
        until, measured = self.spec.until, now - t0 - self.spec.ramp_s
        if until is None or self.steady:
            return
        self.watched.note_rate(now, self.crew.participants())
        if measured < self._decide_s:
            return
        latest = judge_samples(self.watched.rates, now, until.rule)
        decision = decide(self._decide_s, latest, until.rule, until.cap)
        self.lab.report(Notice(f"case {self.spec.case}: {decision.reason}"))
        self._decide_s = decision.until_s if decision.go_on else float("inf")
        if not decision.go_on:
            self.steady = decision.ended_by == "steady"
            self.folder.record(
                "case.decided",
                case=self.spec.case,
                ended_by=decision.ended_by,
                measured_s=measured,
                reason=decision.reason,
            )
        if self.steady:
            self.stop()

    def stop(self) -> None:
        """End the case on every worker; fio writes what it has."""
        names = [n for n in self.fleet.alive(self.spec.workers) if not self.watched.over(n)]
        self.watched.silent = dict(self.fleet.stop(names, self.spec.case).errors)
        self.watched.take(self.fleet.poll(names, self.spec.case))
        self.folder.record(CASE_STOPPED, case=self.spec.case)

    def _tell(self, now: float) -> None:
        t0 = self.t0 if self.t0 is not None else now
        self.lab.report(self.crew.snapshot(now, t0))

    def collect(self, clocks: Mapping[str, ClockReading], skip: frozenset[str]) -> None:
        """Fetch every worker's files and keep them; what can't be fetched is named with its reason.

        `clocks` are those that T0 was computed with; `skip` was collected before.
        """
        self.lab.report(Snapshot(self.spec.case, self.spec.position, self.spec.cases, "collect"))
        harvest = Harvest(self.crew, self.folder, self.t0, steady=self.steady)
        harvest.collect(clocks, skip)


def _nothing() -> None:
    """Nobody wants to be told."""

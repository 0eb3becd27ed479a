"""One case on its workers: armed for one instant, watched, ended, collected.

A case that was started anywhere is never started again: whoever comes later (a `resume` after a
crash, a `collect`) joins it. Only a case that provably runs nowhere is armed anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.clocks import ClockReading, choose_start
from orchestrator.collected import Ended, raw_files
from orchestrator.endings import ended_by, outcome_of, started_at
from orchestrator.engine import Answers, Fleet, unreachable
from orchestrator.errors import CommandTimedOut, HcioError
from orchestrator.plan import Plan
from orchestrator.preparation import fill_progress
from orchestrator.progress import Notice, Phase, Report, Snapshot
from orchestrator.steady import decide, judge_samples
from orchestrator.store import RunFolder
from orchestrator.suites import Until
from orchestrator.watch import Watch
from orchestrator.worker.session import Fetched
from orchestrator.worker.states import CaseState

#: States of a case that fio was, is or will be run for.
STARTED = frozenset({"armed", "running", "done", "lost"})
OVER = frozenset({"done", "lost"})
#: How often T0 is moved for workers that acknowledge too late, before they are left out.
ROUNDS = 3
#: From a worker's deadline to its KILL, in seconds (the worker program's own grace).
KILL_S = 10.0
#: After that a worker has half the plan's grace, at least so long, to answer.
LEAST_PATIENCE_S = 10.0
#: However far off T0 is, arming all workers takes no longer, in seconds.
ARM_S = 120.0
#: Before T0, in seconds at the least: no worker acknowledges later, so that all can be taken back.
LEAST_GUARD_S = 1.0


@dataclass(frozen=True)
class Lab:
    """The world that a run needs: a clock (seconds since the epoch), sleep, who is told, how often
    the workers are asked (seconds)."""

    clock: Callable[[], float]
    sleep: Callable[[float], None]
    report: Report
    poll_s: float | None = None


@dataclass(frozen=True)
class Spec:
    """What is run: a case (or the fill), on whom, for how long. Seconds."""

    case: str
    phase: Phase
    workers: tuple[str, ...]
    groups: Mapping[str, str]
    seeds: Mapping[str, int]
    ramp_s: float
    wall_s: float | None
    deadline_s: float
    fast_fail_s: float
    until: Until | None = None
    position: int = 0
    cases: int = 0
    #: of a fill: the bytes that each worker writes
    fill_bytes: Mapping[str, int] = field(default_factory=dict)


class NotEnoughWorkers(HcioError):
    """Too few workers are left for the suite's policy; `missing` holds the reason for each."""

    exit_code = 4

    def __init__(self, step: str, missing: Mapping[str, str], needed: int, workers: int) -> None:
        lines = [f"{step}: {workers - len(missing)} of {workers} workers left, {needed} needed"]
        lines += [f"  {name}: {reason}" for name, reason in sorted(missing.items())]
        super().__init__(
            "\n".join(lines),
            means="the suite's policy does not allow to go on without them",
            next_step="mend these workers and `hcio resume`, or allow fewer (policy.quorum=90%)",
        )
        self.missing = dict(missing)


class Trial:
    """Conducts one case."""

    def __init__(self, spec: Spec, plan: Plan, fleet: Fleet, folder: RunFolder, lab: Lab) -> None:
        self.spec = spec
        self.plan = plan
        self.fleet = fleet
        self.folder = folder
        self.lab = lab
        self.t0: float | None = None
        self.watched = Watch()
        #: told after every look at the workers
        self.during: Callable[[], None] = _nothing
        #: ended, or to be ended, because it is steady
        self.steady = False
        self._decide_s = 0.0 if spec.until is None else spec.until.window

    # -- before T0 ---------------------------------------------------------------------------------

    def ask(self) -> dict[str, str]:
        """The case's state on every worker that can be asked."""
        answers = self.fleet.poll(self.fleet.alive(self.spec.workers), self.spec.case)
        self.fleet.mark_broken(answers.errors)
        self.watched.take(answers)
        return {name: state.state for name, state in answers.results.items()}

    def settle(self, known_start: float | None, attempt: int) -> bool:
        """Whether the case is under way. One that is armed only here and there is disarmed first:
        its controller died while it armed. Workers that were never reached then stay out."""
        states = self.ask()
        started = {name for name, state in states.items() if state in STARTED}
        if started and len(started) < len(states):
            armed = [name for name in started if states[name] == "armed"]
            self.fleet.mark_broken(self.fleet.disarm(armed, self.spec.case).errors)
            states = self.ask()
            started = {name for name, state in states.items() if state in STARTED}
            for name in states.keys() - started if started else ():
                self.watched.failed[name] = (
                    "it was never armed: hcio died while it armed the others"
                )
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
        self.require("clocks")
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
        self.require("arm", undo=True)
        self.folder.record("case.armed", case=self.spec.case, workers=len(self.participants()))

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

    def participants(self) -> list[str]:
        """The workers that (may) run the case."""
        out = self.watched.failed
        return [name for name in self.fleet.alive(self.spec.workers) if name not in out]

    def require(self, step: str, *, undo: bool = False) -> None:
        """NotEnoughWorkers when the policy's number of workers isn't left."""
        missing = {**self.fleet.broken(self.spec.workers), **self.watched.failed}
        total = len(self.spec.workers)
        needed = self.plan.policy.needed(total)
        if total - len(missing) < needed:
            if undo:
                self.fleet.disarm(self.participants(), self.spec.case)
            raise NotEnoughWorkers(f"case {self.spec.case}: {step}", missing, needed, total)

    def missed(self) -> bool:
        """Whether nobody started although all were armed: then the case ran nowhere."""
        states = [self.watched.states.get(name) for name in self.participants()]
        return bool(states) and all(s is not None and s.state == "staged" for s in states)

    # -- from T0 to the end ------------------------------------------------------------------------

    def watch(self) -> None:
        """Ask until every worker is over, or its deadline is long past."""
        t0 = self.t0 if self.t0 is not None else self.lab.clock()
        patience = max(LEAST_PATIENCE_S, self.plan.grace / 2)
        give_up = t0 + self.spec.deadline_s + KILL_S + patience
        checked = self.spec.fast_fail_s <= 0
        self._tell(self.lab.clock())
        self._sleep_until(t0 + min(1.0, (self.spec.wall_s or 1.0) / 2))
        while pending := [n for n in self.participants() if not self.watched.over(n)]:
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
        total = len(self.spec.workers)
        missing = {*idle, *self.watched.failed, *self.fleet.broken(self.spec.workers)}
        if total - len(missing) < self.plan.policy.needed(total):
            self.watched.failed.update({name: f"no I/O {after} after T0" for name in idle})
            self.stop()

    def _until_steady(self, now: float, t0: float) -> None:
        """After each whole window: end the case when it is steady, or let it go on to its cap."""
        until, measured = self.spec.until, now - t0 - self.spec.ramp_s
        if until is None or self.steady:
            return
        self.watched.note_rate(now, self.participants())
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
        self.folder.record("case.stopped", case=self.spec.case)

    def _tell(self, now: float) -> None:
        t0 = self.t0 if self.t0 is not None else now
        states: dict[str, int] = {}
        for name in self.spec.workers:
            states[self._word(name)] = states.get(self._word(name), 0) + 1
        etas = [s.eta for s in self.watched.states.values() if s.eta and s.state == "running"]
        iops = [e.total_iops for e in etas if e.total_iops is not None]
        rates = [e.total_bytes_per_s for e in etas if e.total_bytes_per_s is not None]
        measuring = now >= t0 + self.spec.ramp_s
        phase = self.spec.phase
        if phase == "measure":
            phase = "arm" if now < t0 else "measure" if measuring else "ramp"
        self.lab.report(
            Snapshot(
                case=self.spec.case,
                position=self.spec.position,
                cases=self.spec.cases,
                phase=phase,
                states=states,
                iops=sum(iops) if iops else None,
                bytes_per_s=sum(rates) if rates else None,
                **self._left(t0, now),
            )
        )

    def _left(self, t0: float, now: float) -> dict[str, Any]:
        """What is left, as fields of a snapshot: seconds, and bytes of a fill."""
        if not self.spec.fill_bytes:
            wall = self.spec.wall_s
            return {"left_s": None if wall is None else max(0.0, t0 + wall - now)}
        states = self.watched.states
        written = {n: s.io_bytes for n, s in states.items() if s.state == "running"}
        over = {n: size for n, size in self.spec.fill_bytes.items() if self.watched.over(n)}
        elapsed = {n: s.elapsed_s for n, s in states.items()}
        far = fill_progress(self.spec.fill_bytes, {**written, **over}, elapsed)
        return {
            "written_bytes": far.written_bytes,
            "total_bytes": far.total_bytes,
            "left_s": far.seconds_left,
        }

    def _word(self, name: str) -> str:
        """One word for a worker's state, for people."""
        if self.fleet.members[name].broken is not None:
            return "broken"
        if name in self.watched.silent:
            return "silent"
        state = self.watched.states.get(name)
        return state.state if state is not None else "armed"

    # -- after it ----------------------------------------------------------------------------------

    def collect(self, clocks: Mapping[str, ClockReading], skip: frozenset[str]) -> None:
        """Fetch every worker's files and keep them; what can't be fetched is named with its reason.

        `clocks` are those that T0 was computed with; `skip` was collected before.
        """
        self.lab.report(Snapshot(self.spec.case, self.spec.position, self.spec.cases, "collect"))
        names = [n for n in self.fleet.alive(self.spec.workers) if n not in skip]
        unknown = [n for n in names if not self.watched.over(n)]
        self.watched.take(self.fleet.poll(unknown, self.spec.case))
        reached = [n for n in names if self._worth_fetching(n)]

        def keep(name: str, fetched: Fetched) -> None:
            state = self.watched.states.get(name, fetched.state)
            self._keep(self._ended(name, state, clocks.get(name)), fetched.files)

        answers = self.fleet.fetch(reached, self.spec.case, keep)
        for name in self.spec.workers:
            if name in skip or name in answers.results:
                continue
            error = answers.errors.get(name) or self.watched.silent.get(name)
            state = self.watched.states.get(name)
            ended = self._ended(name, state, clocks.get(name), error)
            self._keep(ended, {})

    def _worth_fetching(self, name: str) -> bool:
        if name in self.watched.silent:
            return False
        state = self.watched.states.get(name)
        return state is None or state.state in STARTED

    def _keep(self, ended: Ended, files: Mapping[str, bytes]) -> None:
        self.folder.write_raw(self.spec.case, ended.worker, raw_files(ended, files))
        self.folder.record(
            "worker.collected",
            case=self.spec.case,
            worker=ended.worker,
            outcome=ended.outcome,
            reason=ended.reason,
        )

    def _ended(
        self,
        name: str,
        state: CaseState | None,
        clock: ClockReading | None,
        error: HcioError | None = None,
    ) -> Ended:
        member = self.fleet.members[name]
        outcome, reason = self._judge(name, state, error)
        ending = state.ending if state is not None else None
        if self.steady and ending is not None and ending.by == "stopped":
            # Ended by us with all that was asked for; fio's status after a TERM is 128.
            outcome, reason = "done", None
            ending = replace(ending, by="steady", exit=0)
        return Ended(
            worker=name,
            outcome=outcome,
            reason=reason,
            group=self.spec.groups.get(name),
            host=member.worker.host_label,
            attempt=state.attempt if state is not None else None,
            state=state.state if state is not None else "",
            exit_status=ending.exit if ending is not None else None,
            ended_by=ended_by(ending),
            t0=None if self.t0 is None or clock is None else clock.to_worker(self.t0),
            started=state.began if ending is None and state is not None else started_at(state),
            ended=ending.ended if ending is not None else None,
            clock_offset_s=clock.offset_s if clock is not None else None,
            clock_uncertainty_s=clock.uncertainty_s if clock is not None else None,
            clock_step_s=ending.clock_step_s if ending is not None else None,
            fio_version=member.facts.fio_version if member.facts is not None else None,
            targets={target.label: target.path for target in member.targets},
            seed=self.spec.seeds.get(name),
        )

    def _judge(
        self, name: str, state: CaseState | None, error: HcioError | None
    ) -> tuple[str, str | None]:
        """A worker's outcome and its reason. fio's own failures are the analysis's to judge."""
        if name in self.watched.failed:
            return "failed", self.watched.failed[name]
        if (broken := self.fleet.members[name].broken) is not None:
            return "broken", broken
        if error is not None:
            return "broken", error.what
        if state is None:
            return "broken", "it did not answer"
        return outcome_of(state)


def _nothing() -> None:
    """Nobody wants to be told."""

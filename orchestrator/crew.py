"""The workers of a case: who is in it, who is out of it and why, what they are doing."""

from __future__ import annotations

from typing import Any

from orchestrator.engine import Fleet
from orchestrator.plan import Plan
from orchestrator.preparation import fill_progress
from orchestrator.progress import Snapshot
from orchestrator.spec import NotEnoughWorkers, Spec
from orchestrator.watch import Watch


class Crew:
    """One case's workers, with what is known of them while it runs."""

    def __init__(self, spec: Spec, plan: Plan, fleet: Fleet) -> None:
        self.spec = spec
        self.plan = plan
        self.fleet = fleet
        self.watched = Watch()

    def ask(self) -> dict[str, str]:
        """The case's state on every worker that can be asked."""
        answers = self.fleet.poll(self.fleet.alive(self.spec.workers), self.spec.case)
        self.fleet.mark_broken(answers.errors)
        self.watched.take(answers)
        return {name: state.state for name, state in answers.results.items()}

    def participants(self) -> list[str]:
        """The workers that (may) run the case."""
        out = self.watched.failed
        return [name for name in self.fleet.alive(self.spec.workers) if name not in out]

    def pending(self) -> list[str]:
        """The participants that are not over yet."""
        return [name for name in self.participants() if not self.watched.over(name)]

    def missing(self) -> dict[str, str]:
        """The workers that are out of the case, each with its reason."""
        return {**self.fleet.broken(self.spec.workers), **self.watched.failed}

    def enough_without(self, missing: int) -> bool:
        """Whether the suite's policy lets the case go on without so many workers."""
        total = len(self.spec.workers)
        return total - missing >= self.plan.policy.needed(total)

    def require(self, step: str, *, undo: bool = False) -> None:
        """NotEnoughWorkers when the policy's number of workers isn't left; `undo` disarms first."""
        missing = self.missing()
        if self.enough_without(len(missing)):
            return
        if undo:
            self.fleet.disarm(self.participants(), self.spec.case)
        total = len(self.spec.workers)
        needed = self.plan.policy.needed(total)
        raise NotEnoughWorkers(f"case {self.spec.case}: {step}", missing, needed, total)

    def missed(self) -> bool:
        """Whether nobody started although all were armed: then the case ran nowhere."""
        states = [self.watched.states.get(name) for name in self.participants()]
        return bool(states) and all(s is not None and s.state == "staged" for s in states)

    def snapshot(self, now: float, t0: float) -> Snapshot:
        """What is going on, for people."""
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
        return Snapshot(
            case=self.spec.case,
            position=self.spec.position,
            cases=self.spec.cases,
            phase=phase,
            states=states,
            iops=sum(iops) if iops else None,
            bytes_per_s=sum(rates) if rates else None,
            **self._left(t0, now),
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

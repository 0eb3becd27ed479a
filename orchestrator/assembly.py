"""Before the first case: workers connected and looked at, targets judged, staged and filled."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.arming import STARTED
from orchestrator.engine import Fleet
from orchestrator.fills import Fills, Todo
from orchestrator.journal import PREPARED, finished_cases
from orchestrator.plan import PREPARE, Plan, filled
from orchestrator.progress import Notice
from orchestrator.spec import Lab, NotEnoughWorkers
from orchestrator.staging import staged_cases
from orchestrator.store import RunFolder
from orchestrator.suites import Case
from orchestrator.trial import Trial
from orchestrator.turn import Turns


class Assembly:
    """Gets the workers of a plan ready. NotEnoughWorkers as soon as too few are left."""

    def __init__(self, plan: Plan, folder: RunFolder, fleet: Fleet, lab: Lab, turns: Turns) -> None:
        self.plan = plan
        self.folder = folder
        self.fleet = fleet
        self.lab = lab
        self.turns = turns
        self.fills = Fills(plan, folder, fleet, lab)
        self._to_fill: Todo = {}
        self._named: set[str] = set()

    def connect(self) -> None:
        """Open a connection to every worker."""
        self._say(f"connecting to {_count(self.plan.workers)}")
        self.fleet.mark_broken(self.fleet.connect().errors)
        self._require("connect")

    def assemble(self) -> None:
        """Ask for facts, judge the targets, make files that are missing."""
        for step, question in (
            ("facts", self.fleet.look),
            ("targets", self.fleet.judge_targets),
            ("make files", self.fleet.make_files),
        ):
            self.fleet.mark_broken(question(self.fleet.alive()).errors)
            self._require(step)
        self.folder.record("run.assembled", broken=self.fleet.broken())

    def stage(self) -> None:
        """Put every job file that is left on every worker."""
        over = finished_cases(self.folder.events())
        todo = [case for case in self.plan.cases if case.id not in over]
        self._say(f"staging {_count(todo, 'case')} on {_count(self.fleet.alive())}")
        self._to_fill = {} if self._prepared() else self.fills.decide()
        answers = self.fleet.stage(
            self.fleet.alive(),
            lambda m: staged_cases(self.plan, m, todo, fill=self._to_fill.get(m.name, ())),
        )
        self.fleet.mark_broken(answers.errors)
        self._require("stage")
        self.folder.record("run.staged", cases=len(todo), workers=len(self.fleet.alive()))

    def _prepared(self) -> bool:
        return any(event.name == PREPARED for event in self.folder.events())

    def prepare(self) -> None:
        """Fill the targets that the plan wants filled, once a run."""
        members = self.fleet.members
        names = [n for n in self.fleet.alive() if filled(self.plan, members[n].worker)]
        if not names or self._prepared():
            return
        todo = {n: labels for n, labels in self._to_fill.items() if n in self.fleet.alive()}
        if todo:
            self._say(f"filling the targets of {_count(list(todo))}")
            self.fills.forget(todo)
            for wave in self._waves(todo):
                self._fill(wave)
                self.fills.prove(wave)
            self._require("prepare")
        self.folder.record(PREPARED, workers=len(self.fleet.alive(names)), filled=len(todo))

    def _waves(self, todo: Todo) -> list[Todo]:
        """Who is filled together: first those that an earlier process left at it, then so many at
        a time as the plan wants."""
        states = self.fleet.poll(list(todo), PREPARE).results
        at_it = [name for name, state in states.items() if state.state in STARTED]
        rest = [name for name in todo if name not in at_it]
        size = self.plan.prepare.at_once or max(1, len(rest))
        waves = [at_it] if at_it else []
        waves += [rest[first : first + size] for first in range(0, len(rest), size)]
        return [{name: todo[name] for name in wave} for wave in waves]

    def _fill(self, wave: Todo) -> None:
        fill = Trial(self.fills.spec(wave), self.plan, self.fleet, self.folder, self.lab)
        try:
            self.turns.run(fill)
        except KeyboardInterrupt:
            self._say("stopping the fill on the workers")
            fill.stop()
            raise

    def stage_also(self, case: Case, plan: Plan) -> None:
        """Stage a case that was decided on later, on the workers that are left."""
        answers = self.fleet.stage(
            self.fleet.alive(), lambda m: staged_cases(plan, m, [case], fill=())
        )
        self.fleet.mark_broken(answers.errors)
        self._require("stage")

    def _require(self, step: str) -> None:
        broken = self.fleet.broken()
        total = len(self.plan.workers)
        needed = self.plan.policy.needed(total)
        if total - len(broken) < needed:
            self.folder.record("run.broken", step=step, broken=broken)
            raise NotEnoughWorkers(step, broken, needed, total)
        for name in broken.keys() - self._named:
            self._named.add(name)
            self._say(f"{name} is left out: {broken[name]}", warning=True)

    def _say(self, text: str, *, warning: bool = False) -> None:
        self.lab.report(Notice(text, warning))


def _count(things: Sequence[object], word: str = "worker") -> str:
    return f"{len(things)} {word}" + ("" if len(things) == 1 else "s")

"""The conductor: walks a plan from the first connection to the result, and can be killed anywhere.

    assemble    connect, facts, targets judged, files made
    stage       every job file of every case on every worker, checked by fio there
    prepare     the fill, once
    cases       in order: armed, watched, collected, judged
    finish      result.json; the workers are cleaned unless told otherwise

After each step the journal says so. `run`, `resume` and `collect` are one walk: what the journal
says is over is not done again, what runs on the workers is joined, the rest is done.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.agenda import Next, agenda_of, record_probe
from orchestrator.assembly import Assembly
from orchestrator.assessment import assess_case, assess_run
from orchestrator.attendance import Attendant
from orchestrator.engine import Fleet
from orchestrator.errors import ConfigError
from orchestrator.journal import (
    CASE_FINISHED,
    WARMED_UP,
    collected_workers,
    decided,
    finished_cases,
    last_arming,
)
from orchestrator.plan import Plan, assignments, ramp_seconds, wall_seconds, warm_up_id
from orchestrator.progress import Notice
from orchestrator.repetition import another_repeat
from orchestrator.results import CaseResult, RunResult, write_result
from orchestrator.spec import Lab, NotEnoughWorkers, Spec
from orchestrator.steady import longest_s
from orchestrator.store import RESULT, RunFolder
from orchestrator.suites import Case
from orchestrator.trial import Trial
from orchestrator.turn import WHOLE, Mode, Turns

#: Between the latest end of a detached case and the start of the next one, in seconds.
DETACHED_GAP_S = 15.0


class Interrupted(Exception):
    """The user ended the run: the case at work was stopped and collected. `result` is the rest."""

    def __init__(self, result: RunResult) -> None:
        super().__init__("interrupted")
        self.result = result


class Conductor:
    """Walks one plan."""

    def __init__(
        self,
        plan: Plan,
        folder: RunFolder,
        fleet: Fleet,
        lab: Lab,
        mode: Mode = WHOLE,
        attendants: Sequence[Attendant] = (),
    ) -> None:
        self.plan = plan
        self.folder = folder
        self.fleet = fleet
        self.lab = lab
        self.mode = mode
        self.attendants = tuple(attendants)
        self.turns = Turns(folder, fleet, lab, mode, self.attendants)
        self.assembly = Assembly(plan, folder, fleet, lab, self.turns)
        self.agenda = agenda_of(plan)

    def conduct(self) -> RunResult | None:
        """Walk the plan to its end and return the result; None when it was left running (detached,
        or not waited for). NotEnoughWorkers when the lab doesn't allow a single case; Interrupted
        on Ctrl-C. Whatever was collected is in the folder in every case."""
        with self.folder.conducting():
            again = bool(self.folder.events())
            self.folder.record("run.resumed" if again else "run.started", suite=self.plan.suite)
            try:
                for attendant in self.attendants:
                    attendant.open(self.folder)
                return self._walk()
            finally:
                for attendant in self.attendants:
                    attendant.close()
                self.fleet.close()

    def _walk(self) -> RunResult | None:
        if self._is_over():
            return self._write_result()
        self.assembly.connect()
        trial: Trial | None = None
        try:
            if self.mode.start:
                self.assembly.assemble()
                self.assembly.stage()
                self.assembly.prepare()
                if self.mode.detach:
                    self._refuse_to_leave()
                    self._detach()
                    return None
            while (planned := self.agenda.next(self.plan, self.folder)) is not None:
                if not self._admit(planned):
                    return None
                if self._enough(planned.case.id):
                    continue
                self._pause(trial)
                trial = self._trial(planned.case)
                if not self._case(trial):
                    return None
        except KeyboardInterrupt:
            return self._interrupted(trial)
        return self._finish()

    def _is_over(self) -> bool:
        """Whether the run was finished and has nothing left to clean: then no worker is needed."""
        names = {event.name for event in self.folder.events()}
        return "run.finished" in names and (self.mode.keep or "run.cleaned" in names)

    # -- cases --------------------------------------------------------------------------------

    def _enough(self, case: str) -> bool:
        """Whether a planned repeat isn't wanted any more: the interval is narrow enough."""
        events = self.folder.events()
        over = [c for c in self.plan.cases if c.id in finished_cases(events)]
        if self.plan.repeats.gate is None:
            return False
        earlier = [assess_case(self.plan, c, self.folder, events) for c in over]
        decision = another_repeat(case, earlier, self.plan.repeats)
        if decision is None or decision.go_on:
            return False
        self._say(f"case {case} is not needed: {decision.text}")
        self.folder.record(CASE_FINISHED, case=case, outcome="skipped", why=decision.text)
        return True

    def _admit(self, planned: Next) -> bool:
        """Take a case that was decided just now into the plan and stage it; False when this walk
        may not start any."""
        if planned.probe is None:
            return True
        if not self.mode.start:
            self._say("the search is not at its end; `hcio resume` goes on with it")
            return False
        record_probe(self.folder, planned)
        self.plan = self.plan.model_copy(update={"cases": (*self.plan.cases, planned.case)})
        self._say(f"{planned.probe.purpose}: {planned.case.id}")
        self.assembly.stage_also(planned.case, self.plan)
        return True

    def _trial(self, case: Case, *, warm_up: bool = False) -> Trial:
        parts = assignments(self.plan, case)
        if warm_up and self.plan.warm_up is not None:
            longest = longest_s(self.plan.warm_up.rule, self.plan.warm_up.cap)
            ramp, wall = 0.0, longest
        else:
            ramp, wall = ramp_seconds(case), wall_seconds(case)
        spec = Spec(
            case=warm_up_id(case.id) if warm_up else case.id,
            phase="warm up" if warm_up else "measure",
            workers=tuple(part.worker.name for part in parts),
            groups={part.worker.name: part.group for part in parts},
            seeds={part.worker.name: part.seed for part in parts},
            ramp_s=ramp,
            wall_s=wall,
            deadline_s=wall + self.plan.grace,
            fast_fail_s=self.plan.fast_fail,
            until=self.plan.warm_up if warm_up else self.plan.until,
            position=1 + [one.id for one in self.plan.cases].index(case.id),
            cases=len(self.plan.cases),
        )
        trial = Trial(spec, self.plan, self.fleet, self.folder, self.lab)
        trial.steady = decided(spec.case, self.folder.events()) == "steady"
        return trial

    def _case(self, trial: Trial) -> bool:
        """Conduct one case; False when it is left running."""
        try:
            if not self._warm_up(trial) or not self.turns.run(trial):
                return False
        except NotEnoughWorkers as error:
            self._say(str(error), warning=True)
            trial.watched.failed.clear()
            trial.collect({}, collected_workers(trial.spec.case, self.folder.events()))
        self._close_case(trial)
        return True

    def _warm_up(self, trial: Trial) -> bool:
        """Run the case unmeasured until it is steady, once; False when that still runs."""
        name = warm_up_id(trial.spec.case)
        events = self.folder.events()
        done = any(e.name == WARMED_UP and e.fields["case"] == trial.spec.case for e in events)
        if (
            self.plan.warm_up is None
            or done
            or last_arming(trial.spec.case, self.folder.events())[0]
        ):
            return True
        warm = self._trial(self.plan.case(trial.spec.case), warm_up=True)
        if not self.turns.run(warm):
            return False
        ended_by = decided(name, self.folder.events()) or "cap"
        self.folder.record(WARMED_UP, case=trial.spec.case, ended_by=ended_by)
        return True

    def _close_case(self, trial: Trial, outcome: str | None = None) -> CaseResult:
        case = self.plan.case(trial.spec.case)
        result = assess_case(self.plan, case, self.folder, self.folder.events())
        self.folder.record(
            CASE_FINISHED,
            case=case.id,
            outcome=outcome or result.outcome,
            verdict=result.verdict.value,
            received=result.received_workers,
            expected=result.expected_workers,
        )
        missing = result.expected_workers - result.received_workers
        lost = f", {missing} of {result.expected_workers} workers missing" if missing else ""
        self._say(
            f"case {case.id}: {outcome or result.outcome}, {result.verdict.value}{lost}",
            warning=bool(missing),
        )
        if result.outcome in ("failed", "broken") and not self.plan.policy.continue_cases:
            self._skip_rest(case.id)
        return result

    def _skip_rest(self, after: str) -> None:
        """The policy says abort: the cases that are left are skipped, by name."""
        ids = [case.id for case in self.plan.cases]
        over = finished_cases(self.folder.events())
        for case in ids[ids.index(after) + 1 :]:
            if case not in over:
                self.folder.record(
                    CASE_FINISHED, case=case, outcome="skipped", why=f"case {after} failed"
                )

    def _pause(self, before: Trial | None) -> None:
        """Between two cases."""
        if self.plan.pause and before is not None:
            self.lab.sleep(self.plan.pause)

    # -- left running -------------------------------------------------------------------------

    def _refuse_to_leave(self) -> None:
        """What needs this process between the cases can't be left alone."""
        needs = [a.name for a in self.attendants]
        needs += ["until"] * (self.plan.until is not None)
        needs += ["warm_up"] * (self.plan.warm_up is not None)
        needs += ["repeats.within"] * (self.plan.repeats.gate is not None)
        needs += ["a search"] * (self.plan.sought is not None)
        if needs:
            raise ConfigError(
                f"--detach can't be used with {', '.join(needs)}",
                means="hcio has to be there between the cases, or while they run",
                next_step="run it attached (in tmux, say), or leave these out",
            )

    def _detach(self) -> None:
        """Arm every case that is left, one after the other in time, and leave."""
        over = finished_cases(self.folder.events())
        begin = self.lab.clock() + 5.0
        for case in self.plan.cases:
            if case.id in over:
                continue
            trial = self._trial(case)
            attempt, t0, _ = last_arming(case.id, self.folder.events())
            if trial.arming.settle(t0, attempt):
                begin = max(begin, (t0 or begin) + trial.spec.deadline_s + DETACHED_GAP_S)
                continue
            lead = 5.0 + 3.0 * max(self.fleet.last_round_s, default=0.0)
            begin = max(begin, self.lab.clock() + lead)
            trial.arming.arm(attempt + 1, at=begin)
            begin += trial.spec.deadline_s + DETACHED_GAP_S + self.plan.pause
        self.folder.record("run.detached", until=begin)

    def _interrupted(self, trial: Trial | None) -> RunResult:
        """Ctrl-C: end the case at work, keep what is there, say what the run has."""
        if trial is not None and trial.spec.case not in finished_cases(self.folder.events()):
            self._say(f"stopping case {trial.spec.case} on the workers")
            trial.stop()
            self.turns.collect(trial)
            self._close_case(trial, outcome="skipped")
        self.folder.record("run.interrupted")
        raise Interrupted(self._write_result())

    # -- the end ------------------------------------------------------------------------------

    def _finish(self) -> RunResult:
        result = self._write_result()
        self.folder.record("run.finished", outcomes=finished_cases(self.folder.events()))
        if not self.mode.keep:
            self._clean()
        return result

    def _write_result(self) -> RunResult:
        result = assess_run(self.plan, self.folder)
        self.folder.write(RESULT, write_result(result).decode())
        return result

    def _clean(self) -> None:
        """Remove what the run left on the workers; what can't be removed is said, not raised."""
        answers = self.fleet.clean(self.fleet.alive())
        left = {**self.fleet.broken(), **{n: e.what for n, e in answers.errors.items()}}
        if left:
            self._say(
                f"not cleaned: {', '.join(sorted(left))}; later: `hcio clean {self.plan.run}`",
                warning=True,
            )
        self.folder.record("run.cleaned", left=sorted(left))

    def _say(self, text: str, *, warning: bool = False) -> None:
        self.lab.report(Notice(text, warning))

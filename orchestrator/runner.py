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
from dataclasses import dataclass

from orchestrator.assessment import (
    CASE_ARMING,
    CASE_FINISHED,
    PREPARED,
    assess_case,
    assess_run,
    finished_cases,
)
from orchestrator.clocks import ClockReading
from orchestrator.collected import read_ended
from orchestrator.demand import worker_seed
from orchestrator.engine import Fleet, Member
from orchestrator.jobfile import (
    FILL_TEMPLATE,
    JOB_TEMPLATE,
    TemplateSource,
    render_fill,
    render_job,
)
from orchestrator.plan import (
    PREPARE,
    Plan,
    assignments,
    deadline_seconds,
    fill_deadline_seconds,
    filled,
    job_logs,
    ramp_seconds,
    wall_seconds,
)
from orchestrator.progress import Notice
from orchestrator.results import CaseResult, RunResult, write_result
from orchestrator.sections import JobTarget
from orchestrator.store import RESULT, RunFolder
from orchestrator.suites import Case
from orchestrator.trial import ROUNDS, Lab, NotEnoughWorkers, Spec, Trial
from orchestrator.worker.stream import CheckedDevice, StagedCase

#: Between the latest end of a detached case and the start of the next one, in seconds.
DETACHED_GAP_S = 15.0


@dataclass(frozen=True)
class Mode:
    """How a plan is walked. `start`: cases that run nowhere may be started. `wait`: cases that
    run are waited for. `detach`: leave once every case is armed, each at its own instant.
    `keep`: leave files on the workers when the run is over."""

    start: bool = True
    wait: bool = True
    detach: bool = False
    keep: bool = False


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
        mode: Mode = Mode(),
    ) -> None:
        self.plan = plan
        self.folder = folder
        self.fleet = fleet
        self.lab = lab
        self.mode = mode
        self._named: set[str] = set()

    def conduct(self) -> RunResult | None:
        """Walk the plan to its end and return the result; None when it was left running (detached,
        or not waited for). NotEnoughWorkers when the lab doesn't allow a single case; Interrupted
        on Ctrl-C. Whatever was collected is in the folder in every case."""
        with self.folder.conducting():
            again = bool(self.folder.events())
            self.folder.record("run.resumed" if again else "run.started", suite=self.plan.suite)
            try:
                return self._walk()
            finally:
                self.fleet.close()

    def _walk(self) -> RunResult | None:
        self._connect()
        if self.mode.start:
            self._assemble()
            self._stage()
            self._prepare()
            if self.mode.detach:
                self._detach()
                return None
        trial: Trial | None = None
        try:
            for position, case in enumerate(self.plan.cases, start=1):
                if case.id in finished_cases(self.folder.events()):
                    continue
                trial = self._trial(case, position)
                if not self._case(trial):
                    return None
                self._pause(position)
        except KeyboardInterrupt:
            return self._interrupted(trial)
        return self._finish()

    # -- before the first case ----------------------------------------------------------------

    def _connect(self) -> None:
        self._say(f"connecting to {self._count(self.plan.workers)}")
        self.fleet.mark_broken(self.fleet.connect().errors)
        self._require("connect")

    def _assemble(self) -> None:
        for step, question in (
            ("facts", self.fleet.look),
            ("targets", self.fleet.judge_targets),
            ("make files", self.fleet.make_files),
        ):
            self.fleet.mark_broken(question(self.fleet.alive()).errors)
            self._require(step)
        self.folder.record("run.assembled", broken=self.fleet.broken())

    def _stage(self) -> None:
        over = finished_cases(self.folder.events())
        todo = [case for case in self.plan.cases if case.id not in over]
        self._say(f"staging {self._count(todo, 'case')} on {self._count(self.fleet.alive())}")
        answers = self.fleet.stage(self.fleet.alive(), lambda m: self._staged_cases(m, todo))
        self.fleet.mark_broken(answers.errors)
        self._require("stage")
        self.folder.record("run.staged", cases=len(todo), workers=len(self.fleet.alive()))

    def _staged_cases(self, member: Member, cases: Sequence[Case]) -> list[StagedCase]:
        targets = job_targets(member)
        staged = []
        fill = fill_text(self.plan, member, self._template(FILL_TEMPLATE))
        if fill is not None and not self._prepared():
            staged.append(self._one(member, PREPARE, fill))
        for case in cases:
            for part in assignments(self.plan, case):
                if part.worker.name == member.name:
                    text = render_job(
                        part.profile,
                        targets,
                        seed=part.seed,
                        template=self._template(JOB_TEMPLATE),
                        logs=job_logs(self.plan, part.profile),
                    )
                    staged.append(self._one(member, case.id, text))
        return staged

    def _one(self, member: Member, case: str, text: str) -> StagedCase:
        devices = [
            CheckedDevice(target.path, target.size or 0, target.number or "")
            for target in member.targets
            if target.kind == "device"
        ]
        files = [target.path for target in member.targets if target.kind == "file"]
        return StagedCase(case, text.encode(), tuple(devices), tuple(files))

    def _template(self, name: str) -> TemplateSource:
        return TemplateSource(name, self.plan.templates[name])

    def _prepared(self) -> bool:
        return any(event.name == PREPARED for event in self.folder.events())

    def _prepare(self) -> None:
        """Fill the targets that the plan wants filled, once a run."""
        names = [n for n in self.fleet.alive() if filled(self.plan, self.fleet.members[n].worker)]
        if not names or self._prepared():
            return
        size = max(fill_size(self.plan, self.fleet.members[name]) for name in names)
        self._say(f"filling the targets of {self._count(names)}")
        spec = Spec(
            case=PREPARE,
            phase="prepare",
            workers=tuple(names),
            groups={},
            seeds=self._seeds(),
            ramp_s=0.0,
            wall_s=None,
            deadline_s=fill_deadline_seconds(self.plan, size),
            fast_fail_s=self.plan.fast_fail,
            cases=len(self.plan.cases),
        )
        trial = Trial(spec, self.plan, self.fleet, self.folder, self.lab)
        self._run_trial(trial)
        for name in names:
            self._check_fill(name)
        self._require("prepare")
        self.folder.record(PREPARED, workers=len(self.fleet.alive(names)))

    def _check_fill(self, name: str) -> None:
        """A worker whose fill failed is broken: its reads would come from nothing."""
        files = self.folder.raw(PREPARE, name) or {}
        ended = read_ended(files)
        if ended is None or ended.outcome != "done" or ended.exit_status != 0:
            said = files.get("stderr.log", b"").decode("utf-8", "replace").strip()[-300:]
            status = ended.exit_status if ended else None
            why = (ended.reason if ended else None) or f"fio's exit status {status}"
            told = f": {said}" if said else ""
            self.fleet.mark_broken({name: f"the fill failed: {why}{told}"})

    # -- cases --------------------------------------------------------------------------------

    def _trial(self, case: Case, position: int) -> Trial:
        parts = assignments(self.plan, case)
        spec = Spec(
            case=case.id,
            phase="measure",
            workers=tuple(part.worker.name for part in parts),
            groups={part.worker.name: part.group for part in parts},
            seeds={part.worker.name: part.seed for part in parts},
            ramp_s=ramp_seconds(case),
            wall_s=wall_seconds(case),
            deadline_s=deadline_seconds(self.plan, case),
            fast_fail_s=self.plan.fast_fail,
            position=position,
            cases=len(self.plan.cases),
        )
        return Trial(spec, self.plan, self.fleet, self.folder, self.lab)

    def _case(self, trial: Trial) -> bool:
        """Conduct one case; False when it is left running."""
        try:
            if not self._run_trial(trial):
                return False
        except NotEnoughWorkers as error:
            self._say(str(error), warning=True)
            trial.watched.failed.clear()
            trial.collect({}, self._collected(trial.spec.case))
        self._close_case(trial)
        return True

    def _run_trial(self, trial: Trial) -> bool:
        """Join or start a case, watch it, collect it; False when it still runs or may not start."""
        self.fleet.revive(trial.spec.workers)
        attempt, t0, _ = self._last_arming(trial.spec.case)
        if trial.settle(t0, attempt):
            if not self.mode.wait and not all(trial.watched.over(n) for n in trial.participants()):
                self._say(f"case {trial.spec.case} still runs on the workers")
                return False
            trial.watch()
        elif not self.mode.start:
            self._say(f"case {trial.spec.case} was not started")
            return False
        else:
            self._start(trial, attempt)
        _, _, clocks = self._last_arming(trial.spec.case)
        self.folder.record("case.ended", case=trial.spec.case)
        trial.collect(clocks, self._collected(trial.spec.case))
        return True

    def _start(self, trial: Trial, attempt: int) -> None:
        """Arm and watch; once more when nobody woke in time for T0, so that nothing ran."""
        for _ in range(ROUNDS):
            trial.arm(attempt + 1)
            trial.watch()
            if not trial.missed():
                return
            self._say(f"T0 of case {trial.spec.case} was missed by all", warning=True)
            attempt, _, _ = self._last_arming(trial.spec.case)

    def _last_arming(self, case: str) -> tuple[int, float | None, dict[str, ClockReading]]:
        """The last attempt to arm a case: its number (0: none), T0, and the clocks it used."""
        armings = [
            event
            for event in self.folder.events()
            if event.name == CASE_ARMING and event.fields["case"] == case
        ]
        if not armings:
            return 0, None, {}
        last = armings[-1].fields
        clocks = {
            name: ClockReading(offset, uncertainty, samples=0, spread_s=0.0)
            for name, (offset, uncertainty) in last["clocks"].items()
        }
        return int(last["attempt"]), float(last["t0"]), clocks

    def _collected(self, case: str) -> frozenset[str]:
        """Workers whose files of a case are in the folder for good."""
        return frozenset(
            event.fields["worker"]
            for event in self.folder.events()
            if event.name == "worker.collected"
            and event.fields["case"] == case
            and event.fields["outcome"] != "broken"
        )

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

    def _pause(self, position: int) -> None:
        over = finished_cases(self.folder.events())
        if self.plan.pause and any(case.id not in over for case in self.plan.cases[position:]):
            self.lab.sleep(self.plan.pause)

    # -- left running -------------------------------------------------------------------------

    def _detach(self) -> None:
        """Arm every case that is left, one after the other in time, and leave."""
        over = finished_cases(self.folder.events())
        begin = self.lab.clock() + 5.0
        for position, case in enumerate(self.plan.cases, start=1):
            if case.id in over:
                continue
            trial = self._trial(case, position)
            attempt, t0, _ = self._last_arming(case.id)
            if trial.settle(t0, attempt):
                begin = max(begin, (t0 or begin) + trial.spec.deadline_s + DETACHED_GAP_S)
                continue
            lead = 5.0 + 3.0 * max(self.fleet.last_round_s, default=0.0)
            begin = max(begin, self.lab.clock() + lead)
            trial.arm(attempt + 1, at=begin)
            begin += trial.spec.deadline_s + DETACHED_GAP_S + self.plan.pause
        self.folder.record("run.detached", until=begin)

    def _interrupted(self, trial: Trial | None) -> RunResult:
        """Ctrl-C: end the case at work, keep what is there, say what the run has."""
        if trial is not None and trial.spec.case not in finished_cases(self.folder.events()):
            self._say(f"stopping case {trial.spec.case} on the workers")
            trial.stop()
            _, _, clocks = self._last_arming(trial.spec.case)
            trial.collect(clocks, self._collected(trial.spec.case))
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

    def _seeds(self) -> dict[str, int]:
        return {w.name: worker_seed(self.plan.seed, w.name) for w in self.plan.workers}

    def _say(self, text: str, *, warning: bool = False) -> None:
        self.lab.report(Notice(text, warning))

    @staticmethod
    def _count(things: Sequence[object], word: str = "worker") -> str:
        return f"{len(things)} {word}" + ("" if len(things) == 1 else "s")


def job_targets(member: Member) -> list[JobTarget]:
    """A worker's targets as fio is given them: where they are now, and how large."""
    kinds = {"device": "block", "file": "file"}
    return [
        JobTarget(target.label, target.path, target.size or 0, kinds[target.kind])  # type: ignore[arg-type]
        for target in member.targets
    ]


def fill_size(plan: Plan, member: Member) -> int:
    """Bytes that a worker's fill writes."""
    labels = filled(plan, member.worker)
    return sum(target.size or 0 for target in member.targets if target.label in labels)


def fill_text(plan: Plan, member: Member, template: TemplateSource) -> str | None:
    """The fill's job file; None when the worker has nothing to fill."""
    methods = filled(plan, member.worker)
    targets = [target for target in job_targets(member) if target.label in methods]
    if not targets:
        return None
    method = methods[targets[0].label]
    seed = worker_seed(plan.seed, member.name)
    return render_fill(method, targets, seed=seed, template=template)

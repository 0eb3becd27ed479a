"""After the end of a case: every worker's files into the run folder, each with its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from orchestrator.arming import STARTED
from orchestrator.clocks import ClockReading
from orchestrator.collected import Ended, raw_files
from orchestrator.crew import Crew
from orchestrator.endings import ended_at, ended_by, outcome_of, started_at
from orchestrator.errors import HcioError
from orchestrator.journal import CASE_STOPPED
from orchestrator.store import RunFolder
from orchestrator.worker.session import Fetched
from orchestrator.worker.states import CaseState


class Harvest:
    """Collects one case. `t0` is its start by the controller's clock, None where not known;
    `steady`: it was ended because it was steady."""

    def __init__(self, crew: Crew, folder: RunFolder, t0: float | None, *, steady: bool) -> None:
        self.crew = crew
        self.fleet = crew.fleet
        self.spec = crew.spec
        self.watched = crew.watched
        self.folder = folder
        self.t0 = t0
        self.steady = steady

    def collect(self, clocks: Mapping[str, ClockReading], skip: frozenset[str]) -> None:
        """Fetch every worker's files and keep them; what can't be fetched is named with its reason.

        `clocks` are those that T0 was computed with; `skip` was collected before.
        """
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
        # All instants are told by the clock that fio began with; its logs are, too.
        step = ending.start_step_s if ending is not None else 0.0
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
            started=state.began if ending is None and state is not None else started_at(state),
            ended=ended_at(ending),
            t0=None if self.t0 is None or clock is None else clock.to_worker(self.t0) + step,
            clock_offset_s=clock.offset_s + step if clock is not None else None,
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
        if state.state == "staged" and self._stopped():
            return "skipped", "stopped before its start"
        return outcome_of(state)

    def _stopped(self) -> bool:
        """Whether we took the case back ourselves: then its worker didn't miss its start."""
        events = self.folder.events()
        return any(
            e.name == CASE_STOPPED and e.fields.get("case") == self.spec.case for e in events
        )

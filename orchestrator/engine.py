"""fio on N workers: every step of a case, done on all of them at once, with nobody's answer lost.

A member that can't be used is *broken* and keeps its reason; the runner decides what that means.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from orchestrator.clocks import ClockReading
from orchestrator.errors import HcioError, TransportError, WorkerError
from orchestrator.inventory import Worker
from orchestrator.plan import Plan, wanted_targets
from orchestrator.targets import Resolved, judge
from orchestrator.transport.base import Transport
from orchestrator.transport.fanout import gather
from orchestrator.worker.facts import WorkerFacts
from orchestrator.worker.session import Fetched, WorkerSession
from orchestrator.worker.states import ArmReply, CaseState
from orchestrator.worker.stream import StagedCase

T = TypeVar("T")
Open = Callable[[Worker], Transport]

#: Workers asked at the same time; each has a connection of its own.
AT_ONCE = 64
#: Seconds for one short command on a worker.
SHORT_S = 30.0
#: A look at a running case: a worker that doesn't answer must not hold up what the others say.
POLL_S = 10.0
CONNECT_S = 120.0
STAGE_S = 180.0
STOP_S = 60.0
CLEAN_S = 120.0
FETCH_S = 600.0
MAKE_FILE_S = 3600.0


@dataclass
class Member:
    """One worker of the run: how to speak to it, what is known of it, why it is broken if it is."""

    worker: Worker
    session: WorkerSession | None = None
    facts: WorkerFacts | None = None
    clock: ClockReading | None = None
    #: the clock's offset and its uncertainty in seconds, as the facts alone tell them
    looked: tuple[float, float] | None = None
    targets: tuple[Resolved, ...] = ()
    broken: str | None = None
    #: broken because it did not answer: it may come back
    away: bool = False
    #: one question at a time: a session is for one thread
    turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def name(self) -> str:
        """The worker's name."""
        return self.worker.name


@dataclass
class Answers(Generic[T]):
    """What a question brought: an answer or an error from each worker that was asked."""

    results: dict[str, T] = field(default_factory=dict)
    errors: dict[str, HcioError] = field(default_factory=dict)


class Fleet:
    """All workers of a plan. Each verb asks several at once and returns every answer and error."""

    def __init__(self, plan: Plan, open_transport: Open, *, at_once: int = AT_ONCE) -> None:
        self.plan = plan
        self.members = {worker.name: Member(worker) for worker in plan.workers}
        self._open = open_transport
        self.at_once = at_once
        self.last_round_s: list[float] = []

    # -- who is there ---------------------------------------------------------------------------

    def alive(self, names: Iterable[str] | None = None) -> list[str]:
        """The workers that can be used, of `names` or of all."""
        wanted = self.members if names is None else names
        return [name for name in wanted if self.members[name].broken is None]

    def broken(self, names: Iterable[str] | None = None) -> dict[str, str]:
        """The workers that can't be used, with the reason."""
        wanted = self.members if names is None else names
        return {
            name: reason for name in wanted if (reason := self.members[name].broken) is not None
        }

    def mark_broken(self, errors: Mapping[str, HcioError | str]) -> None:
        """Take these workers out, with the reason; the first reason stays."""
        for name, error in errors.items():
            member = self.members[name]
            if member.broken is None:
                member.broken = error if isinstance(error, str) else error.what
                member.away = isinstance(error, HcioError) and unreachable(error)

    def revive(self, names: Iterable[str]) -> None:
        """Give those that did not answer another chance: the next question decides."""
        for name in names:
            member = self.members[name]
            if member.away and member.session is not None:
                member.broken, member.away = None, False

    # -- asking -----------------------------------------------------------------------------------

    def ask(
        self,
        step: str,
        names: Sequence[str],
        question: Callable[[Member, WorkerSession], T],
        *,
        timeout: float = SHORT_S,
        within: float | None = None,
    ) -> Answers[T]:
        """Put a question to several workers at once. Errors are returned, never raised.

        `timeout` is for one worker, in seconds; all together get as many turns as they need, or
        `within` seconds: who has not answered by then is answered for with CommandTimedOut.
        """

        def put(member: Member) -> tuple[T, float]:
            if member.session is None:
                raise WorkerError(member.name, step, "no connection")
            # A worker that was answered for may still be at the question before this one.
            with member.turn:
                began = time.monotonic()
                return question(member, member.session), time.monotonic() - began

        outcome = gather(
            step,
            {name: self.members[name] for name in names},
            put,
            timeout=self._whole(timeout, len(names)) if within is None else within,
            concurrency=self.at_once,
        )
        self.last_round_s = [seconds for _, seconds in outcome.results.values()]
        return Answers(
            {name: answer for name, (answer, _) in outcome.results.items()},
            _ours(outcome.errors),
        )

    def connect(self, names: Sequence[str] | None = None) -> Answers[None]:
        """Open the connections of those that have none."""
        waiting = [n for n in names or self.members if self.members[n].session is None]

        def open_one(member: Member) -> None:
            transport = self._open(member.worker)
            worker = member.worker
            member.session = WorkerSession(
                transport, self.plan.run, base=worker.work_dir, fio=worker.fio
            )

        outcome = gather(
            "connect",
            {name: self.members[name] for name in waiting},
            open_one,
            timeout=self._whole(CONNECT_S, len(waiting)),
            concurrency=self.at_once,
        )
        return Answers({name: None for name in outcome.results}, _ours(outcome.errors))

    def _whole(self, timeout: float, workers: int) -> float:
        """Seconds for all of them: one more than the rounds it takes, for retries and queues."""
        return timeout * (2 + workers // self.at_once)

    def close(self) -> None:
        """End all connections; what runs on the workers goes on."""
        for member in self.members.values():
            if member.session is not None:
                member.session.transport.close()
                member.session = None

    # -- before the first case -----------------------------------------------------------------

    def look(self, names: Sequence[str]) -> Answers[WorkerFacts]:
        """Read each worker's facts, with its targets looked at."""

        def facts(member: Member, session: WorkerSession) -> WorkerFacts:
            wanted = wanted_targets(self.plan, member.worker)
            before = time.time()
            member.facts = session.facts(
                files=[want.file for want in wanted if want.file],
                devices=[want.path for want in wanted if want.path],
                timeout=SHORT_S * 2,
            )
            half = (time.time() - before) / 2
            member.looked = (member.facts.now - before - half, half)
            return member.facts

        return self.ask("facts", names, facts, timeout=SHORT_S * 2)

    def judge_targets(self, names: Sequence[str]) -> Answers[tuple[Resolved, ...]]:
        """Decide for every worker which devices and files are its targets; refusals are errors."""

        def resolve(member: Member, _: WorkerSession) -> tuple[Resolved, ...]:
            facts = member.facts
            if facts is None:
                raise WorkerError(member.name, "targets", "its disks were not looked at")
            judgement = judge(
                member.name,
                wanted_targets(self.plan, member.worker),
                facts.devices,
                facts.files,
                facts.links,
            )
            member.targets = judgement.require()
            return member.targets

        return self.ask("targets", names, resolve)

    def make_files(self, names: Sequence[str]) -> Answers[None]:
        """Make the file targets that aren't there yet."""

        def make(member: Member, session: WorkerSession) -> None:
            for target in member.targets:
                if target.kind == "file" and target.size is not None:
                    session.make_file(target.path, target.size, timeout=MAKE_FILE_S)

        return self.ask("make files", names, make, timeout=MAKE_FILE_S)

    def stage(
        self, names: Sequence[str], cases: Callable[[Member], Sequence[StagedCase]]
    ) -> Answers[None]:
        """Stage cases; fio on each worker must accept every job file."""

        def put(member: Member, session: WorkerSession) -> None:
            wanted = cases(member)
            if wanted:
                replies = session.stage(wanted, timeout=STAGE_S)
                for reply in replies.values():
                    reply.check(member.name)

        return self.ask("stage", names, put, timeout=STAGE_S)

    # -- a case -----------------------------------------------------------------------------------

    def read_clocks(self, names: Sequence[str]) -> Answers[ClockReading]:
        """Measure every worker's clock against this machine's."""

        def read(member: Member, session: WorkerSession) -> ClockReading:
            member.clock = session.measure_clock(timeout=SHORT_S)
            return member.clock

        return self.ask("clock", names, read)

    def arm(
        self,
        names: Sequence[str],
        case: str,
        *,
        t0: float,
        deadline_s: float,
        attempt: int,
        margin_s: float,
        within: float,
    ) -> Answers[ArmReply]:
        """Let a case start at `t0` by this machine's clock, on all of them. A worker that is asked
        less than `margin_s` before refuses; nobody is waited for longer than `within` seconds."""

        def arm(member: Member, session: WorkerSession) -> ArmReply:
            clock = member.clock
            if clock is None:
                raise WorkerError(member.name, "arm", "its clock was not measured")
            return session.arm(
                case,
                t0=clock.to_worker(t0),
                deadline_s=deadline_s,
                attempt=attempt,
                margin_s=margin_s,
                timeout=SHORT_S,
            )

        return self.ask("arm", names, arm, within=within)

    def poll(self, names: Sequence[str], case: str) -> Answers[CaseState]:
        """Ask how a case does."""
        return self.ask(
            "poll", names, lambda _, s: s.poll([case], timeout=POLL_S)[case], timeout=POLL_S
        )

    def disarm(self, names: Sequence[str], case: str) -> Answers[CaseState]:
        """Cancel a case that has not started."""
        return self.ask("disarm", names, lambda _, s: s.disarm(case, timeout=SHORT_S))

    def stop(self, names: Sequence[str], case: str) -> Answers[CaseState]:
        """End a case; fio writes what it has."""
        return self.ask("stop", names, lambda _, s: s.stop(case, timeout=STOP_S), timeout=STOP_S)

    def fetch(
        self, names: Sequence[str], case: str, keep: Callable[[str, Fetched], None]
    ) -> Answers[None]:
        """Fetch a case's files; `keep` is called for each worker as its files arrive."""

        def fetch(member: Member, session: WorkerSession) -> None:
            keep(member.name, session.fetch(case, partial=True, timeout=FETCH_S))

        return self.ask("fetch", names, fetch, timeout=FETCH_S)

    def clean(self, names: Sequence[str]) -> Answers[int]:
        """Remove the run from the workers, with the files that hcio made for it."""
        return self.ask("clean", names, lambda _, s: s.clean(), timeout=CLEAN_S)


def _ours(errors: Mapping[str, Exception]) -> dict[str, HcioError]:
    """Errors of our tree by worker; anything else is a bug of ours and is raised."""
    found: dict[str, HcioError] = {}
    for name, error in errors.items():
        if not isinstance(error, HcioError):
            raise error
        found[name] = error
    return found


def unreachable(error: HcioError) -> bool:
    """Whether the worker may still be at work although it did not answer."""
    return isinstance(error, TransportError)

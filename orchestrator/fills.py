"""The fill before the first case: what needs it, the fill itself, its proof, and the records of it.

A target whose record holds is not filled again, in this run or in another. A fill that can't be
proved breaks its worker: its reads would come from nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from orchestrator.collected import OUTPUT, read_ended
from orchestrator.demand import worker_seed
from orchestrator.engine import Fleet, Member
from orchestrator.errors import UnreadableOutput
from orchestrator.filling import (
    READ_BACK_LIMIT,
    FilledTarget,
    FillRecords,
    bytes_written,
    verify_fill,
    why_fill_again,
)
from orchestrator.fio_output import parse_fio_output
from orchestrator.inventory import BlockTarget
from orchestrator.plan import PREPARE, Plan, fill_deadline_seconds, filled
from orchestrator.preparation import DiskIdentity, Fill, Prepared
from orchestrator.progress import Notice
from orchestrator.spec import Lab, Spec
from orchestrator.store import RunFolder
from orchestrator.targets import Resolved
from orchestrator.worker.session import WorkerSession

#: Labels of the targets to be filled, by worker.
Todo = Mapping[str, tuple[str, ...]]
#: Fills that are told apart by name before they are only counted.
_NAMED: Final = 4


@dataclass(frozen=True)
class Decision:
    """What a look at one worker's targets came to: label to why it is filled, None where it is
    not."""

    why: Mapping[str, str | None]

    @property
    def todo(self) -> tuple[str, ...]:
        """The labels to be filled."""
        return tuple(label for label, why in self.why.items() if why is not None)


class Fills:
    """The fills of one run. Records lie beside the runs."""

    def __init__(self, plan: Plan, folder: RunFolder, fleet: Fleet, lab: Lab) -> None:
        self._plan = plan
        self._folder = folder
        self._fleet = fleet
        self._lab = lab
        self._records = FillRecords(folder.path.parent)

    def decide(self) -> Todo:
        """Which targets must be filled, by worker, and say why the others need not be.

        Workers that can't be asked are broken; one without anything to fill is left out.
        """
        names = [n for n in self._fleet.alive() if filled(self._plan, self._member(n).worker)]
        if not names:
            return {}
        known = self._records.read()

        def look(member: Member, session: WorkerSession) -> Decision:
            seed = worker_seed(self._plan.seed, member.name)
            return Decision(
                {
                    target.label: why_fill_again(
                        session.transport,
                        target,
                        self._fill(target.label, member),
                        known,
                        seed=seed,
                    )
                    for target in self._targets(member)
                }
            )

        answers = self._fleet.ask("look at fills", names, look, timeout=self._limit(names))
        self._fleet.mark_broken(answers.errors)
        self._tell(answers.results, known)
        return {name: found.todo for name, found in answers.results.items() if found.todo}

    def spec(self, todo: Todo) -> Spec:
        """What the fill is as a case of its own: everything at once, to its end."""
        totals = {name: self._bytes(name, labels) for name, labels in todo.items()}
        return Spec(
            case=PREPARE,
            phase="prepare",
            workers=tuple(todo),
            groups={},
            seeds={w.name: worker_seed(self._plan.seed, w.name) for w in self._plan.workers},
            ramp_s=0.0,
            wall_s=None,
            deadline_s=fill_deadline_seconds(self._plan, max(totals.values(), default=0)),
            fast_fail_s=self._plan.fast_fail,
            cases=len(self._plan.cases),
            fill_bytes=totals,
        )

    def forget(self, todo: Todo) -> None:
        """A fill begins: one that is cut short must not pass for the one before it."""
        self._records.forget(
            target.disk for name, labels in todo.items() for target in self._chosen(name, labels)
        )

    def prove(self, todo: Todo) -> None:
        """Judge every worker's fill: its end, its bytes, blocks read back. Keep the records."""
        failed = {name: why for name in todo if (why := self._ended_badly(name)) is not None}
        self._fleet.mark_broken({name: f"the fill failed: {why}" for name, why in failed.items()})
        names = [name for name in self._fleet.alive(todo) if name not in failed]

        def verify(member: Member, session: WorkerSession) -> list[str]:
            written = self._written(member.name)
            seed = worker_seed(self._plan.seed, member.name)
            wrong = []
            for target in self._chosen(member.name, todo[member.name]):
                fill = self._fill(target.label, member)
                count = bytes_written(written, target.label)
                problems = verify_fill(session.transport, target, fill, count, seed=seed)
                wrong += [f"{target.label}: {problem}" for problem in problems]
                if not problems:
                    self._records.add([self._record(target, fill, count or 0)])
            return wrong

        answers = self._fleet.ask("verify fills", names, verify, timeout=self._limit(names))
        self._fleet.mark_broken(answers.errors)
        unproved = {name: wrong for name, wrong in answers.results.items() if wrong}
        self._fleet.mark_broken(
            {name: f"the fill is not proved: {'; '.join(w)}" for name, w in unproved.items()}
        )

    # -- one worker ---------------------------------------------------------------------------

    def _member(self, name: str) -> Member:
        return self._fleet.members[name]

    def _fill(self, label: str, member: Member) -> Fill:
        method = filled(self._plan, member.worker)[label]
        if method != "compressible":
            return Fill(method)
        return Fill(method, self._plan.prepare.compress, self._plan.prepare.dedupe)

    def _targets(self, member: Member) -> list[FilledTarget]:
        wanted = filled(self._plan, member.worker)
        wwns = {
            str(target.label): target.wwn
            for target in member.worker.targets
            if isinstance(target, BlockTarget)
        }
        return [
            FilledTarget(
                target.label, target.path, _identity(member.name, target, wwns.get(target.label))
            )
            for target in member.targets
            if target.label in wanted
        ]

    def _chosen(self, name: str, labels: Sequence[str]) -> list[FilledTarget]:
        return [t for t in self._targets(self._member(name)) if t.label in labels]

    def _bytes(self, name: str, labels: Sequence[str]) -> int:
        return sum(target.disk.size for target in self._chosen(name, labels))

    def _limit(self, names: Sequence[str]) -> float:
        return READ_BACK_LIMIT * max((len(self._member(n).targets) for n in names), default=1)

    def _ended_badly(self, name: str) -> str | None:
        """Why a worker's fill did not end well; None when it did."""
        files = self._folder.raw(PREPARE, name) or {}
        ended = read_ended(files)
        if ended is not None and ended.outcome == "done" and ended.exit_status == 0:
            return None
        said = files.get("stderr.log", b"").decode("utf-8", "replace").strip()[-300:]
        status = ended.exit_status if ended else None
        why = (ended.reason if ended else None) or f"fio's exit status {status}"
        return f"{why}: {said}" if said else why

    def _written(self, name: str) -> dict[str, int | None]:
        """Bytes that fio says it wrote, by section; nothing where its output can't be read."""
        files = self._folder.raw(PREPARE, name) or {}
        try:
            output = parse_fio_output(files.get(OUTPUT, b""), f"{name}'s fill")
        except UnreadableOutput:
            return {}
        return {job.name: job.write.bytes if job.write else None for job in output.jobs}

    def _record(self, target: FilledTarget, fill: Fill, written: int) -> Prepared:
        return Prepared(target.disk, fill, written, self._lab.clock(), self._plan.run)

    # -- telling ------------------------------------------------------------------------------

    def _tell(self, found: Mapping[str, Decision], known: Mapping[str, Prepared]) -> None:
        kept = {
            f"{name} {label}"
            for name, decision in found.items()
            for label, why in decision.why.items()
            if why is None
        }
        if kept:
            runs = {record.run for record in known.values()}
            by = f" (filled by {', '.join(sorted(runs))})" if len(runs) <= _NAMED else ""
            self._say(f"not filled again: {_listed(sorted(kept))}; their records hold{by}")
        if not known:
            return
        reasons: dict[str, list[str]] = {}
        for name, decision in found.items():
            for label, why in decision.why.items():
                if why is not None:
                    reasons.setdefault(why, []).append(f"{name} {label}")
        for why, targets in reasons.items():
            self._say(f"to be filled: {_listed(targets)}: {why}")

    def _say(self, text: str) -> None:
        self._lab.report(Notice(text))


def _identity(worker: str, target: Resolved, wwn: str | None) -> DiskIdentity:
    path = target.path if target.kind == "file" else None
    return DiskIdentity(worker, target.size or 0, serial=target.serial, wwn=wwn, path=path)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")

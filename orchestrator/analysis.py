"""Raw evidence to a judged result: picks the parser, adds up, checks. Pure; a run and a later
re-analysis of its folder share it.

A few workers' outputs are parsed, added and let go before the next, so memory stays flat.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import cast

from msgspec.structs import replace

from orchestrator.checks import (
    CaseSubject,
    WorkerSubject,
    check_case,
    check_worker,
    fio_said,
    verdict_of,
    worker_failures,
)
from orchestrator.errors import UnreadableOutput
from orchestrator.evidence import CaseExpectation, WorkerEvidence
from orchestrator.fio_output import parse_fio_outputs
from orchestrator.measured import WorkerOutput
from orchestrator.merge import MergedWorker, finish, merge_workers
from orchestrator.results import (
    CaseResult,
    GroupResult,
    Outcome,
    Reason,
    RunResult,
    Timing,
    TotalResult,
    WorkerResult,
    WorkerTiming,
)
from orchestrator.sums import Sum

#: (received, expected) -> whether a case with so few workers may still stand.
Policy = Callable[[int, int], bool]

#: How many of fio's lines a result keeps of one worker; all of them are in the raw output.
_KEPT_LINES = 50
#: How many workers' outputs are read together: numpy's cost is in its calls, and memory is flat.
TOGETHER = 16


def every_worker(received: int, expected: int) -> bool:
    """The strict policy: a case stands only when every worker is in it."""
    return received == expected


def analyse_case(
    expected: CaseExpectation,
    evidence: Iterable[WorkerEvidence],
    *,
    policy_satisfied: Policy = every_worker,
    t0: float | None = None,
) -> CaseResult:
    """Parse, add up and judge one case. `t0` is the agreed start in the controller's clock.

    A worker that failed stays out of the totals and is kept under `workers` with its reason.
    Workers that were not expected are left out altogether.
    """
    case = _Case(expected)
    wanted = frozenset(expected.workers)
    for batch in _batches(item for item in evidence if item.worker in wanted):
        case.add(batch)
    return case.result(expected, policy_satisfied, t0)


def merge_files(
    files: Iterable[tuple[str, bytes]],
    *,
    statuses: Mapping[str, int] | None = None,
    case: str = "merged",
) -> RunResult:
    """Merge plain fio outputs: pairs of a worker's name and its bytes, taken one at a time.

    `statuses` holds fio's exit status by unique name where it is known.
    """
    known = statuses or {}
    names = UniqueNames()
    expected = CaseExpectation(case=case, workers=())
    total = _Case(expected)
    evidence = (_of_file(names.unique(name), data, known) for name, data in files)
    for batch in _batches(evidence):
        total.add(batch)
    expected = dataclasses.replace(expected, workers=tuple(total.workers))
    return RunResult(cases=(total.result(expected, every_worker, None),))


def _of_file(worker: str, data: bytes, statuses: Mapping[str, int]) -> WorkerEvidence:
    return WorkerEvidence(worker, output=data, exit_status=statuses.get(worker))


def _batches(evidence: Iterable[WorkerEvidence]) -> Iterator[list[WorkerEvidence]]:
    rest = iter(evidence)
    while batch := list(islice(rest, TOGETHER)):
        yield batch


class UniqueNames:
    """Gives each name once: a name that comes again gets a number."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def unique(self, name: str) -> str:
        """The name itself, or `name-2`, `name-3`, ... when it was given before."""
        chosen, number = name, 1
        while chosen in self._given:
            number += 1
            chosen = f"{name}-{number}"
        self._given.add(chosen)
        return chosen


class _Case:
    """A case while its workers come in."""

    def __init__(self, expected: CaseExpectation) -> None:
        self.workers: dict[str, WorkerResult] = {}
        self._expected = expected
        self._sum = Sum()
        self._reasons: list[Reason] = []
        self._group_of = {w: name for name, ws in expected.groups.items() for w in ws}
        # One group alone would be the total under another name.
        several = len(expected.groups) > 1
        self._groups = {name: Sum() for name in expected.groups} if several else {}

    def add(self, items: Sequence[WorkerEvidence]) -> None:
        """Add some workers: read together, judged one by one."""
        parsed = _parsed(items)
        outputs = [output for output in parsed if isinstance(output, WorkerOutput)]
        merged = iter(merge_workers([output.jobs for output in outputs]))
        for item, output in zip(items, parsed, strict=True):
            if isinstance(output, WorkerOutput):
                self._add_output(item, output, next(merged))
            else:
                failures = _failures(item, None, output)
                self._add_result(item, None, failures)

    def _add_output(self, item: WorkerEvidence, output: WorkerOutput, merged: MergedWorker) -> None:
        failures = _failures(item, output, None)
        result = self._add_result(item, output, failures)
        self.workers[item.worker] = replace(result, jobs=merged.jobs, total=merged.total)
        if not failures:
            self._add_sums(merged.sum, result.group)
        reasons = check_worker(WorkerSubject(self._expected, item, output))
        # Who isn't in the totals can't spoil them: what is odd there is told, no more.
        self._reasons += [replace(r, level="note") for r in reasons] if failures else reasons

    def _add_result(
        self, item: WorkerEvidence, output: WorkerOutput | None, failures: Sequence[str]
    ) -> WorkerResult:
        group = self._group_of.get(item.worker, item.group)
        result = _worker_result(item, output, failures, group)
        self.workers[item.worker] = result
        return result

    def _add_sums(self, sums: Sum, group: str | None) -> None:
        self._sum.add_worker(sums)
        if group in self._groups:
            self._groups[group].add_worker(sums)

    def result(self, expected: CaseExpectation, policy: Policy, t0: float | None) -> CaseResult:
        names = expected.workers
        received = sum(result.counted for result in self.workers.values())
        outcome, degraded = _outcome(self.workers, names, received, policy)
        timing = _timing(expected, self.workers, t0)
        total = finish([self._sum], whole=True)[0] if received else None
        subject = CaseSubject(expected, self.workers, total, timing, received, degraded)
        reasons = [*check_case(subject), *self._reasons]
        return CaseResult(
            case=expected.case,
            outcome=outcome,
            degraded=degraded,
            reason=None if received == len(names) else f"{received} of {len(names)} workers",
            verdict=verdict_of(reasons),
            expected_workers=len(names),
            received_workers=received,
            total=total,
            groups=self._group_results(),
            workers=self.workers,
            timing=timing,
        )

    def _group_results(self) -> dict[str, GroupResult]:
        totals = finish(list(self._groups.values()), whole=True)
        return {
            name: _group_result(self._expected.groups[name], self.workers, total)
            for name, total in zip(self._groups, totals, strict=True)
        }


def _group_result(
    members: Sequence[str], workers: Mapping[str, WorkerResult], total: TotalResult
) -> GroupResult:
    received = sum(1 for name in members if name in workers and workers[name].counted)
    return GroupResult(
        expected_workers=len(members),
        received_workers=received,
        total=total if received else None,
    )


def _parsed(items: Sequence[WorkerEvidence]) -> list[WorkerOutput | str | None]:
    """Each worker's output, or the reason why there is none."""
    there = [(item.output, item.worker) for item in items if item.output is not None]
    found = iter(parse_fio_outputs(there))
    return [
        _missing(item) if item.output is None else _readable(next(found), item) for item in items
    ]


def _missing(item: WorkerEvidence) -> str | None:
    return "no output" if item.outcome == "done" else None


def _readable(parsed: WorkerOutput | UnreadableOutput, item: WorkerEvidence) -> WorkerOutput | str:
    if isinstance(parsed, WorkerOutput):
        return parsed
    return parsed.what.removeprefix(f"{item.worker}: ")


def _failures(
    item: WorkerEvidence, output: WorkerOutput | None, unreadable: str | None
) -> list[str]:
    failures = list(worker_failures(item, output))
    if unreadable and unreadable not in failures:
        failures.append(unreadable)
    return failures


def _worker_result(
    item: WorkerEvidence,
    output: WorkerOutput | None,
    failures: Sequence[str],
    group: str | None,
) -> WorkerResult:
    outcome = cast(Outcome, item.outcome)
    if failures and outcome == "done":
        outcome = "failed"
    lines = [] if output is None else [*output.text_before, *output.text_after]
    if failures:
        said = fio_said(item, None)
        lines += said.splitlines() if said else []
    started, agreed = item.started, item.t0
    runs = [] if output is None else [job.runtime_ms for job in output.jobs]
    longest = max((ran for ran in runs if ran), default=None)
    return WorkerResult(
        outcome=outcome,
        reason=", ".join(failures) or item.reason,
        counted=not failures and output is not None,
        group=group,
        host=item.host,
        datastore=item.datastore,
        exit_status=item.exit_status,
        fio_version=item.fio_version or (output.fio_version if output else None),
        runtime_s=None if longest is None else longest / 1000,
        documents=output.documents if output else None,
        text=tuple(lines[:_KEPT_LINES]),
        timing=WorkerTiming(
            started=item.by_controller(started),
            ended=item.by_controller(item.ended),
            late_s=None if started is None or agreed is None else started - agreed,
            clock_offset_s=item.clock_offset_s,
            clock_uncertainty_s=item.clock_uncertainty_s,
        ),
    )


def _outcome(
    workers: Mapping[str, WorkerResult], names: Sequence[str], received: int, policy: Policy
) -> tuple[Outcome, bool]:
    """The case's outcome, and whether it is degraded (some are missing, the policy allows it)."""
    if names and received == len(names):
        return "done", False
    if received and policy(received, len(names)):
        return "done", True
    lost = {workers[name].outcome if name in workers else "broken" for name in names}
    lost.discard("done")
    for outcome in ("failed", "broken", "skipped"):
        if outcome in lost:
            return cast(Outcome, outcome), False
    return "failed", False


def _timing(
    expected: CaseExpectation, workers: Mapping[str, WorkerResult], t0: float | None
) -> Timing:
    counted = {name: worker.timing for name, worker in workers.items() if worker.counted}
    starts = [timing.started for timing in counted.values() if timing.started is not None]
    whole = bool(starts) and len(starts) == len(counted)
    known = (timing.clock_uncertainty_s for timing in counted.values())
    uncertain = [uncertainty for uncertainty in known if uncertainty is not None]
    windows = _windows(expected, counted) if whole else []
    common = max(0.0, min(e for _, e in windows) - max(s for s, _ in windows)) if windows else None
    union = _union(windows)
    return Timing(
        t0=t0,
        skew_s=max(starts) - min(starts) if whole else None,
        overlap=common / union if common is not None and union else None,
        common_window_s=common,
        clock_uncertainty_s=max(uncertain) if uncertain else None,
        ramp_s=expected.ramp_s,
        runtime_s=expected.runtime_s,
    )


def _windows(
    expected: CaseExpectation, timings: Mapping[str, WorkerTiming]
) -> list[tuple[float, float]]:
    """When each worker measured, by the controller's clock; empty when any isn't known."""
    windows = []
    for name, timing in timings.items():
        ramp, runtime = expected.times_of(name)
        begin = (timing.started or 0.0) + ramp
        end = timing.ended if runtime is None else begin + runtime
        if end is None:
            return []
        windows.append((begin, max(begin, end)))
    return windows


def _union(windows: Iterable[tuple[float, float]]) -> float:
    """The time that any of the windows covers."""
    covered, reach = 0.0, float("-inf")
    for begin, end in sorted(windows):
        covered += max(0.0, end - max(begin, reach))
        reach = max(reach, end)
    return covered

"""Whether to believe a case: checks in two tables, reasons, and the verdict they make.

A check is a function that yields reasons. Worker checks see one worker's parsed output, case
checks the added-up case. The worst reason decides (invalid, unknown, valid; notes don't count),
and a check that crashes makes the verdict unknown. A new check is one more line in a table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from orchestrator.consistency import contradictions
from orchestrator.evidence import CaseExpectation, WorkerEvidence
from orchestrator.measured import WorkerOutput
from orchestrator.results import (
    LatencyResult,
    Level,
    Reason,
    Timing,
    TotalResult,
    Verdict,
    VerdictValue,
    WorkerResult,
)

#: How much of fio's own text a reason shows.
_SHOWN = 300

_Subject = TypeVar("_Subject")


@dataclass(frozen=True)
class WorkerSubject:
    """What a worker check sees: one worker whose output could be read."""

    expected: CaseExpectation
    evidence: WorkerEvidence
    output: WorkerOutput

    @property
    def worker(self) -> str:
        """The worker's name."""
        return self.evidence.worker


@dataclass(frozen=True)
class CaseSubject:
    """What a case check sees: the case, added up."""

    expected: CaseExpectation
    workers: Mapping[str, WorkerResult]
    total: TotalResult | None
    timing: Timing
    received: int
    #: some are missing and the policy allowed it
    degraded: bool


WorkerCheck = Callable[[WorkerSubject], Iterable[Reason]]
CaseCheck = Callable[[CaseSubject], Iterable[Reason]]


def verdict_of(reasons: Iterable[Reason]) -> Verdict:
    """The verdict that reasons make, the worst first."""
    order: dict[str, int] = {"invalid": 0, "unknown": 1, "note": 2}
    ordered = tuple(sorted(reasons, key=lambda reason: order[reason.level]))
    levels = {reason.level for reason in ordered}
    value: VerdictValue = "valid"
    if "invalid" in levels:
        value = "invalid"
    elif "unknown" in levels:
        value = "unknown"
    return Verdict(value=value, reasons=ordered)


def check_worker(subject: WorkerSubject, checks: Iterable[WorkerCheck] = ()) -> list[Reason]:
    """Run the worker checks (or those given) on one worker."""
    chosen = tuple(checks) or WORKER_CHECKS
    return [r for check in chosen for r in safely(check, subject, subject.worker)]


def check_case(subject: CaseSubject, checks: Iterable[CaseCheck] = ()) -> list[Reason]:
    """Run the case checks (or those given) on a case."""
    chosen = tuple(checks) or CASE_CHECKS
    return [r for check in chosen for r in safely(check, subject, None)]


def safely(
    check: Callable[[_Subject], Iterable[Reason]], subject: _Subject, worker: str | None
) -> list[Reason]:
    """What a check yields; what it raises becomes a reason of its own."""
    try:
        return list(check(subject))
    except Exception as error:  # noqa: BLE001 - a crashing check must not look like a good one
        name = getattr(check, "__name__", "check")
        return [
            Reason(
                code="check-crashed",
                text=f"the check {name} crashed: {type(error).__name__}: {error}",
                worker=worker,
                level="unknown",
                next_step="report this as a bug of hcio",
            )
        ]


def worker_failures(evidence: WorkerEvidence, output: WorkerOutput | None) -> Iterator[str]:
    """Why a worker's figures must stay out of the totals; nothing when they may count.

    A worker is good only when fio ran to its end, every job has error 0, and fio's own status
    is 0.
    """
    if evidence.outcome != "done":
        yield evidence.reason or evidence.outcome
    ended = evidence.ended_by
    if ended == "deadline":
        yield "fio did not end before its deadline and was killed"
    elif ended == "stopped":
        yield "stopped before its end"
    elif ended.startswith("signal:"):
        yield f"fio was killed by signal {ended.removeprefix('signal:')}"
    found = [] if output is None else list(_output_failures(output))
    yield from found
    if evidence.exit_status:
        whole = "" if output is None or found else " although the JSON is complete"
        yield f"exit status {evidence.exit_status}{whole}"


def _output_failures(output: WorkerOutput) -> Iterator[str]:
    if not output.complete:
        yield (
            f"incomplete: the last JSON document is cut; {output.documents} complete before it "
            "are totals of a part of the run"
        )
    for job in output.jobs:
        if job.error:
            yield f"job {job.key!r} error {job.error} ({_strerror(job.error)})"
    if not output.jobs:
        yield "the output holds no job"
    for note in output.notes:
        if note.code == "rate-unknown":
            yield note.text


def _strerror(number: int) -> str:
    try:
        return os.strerror(number)
    except OverflowError:
        return "no error of this system"


def fio_said(evidence: WorkerEvidence, output: WorkerOutput | None) -> str | None:
    """The end of fio's own text, to stand beside a failure."""
    lines = [] if output is None else [*output.text_before, *output.text_after]
    lines += evidence.stderr.decode("utf-8", "replace").splitlines()
    said = "\n".join(line for line in lines if line.strip())
    return said[-_SHOWN:] or None


# Worker checks


def check_runtime(subject: WorkerSubject) -> Iterator[Reason]:
    """The measured time reaches the asked time."""
    asked = subject.expected.runtime_s
    share = subject.expected.thresholds.runtime_share
    if not asked:
        return
    for job in subject.output.jobs:
        ran = job.runtime_ms
        if ran is not None and ran < asked * 1000 * share:
            yield Reason(
                code="short-run",
                text=f"job {job.key!r} ran {ran / 1000:.3g} s of the {asked:g} s asked",
                worker=subject.worker,
                level="invalid",
                threshold=f"at least {share:.0%} of the asked runtime",
                evidence=f"runtime {ran:g} ms",
                next_step="set time_based, or a size that lasts; see fio's text for an early end",
            )


def check_equal_runtimes(subject: WorkerSubject) -> Iterator[Reason]:
    """The jobs of a worker ran for the same time, so that their rates may be added."""
    runs = {job.key: ran for job in subject.output.jobs if (ran := job.runtime_ms)}
    share = subject.expected.thresholds.equal_runtimes
    if runs and min(runs.values()) < share * max(runs.values()):
        short, long = min(runs, key=runs.__getitem__), max(runs, key=runs.__getitem__)
        yield Reason(
            code="unequal-runtimes",
            text=f"job {short!r} ran {runs[short] / 1000:.3g} s, job {long!r} "
            f"{runs[long] / 1000:.3g} s: their rates did not stand side by side all the time",
            worker=subject.worker,
            threshold=f"shortest at least {share:.0%} of the longest",
            next_step="give all jobs of a case the same runtime",
        )


def check_sampled_mean(subject: WorkerSubject) -> Iterator[Reason]:
    """fio's total over runtime and its mean of samples agree."""
    limit = subject.expected.thresholds.sampled_difference
    for job in subject.output.jobs:
        for name, direction in job.directions().items():
            total, mean = direction.iops, direction.iops_mean
            if not total or not mean or (direction.iops_samples or 2) < 2:
                continue
            if abs(mean - total) > limit * total:
                yield Reason(
                    code="sampled-mean-differs",
                    text=f"job {job.key!r}: {name} IOPS is {total:.0f} as total over runtime, "
                    f"{mean:.0f} as mean of samples; the first is used",
                    worker=subject.worker,
                    threshold=f"at most {limit:.0%} apart",
                    next_step="jobs that ended at different times, or a rate that was not steady: "
                    "report jobs apart (group_reporting=0) and look at the series",
                )


def check_latency_target(subject: WorkerSubject) -> Iterator[Reason]:
    """fio (3.33 at least) multiplies latency_target by 1000 for all but the first of numjobs."""
    targets: dict[str, set[int]] = {}
    for job in subject.output.jobs:
        asked = job.options.get("latency_target")
        if asked and job.latency_target_ns:
            targets.setdefault(asked, set()).add(job.latency_target_ns)
    for asked, found in targets.items():
        if max(found) >= 1000 * min(found):
            yield Reason(
                code="latency-target-bug",
                text=f"latency_target={asked} was taken as {_shown_ns(found)}: a bug of fio "
                "multiplies it by 1000 for all but the first job of numjobs",
                worker=subject.worker,
                level="invalid",
                evidence=f"latency_target in ns: {sorted(found)}",
                next_step="use numjobs=1 and one job section for each job",
            )


def check_any_io(subject: WorkerSubject) -> Iterator[Reason]:
    """Something was measured at all."""
    sides = [d for job in subject.output.jobs for d in job.directions().values()]
    if sides and all(direction.ios == 0 for direction in sides):
        yield Reason(
            code="no-io",
            text="not one I/O was done",
            worker=subject.worker,
            level="invalid",
            next_step="look at fio's text and at the target's size",
        )


#: Notes of the parser: level and next step, by code. Others are plain notes.
_NOTES: dict[str, tuple[Level, str]] = {
    "impossible-latency": (
        "unknown",
        "IOPS stands; switch off gtod_reduce and disable_lat, or use a newer fio",
    ),
    "bins-unreadable": ("unknown", "keep the raw output and report it; percentiles leave it out"),
    "coarse-units": ("note", "use fio 3.2 or newer for ns and bytes"),
    "not-finite": ("note", "secondary figures only; they are null in the result"),
}


def check_notes(subject: WorkerSubject) -> Iterator[Reason]:
    """What the parser noticed about the output, and mixed groups."""
    for note in subject.output.notes:
        level, step = _NOTES.get(note.code, ("note", ""))
        yield Reason(
            code=note.code,
            text=note.text,
            worker=subject.worker,
            level=level,
            next_step=step or None,
        )
    said = len(subject.output.text_before) + len(subject.output.text_after)
    if said:
        yield Reason(
            code="text-around",
            text=f"{said} line{'s' if said > 1 else ''} of text around the JSON",
            worker=subject.worker,
            level="note",
            evidence=(*subject.output.text_before, *subject.output.text_after)[0],
            next_step="kept under the worker's text",
        )
    if subject.output.documents > 1:
        yield Reason(
            code="several-documents",
            text=f"{subject.output.documents} cumulative documents; the last one counts",
            worker=subject.worker,
            level="note",
        )
    for job in subject.output.jobs:
        if job.mixed_group:
            yield Reason(
                code="mixed-group",
                text=f"job {job.key!r} is a group of different jobs; the options beside it are "
                "those of the last one only",
                worker=subject.worker,
                level="note",
                next_step="take block size and pattern from the job file that was run",
            )


def check_consistency(subject: WorkerSubject) -> Iterator[Reason]:
    """fio's figures don't contradict each other: one that does is damaged."""
    for job in subject.output.jobs:
        found = list(contradictions(job))
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            yield Reason(
                code="figures-disagree",
                text=f"{found[0]}{more}",
                worker=subject.worker,
                level="invalid",
                evidence="; ".join(found)[:_SHOWN],
                next_step="the output is damaged, or this fio counts otherwise: look at it",
            )


WORKER_CHECKS: tuple[WorkerCheck, ...] = (
    check_runtime,
    check_equal_runtimes,
    check_sampled_mean,
    check_latency_target,
    check_any_io,
    check_consistency,
    check_notes,
)


# Case checks


def check_missing(subject: CaseSubject) -> Iterator[Reason]:
    """Every expected worker is in the totals; each that isn't is named."""
    level: Level = "unknown" if subject.degraded and subject.received else "invalid"
    count = f"{subject.received} of {len(subject.expected.workers)} workers"
    for name in subject.expected.workers:
        result = subject.workers.get(name)
        if result is None or not result.counted:
            why = "sent nothing" if result is None else result.reason or result.outcome
            outcome = "missing" if result is None else result.outcome
            yield Reason(
                code=f"worker-{outcome}",
                text=f"{why}; the totals are from {count}",
                worker=name,
                level=level,
                evidence="\n".join(result.text)[-_SHOWN:] if result and result.text else None,
                next_step="look at its raw output, then run the case again",
            )


def check_skew(subject: CaseSubject) -> Iterator[Reason]:
    """The workers started together."""
    skew, limit = subject.timing.skew_s, subject.expected.thresholds.skew_s
    if skew is not None and skew > limit:
        yield Reason(
            code="start-skew",
            text=f"the workers started {skew:.2f} s apart",
            threshold=f"at most {limit:g} s",
            next_step="look at the workers' start times and clocks; give them more time to stage",
        )


def check_overlap(subject: CaseSubject) -> Iterator[Reason]:
    """The workers measured at the same time."""
    overlap, least = subject.timing.overlap, subject.expected.thresholds.overlap
    if overlap is not None and overlap < least:
        yield Reason(
            code="low-overlap",
            text=f"all workers measured together for {overlap:.0%} of the time in which any did",
            threshold=f"at least {least:.0%}",
            next_step="use a longer runtime, or find out why some started late",
        )


def check_clocks(subject: CaseSubject) -> Iterator[Reason]:
    """Clock offsets are known well enough to speak of skew."""
    limit = subject.expected.thresholds.clock_uncertainty_s
    for name, worker in subject.workers.items():
        uncertainty = worker.timing.clock_uncertainty_s
        if uncertainty is not None and uncertainty > limit:
            yield Reason(
                code="clock-uncertain",
                text=f"its clock offset is known to {uncertainty:.3g} s only",
                worker=name,
                threshold=f"at most {limit:g} s",
                next_step="the way to this worker is slow; skew and overlap may be wrong by that",
            )


def check_preconditioned(subject: CaseSubject) -> Iterator[Reason]:
    """Reads met blocks that had been written."""
    if subject.expected.reads and subject.expected.preconditioned is False:
        yield Reason(
            code="not-preconditioned",
            text="not preconditioned: reads of blocks that were never written come from nothing",
            next_step="let the suite fill the targets over the same span first (prepare)",
        )


def check_worker_runtimes(subject: CaseSubject) -> Iterator[Reason]:
    """The workers of a group measured for the same time, so that their rates may be added."""
    share = subject.expected.thresholds.equal_runtimes
    groups: dict[str | None, dict[str, float]] = {}
    for name, worker in subject.workers.items():
        if worker.counted and worker.runtime_s:
            groups.setdefault(worker.group, {})[name] = worker.runtime_s
    for runs in groups.values():
        longest = max(runs, key=runs.__getitem__)
        for name, ran in runs.items():
            if ran < share * runs[longest]:
                yield Reason(
                    code="unequal-runtimes",
                    text=f"it measured for {ran:.3g} s, {longest} for {runs[longest]:.3g} s: "
                    "their rates did not stand side by side all the time",
                    worker=name,
                    threshold=f"at least {share:.0%} of the longest",
                    next_step="give all workers the same runtime; see why this one ended early",
                )


def check_versions(subject: CaseSubject) -> Iterator[Reason]:
    """All workers ran the same fio."""
    versions: dict[str, int] = {}
    for worker in subject.workers.values():
        if worker.counted and worker.fio_version:
            versions[worker.fio_version] = versions.get(worker.fio_version, 0) + 1
    if len(versions) > 1:
        listed = ", ".join(f"{name} on {count}" for name, count in sorted(versions.items()))
        yield Reason(
            code="fio-versions-differ",
            text=f"different versions of fio: {listed}",
            next_step="install the same fio on every worker",
        )


def check_latency_kinds(subject: CaseSubject) -> Iterator[Reason]:
    """Latency was measured, of one kind, by every worker that did I/O."""
    for name, latency, ios in _latencies(subject.total):
        if latency is None:
            if ios:
                yield Reason(
                    code="latency-not-measured",
                    text=f"{name} latency was not measured (gtod_reduce, or disable_lat)",
                    level="note",
                    next_step="IOPS stands; leave gtod_reduce out to see latency",
                )
        elif latency.note:
            partial = latency.bins is not None
            yield Reason(
                code="mixed-latency-kinds" if partial else "no-percentiles",
                text=f"{name} {latency.kind}: {latency.note}",
                level="unknown" if partial else "note",
                next_step="use json+ with the same lat_percentiles and clat_percentiles everywhere",
            )


def _latencies(
    total: TotalResult | None,
) -> Iterator[tuple[str, LatencyResult | None, int | None]]:
    sides = {} if total is None else {"read": total.read, "write": total.write, "trim": total.trim}
    for name, side in sides.items():
        if side is not None:
            yield name, side.latency_ns, side.ios


CASE_CHECKS: tuple[CaseCheck, ...] = (
    check_missing,
    check_skew,
    check_overlap,
    check_clocks,
    check_preconditioned,
    check_worker_runtimes,
    check_versions,
    check_latency_kinds,
)


def _shown_ns(values: Iterable[int]) -> str:
    return " and ".join(f"{value / 1e6:g} ms" for value in sorted(values))

"""Worker checks: each sees one worker's parsed output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from orchestrator.checks.base import SHOWN, WorkerCheck, WorkerSubject, safely
from orchestrator.consistency import contradictions
from orchestrator.measured import Job, Note
from orchestrator.results import Level, Reason
from orchestrator.sections import fio_seconds

#: Jobs that a reason names; the rest is counted.
_NAMED = 4


def check_worker(subject: WorkerSubject, checks: Iterable[WorkerCheck] = ()) -> list[Reason]:
    """Run the worker checks (or those given) on one worker."""
    chosen = tuple(checks) or WORKER_CHECKS
    return [r for check in chosen for r in safely(check, subject, subject.worker)]


def check_runtime(subject: WorkerSubject) -> Iterator[Reason]:
    """The measured time reaches the asked time; in the user's own file, that of each job."""
    _, whole = subject.expected.times_of(subject.worker)
    share = subject.expected.thresholds.runtime_share
    if not whole:
        return
    for job in subject.output.jobs:
        ran, asked = job.runtime_ms, _asked(subject, job, whole)
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


def _asked(subject: WorkerSubject, job: Job, whole: float) -> float:
    own = fio_seconds(job.options.get("runtime", ""))
    return min(own, whole) if own and subject.worker in subject.expected.own_files else whole


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
            evidence=f"{runs[short] / runs[long]:.0%}",
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
                    evidence=f"{mean / total - 1:+.0%} over {direction.iops_samples} samples",
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
                threshold="one target for all jobs",
                evidence=f"latency_target in ns: {sorted(found)}",
                next_step="use numjobs=1 and one job section for each job",
            )


def check_latency_of_all(subject: WorkerSubject) -> Iterator[Reason]:
    """A latency that some jobs have, all jobs with I/O in that direction have."""
    for side in ("read", "write", "trim"):
        busy = {job.key: d for job in subject.output.jobs if (d := getattr(job, side)) and d.ios}
        for kind in ("lat", "clat"):
            lacking = [key for key, direction in busy.items() if getattr(direction, kind) is None]
            if lacking and len(lacking) < len(busy):
                yield Reason(
                    code="latency-partial",
                    text=f"{side} {kind}: {len(lacking)} of {len(busy)} jobs have none, like "
                    f"{lacking[0]!r}; it is the latency of the others",
                    worker=subject.worker,
                    threshold="every job with I/O",
                    evidence=f"{sum(busy[key].ios or 0 for key in lacking)} I/Os without",
                    next_step="the output is damaged, or these jobs had disable_lat, disable_clat "
                    "or gtod_reduce: give all jobs the same",
                )


def check_clock_step(subject: WorkerSubject) -> Iterator[Reason]:
    """Nobody set the worker's clock while the case was armed or ran."""
    step = subject.evidence.clock_step_s
    if step:
        yield Reason(
            code="clock-stepped",
            text=f"its clock was set by {step:+.3f} s while the case was armed or ran; instants "
            "are corrected for that",
            worker=subject.worker,
            level="note",
            threshold="a clock that nobody sets (0.05 s)",
            evidence=f"{step:+.3f} s against the time since its boot",
            next_step="let the clock be slewed, not stepped (chrony: makestep only at boot)",
        )


def check_any_io(subject: WorkerSubject) -> Iterator[Reason]:
    """Every job did something: one without I/O is a part of the load that was not there."""
    idle = [job.key for job in subject.output.jobs if _is_idle(job)]
    if idle and len(idle) < len(subject.output.jobs):
        yield Reason(
            code="job-without-io",
            text=f"job {', '.join(map(repr, idle[:_NAMED]))}"
            + (f" and {len(idle) - _NAMED} more" if len(idle) > _NAMED else "")
            + " did not one I/O",
            worker=subject.worker,
            threshold="at least one I/O of each job",
            evidence=f"0 I/Os in {len(idle)} of {len(subject.output.jobs)} jobs",
            next_step="look at fio's text, and at this job's target and rate",
        )
    elif idle:
        yield Reason(
            code="no-io",
            text="not one I/O was done",
            worker=subject.worker,
            level="invalid",
            threshold="at least one I/O",
            evidence=f"0 I/Os in {len(idle)} jobs",
            next_step="look at fio's text and at the target's size",
        )


def _is_idle(job: Job) -> bool:
    sides = job.directions().values()
    loads = job.options.get("ioengine") == "cpuio"
    return not loads and bool(sides) and all(direction.ios == 0 for direction in sides)


#: Notes of the parser: level, threshold and next step, by code. Others are plain notes.
_NOTES: dict[str, tuple[Level, str, str]] = {
    "impossible-latency": (
        "unknown",
        "a latency that a run of this length can hold",
        "IOPS stands; switch off gtod_reduce and disable_lat, or use a newer fio",
    ),
    "bins-unreadable": (
        "unknown",
        "bins of fio's own histogram",
        "keep the raw output and report it; percentiles leave it out",
    ),
    "coarse-units": ("note", "ns and bytes", "use fio 3.2 or newer for ns and bytes"),
    "not-finite": (
        "note",
        "finite numbers",
        "secondary figures only; they are null in the result",
    ),
}


def check_notes(subject: WorkerSubject) -> Iterator[Reason]:
    """What the parser noticed about the output, and mixed groups."""
    for note in subject.output.notes:
        level, threshold, step = _NOTES.get(note.code, ("note", "", ""))
        yield Reason(
            code=note.code,
            text=note.text,
            worker=subject.worker,
            level=level,
            threshold=threshold or None,
            evidence=_in_raw(subject, note) if level != "note" else None,
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


def _in_raw(subject: WorkerSubject, note: Note) -> str:
    count = sum(1 for other in subject.output.notes if other.code == note.code)
    return f"seen {count} time{'s' if count > 1 else ''} in this worker's raw output"


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
                threshold="figures of one output agree but for rounding",
                evidence="; ".join(found)[:SHOWN],
                next_step="the output is damaged, or this fio counts otherwise: look at it",
            )


WORKER_CHECKS: tuple[WorkerCheck, ...] = (
    check_runtime,
    check_equal_runtimes,
    check_sampled_mean,
    check_latency_target,
    check_any_io,
    check_latency_of_all,
    check_clock_step,
    check_consistency,
    check_notes,
)


def _shown_ns(values: Iterable[int]) -> str:
    return " and ".join(f"{value / 1e6:g} ms" for value in sorted(values))

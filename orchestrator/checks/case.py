"""Case checks: each sees the added-up case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from orchestrator.checks.base import SHOWN, CaseCheck, CaseSubject, safely
from orchestrator.results import LatencyResult, Level, Reason, TotalResult


def check_case(subject: CaseSubject, checks: Iterable[CaseCheck] = ()) -> list[Reason]:
    """Run the case checks (or those given) on a case."""
    chosen = tuple(checks) or CASE_CHECKS
    return [r for check in chosen for r in safely(check, subject, None)]


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
                threshold="every expected worker in the totals",
                evidence="\n".join(result.text)[-SHOWN:] if result and result.text else count,
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
            evidence=_first_and_last(subject),
            next_step="look at the workers' start times and clocks; give them more time to stage",
        )


def _first_and_last(subject: CaseSubject) -> str | None:
    starts = {
        name: worker.timing.started
        for name, worker in subject.workers.items()
        if worker.counted and worker.timing.started is not None
    }
    if not starts:
        return None
    first, last = min(starts, key=starts.__getitem__), max(starts, key=starts.__getitem__)
    return f"{first} first, {last} last"


def check_overlap(subject: CaseSubject) -> Iterator[Reason]:
    """The workers measured at the same time."""
    overlap, least = subject.timing.overlap, subject.expected.thresholds.overlap
    if overlap is not None and overlap < least:
        yield Reason(
            code="low-overlap",
            text=f"all workers measured together for {overlap:.0%} of the time in which any did",
            threshold=f"at least {least:.0%}",
            evidence=f"{subject.timing.common_window_s or 0:.3g} s together",
            next_step="use a longer runtime, the same for all groups, or find out why some "
            "started late",
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
                evidence=f"half of its quickest round trip, {2 * uncertainty:.3g} s",
                next_step="the way to this worker is slow; skew and overlap may be wrong by that",
            )


def check_preconditioned(subject: CaseSubject) -> Iterator[Reason]:
    """Reads met blocks that had been written."""
    if subject.expected.reads and subject.expected.preconditioned is False:
        yield Reason(
            code="not-preconditioned",
            text="not preconditioned: reads of blocks that were never written come from nothing",
            threshold="every target that is read was filled before",
            evidence="no proved fill of all targets is on record for this run",
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
                    evidence=f"{ran / runs[longest]:.0%}",
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
            threshold="one version",
            evidence=f"{len(versions)} versions",
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
                threshold="one kind of latency, with its histogram, from every worker",
                evidence=f"{latency.count} I/Os of {latency.workers} workers",
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

"""Checks of what paces the load: rate caps that were kept, and the waiting that they leave out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.casefacts import JobCap, depth_for_rate
from orchestrator.plausibility.base import Plausible, sides
from orchestrator.results import DirectionResult, JobResult, LatencyResult, Reason


def check_cap(subject: Plausible) -> Iterator[Reason]:
    """A capped load reached its cap; where it didn't, its latencies leave out the waiting.

    Held against the limited jobs alone: what others did beside them fills no gap.
    """
    kept = subject.facts.thresholds.cap_kept
    for group, names in subject.groups().items():
        for figure, unit in (("iops", "IOPS"), ("bytes_per_s", "B/s")):
            asked, found, slack = _asked_and_found(subject, names, figure)
            if found + slack >= kept * asked:
                continue
            whose = f"group {group}: " if len(subject.groups()) > 1 else ""
            yield Reason(
                code="rate-not-kept",
                text=f"{whose}{found:.0f} of the {asked:.0f} {unit} asked for were reached: I/Os "
                "were issued late, and the time they waited is in no latency",
                threshold=f"at least {kept:.0%} of the rate asked for",
                evidence=f"{found / asked:.1%}",
                next_step="the storage can't carry this rate: lower it, or read the result as a "
                "measurement without a rate",
            )


def _asked_and_found(
    subject: Plausible, names: list[str], figure: str
) -> tuple[float, float, float]:
    """Sums over the limited directions of the limited jobs whose rate is known, and what may be
    lacking by chance."""
    asked = found = slack = 0.0
    for _, cap, job in _capped(subject, names):
        for side, direction in sides(job):
            limit, rate = getattr(cap, figure).get(side), getattr(direction, figure)
            if limit and rate is not None:
                asked, found = asked + limit, found + rate
                slack += rate * _by_chance(cap, job, direction)
    return asked, found, slack


def _by_chance(cap: JobCap, job: JobResult, direction: DirectionResult) -> float:
    """The part of a rate that the measured time's ends may cost: an I/O of each clone, and three
    deviations of the number of random arrivals."""
    count = direction.ios or 1
    return (job.entries + (3 * math.sqrt(count) if cap.poisson else 0)) / count


def _capped(subject: Plausible, names: list[str]) -> Iterator[tuple[str, JobCap, JobResult]]:
    for name in names:
        jobs = subject.case.workers[name].jobs
        for cap in subject.facts.caps.get(name, ()):
            if cap.job in jobs:
                yield name, cap, jobs[cap.job]


@dataclass(frozen=True)
class _Late:
    """One direction of a capped job whose slowest I/O was longer than its queue rides out."""

    worker: str
    cap: JobCap
    clone_iops: float
    latency: LatencyResult

    @property
    def due(self) -> float:
        """I/Os that fell due while the slowest one ran."""
        return self.clone_iops * (self.latency.max or 0) / 1e9

    @property
    def broad(self) -> bool:
        """Whether p99 was longer than the queue rides out, too."""
        tail = self.latency.percentiles.get("99")
        return tail is not None and self.clone_iops * tail / 1e9 > self.cap.depth


def check_coordinated_omission(subject: Plausible) -> Iterator[Reason]:
    """Under a rate cap the queue is deep enough for the longest I/O seen.

    While the slowest I/O ran, rate x latency more were due; those above the depth were issued late
    and their waiting is not in the percentiles.
    """
    for names in subject.groups().values():
        for side in ("read", "write", "trim"):
            late = list(_late(subject, names, side))
            if late:
                yield _omission(subject, side, late)


def _late(subject: Plausible, names: list[str], side: str) -> Iterator[_Late]:
    for name, cap, job in _capped(subject, names):
        latency = next((d.latency_ns for found, d in sides(job) if found == side), None)
        if latency is None or latency.max is None or not cap.clone_iops:
            continue
        late = _Late(name, cap, cap.clone_iops, latency)
        if late.due > cap.depth:
            yield late


def _omission(subject: Plausible, side: str, late: list[_Late]) -> Reason:
    """The worst of them, with the number of the others."""
    worst = max(late, key=lambda one: (one.broad, one.due / one.cap.depth))
    longest = (worst.latency.max or 0) / 1e6
    more = f"; likewise in {len(late) - 1} more" if len(late) > 1 else ""
    return Reason(
        code="coordinated-omission",
        text=f"{side}: during the slowest I/O ({longest:.3g} ms) job {worst.cap.job!r} had "
        f"{worst.due:.0f} I/Os to issue and room for {worst.cap.depth}; "
        + (
            "p99 and above are better here than they were"
            if worst.broad
            else "the end of the tail is better here than it was"
        ),
        worker=worst.worker if len(subject.case.workers) > 1 else None,
        level="unknown" if worst.broad else "note",
        threshold=f"rate x latency at most the job's depth of {worst.cap.depth}",
        evidence=f"{worst.clone_iops:.0f} IOPS a job x {longest:.3g} ms{more}",
        next_step=f"set iodepth to at least {depth_for_rate(worst.clone_iops)} (an "
        "asynchronous engine) so that a pause of a second is ridden out",
    )


def check_in_turn(subject: Plausible) -> Iterator[Reason]:
    """The jobs of a worker ran at the same time, so that their rates may be added."""
    names = [name for name in subject.counted() if name in subject.facts.in_turn]
    if names:
        yield Reason(
            code="jobs-in-turn",
            text="its jobs ran one after the other, or began at different times: the total adds "
            "rates that were never there together",
            worker=names[0] if len(names) == 1 else None,
            threshold="all jobs of a case start together",
            evidence=f"stonewall, wait_for or startdelay in the jobs of {len(names)} workers"
            if len(names) > 1
            else "stonewall, wait_for or startdelay in its job file",
            next_step="look at the jobs one by one, and at the common window; or make each of "
            "them a case of its own",
        )

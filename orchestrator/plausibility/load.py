"""Checks of the load and its latencies: Little's law, possible latencies, what a count carries."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from orchestrator.plausibility.base import Plausible, sides
from orchestrator.results import DirectionResult, Reason, TotalResult, WorkerResult


def check_littles_law(subject: Plausible) -> Iterator[Reason]:
    """IOPS x mean latency is the number of I/Os in flight (Little 1961), at most those allowed."""
    for name, worker in subject.counted().items():
        allowed = subject.facts.outstanding_ios.get(name)
        flying = _in_flight(worker.total)
        if not allowed or flying is None:
            continue
        share = flying / allowed
        evidence = f"IOPS x mean latency = {flying:.3g} in flight, {allowed} allowed ({share:.0%})"
        most = subject.facts.thresholds.most_in_flight + _before_the_ramp_ended(subject, worker)
        if share > most:
            yield Reason(
                code="littles-law",
                text=f"{flying:.3g} I/Os in flight on average where the jobs allow {allowed}",
                worker=name,
                level="invalid",
                threshold=f"at most {most:.0%} of the allowed",
                evidence=evidence,
                next_step="IOPS or latency is wrong: look at the raw output, clocks "
                "(clocksource, gtod_reduce), and whether all jobs ran at the same time",
            )
        elif name not in subject.facts.paced | subject.facts.in_turn:
            yield from _queue_not_kept(subject, name, flying, evidence)


def _queue_not_kept(
    subject: Plausible, worker: str, flying: float, evidence: str
) -> Iterator[Reason]:
    allowed, least = subject.facts.outstanding_ios[worker], subject.facts.thresholds.least_in_flight
    if flying + _flushing(subject.case.workers[worker]) < least * allowed:
        yield Reason(
            code="queue-not-kept",
            text=f"only {flying:.3g} of {allowed} I/Os were in flight on average: the load "
            "that was asked for was not there",
            worker=worker,
            threshold=f"at least {least:.0%} of the allowed, without a cap",
            evidence=evidence,
            next_step="fio itself was the limit: give the worker more CPUs or jobs, or check "
            "that the engine is asynchronous (libaio, io_uring) with direct=1",
        )


def _in_flight(total: TotalResult | None) -> float | None:
    parts = []
    for _, direction in sides(total):
        latency = direction.latency_ns
        if direction.iops is None or latency is None or latency.mean is None:
            return None
        parts.append(direction.iops * latency.mean / 1e9)
    return sum(parts) if parts else None


def _flushing(worker: WorkerResult) -> float:
    """Flushes (fsync) going on at a time, on average: fio starts no I/O meanwhile, so they fill
    the queue as well. They overlap the last I/O (seen: 3.33, libaio, depth 1: 125 % together), so
    they are no evidence of too many in flight."""
    sync = None if worker.total is None else worker.total.sync
    if sync is None or sync.mean is None or not worker.runtime_s:
        return 0.0
    return sync.count / worker.runtime_s * sync.mean / 1e9


def _before_the_ramp_ended(subject: Plausible, worker: WorkerResult) -> float:
    """I/Os in flight when the ramp ends count with all of their latency, of which a part lies
    before the measured time: with a full queue at most the mean latency's share of it."""
    means = [d.latency_ns.mean or 0.0 for _, d in sides(worker.total) if d.latency_ns is not None]
    if not subject.case.timing.ramp_s or not worker.runtime_s:
        return 0.0
    return max(means, default=0.0) / 1e9 / worker.runtime_s


def check_latency_possible(subject: Plausible) -> Iterator[Reason]:
    """Latency was measured, isn't 0, isn't below what any device needs, isn't above the runtime."""
    least = subject.facts.thresholds.least_latency_ns
    for name, worker in subject.counted().items():
        for side, direction in sides(worker.total):
            flushing = _flush_ns(worker, direction) if side == "write" else 0.0
            reason = _latency_reason(subject, side, direction, least - flushing)
            if reason is not None:
                yield replace(reason, worker=name)


def _flush_ns(worker: WorkerResult, writes: DirectionResult) -> float:
    """What flushes (fsync) take for each write: a write into the page cache and a flush of it are
    one wait for the disk."""
    sync = None if worker.total is None else worker.total.sync
    if sync is None or sync.mean is None or not writes.ios:
        return 0.0
    return sync.count * sync.mean / writes.ios


def _latency_reason(
    subject: Plausible, side: str, direction: DirectionResult, least: float
) -> Reason | None:
    latency = direction.latency_ns
    if latency is None or latency.mean is None:
        return Reason(
            code="latency-unknown",
            text=f"{side}: {direction.ios} I/Os and no latency",
            level="note",
            evidence="no lat or clat in the output",
            next_step="switch off gtod_reduce and disable_lat to measure it",
        )
    if latency.mean == 0 or latency.max == 0:
        return Reason(
            code="zero-latency",
            text=f"{side}: a latency of 0 for {latency.count} I/Os: the clock didn't run",
            threshold="above 0",
            evidence=f"mean {latency.mean:g} ns, max {latency.max} ns",
            next_step="check the worker's clock source and fio's options; IOPS may stand",
        )
    runtime = subject.case.timing.runtime_s
    if runtime and latency.mean > (runtime + (subject.case.timing.ramp_s or 0)) * 1e9:
        return Reason(
            code="latency-above-runtime",
            text=f"{side}: a mean of {latency.mean / 1e9:.3g} s in a run of {runtime:g} s",
            level="invalid",
            threshold="mean below ramp and runtime",
            evidence=f"mean {latency.mean:.0f} ns, max {latency.max} ns",
            next_step="the clock jumped or fio's figure overflowed: run it again",
        )
    if latency.mean < least:
        return Reason(
            code="latency-too-small",
            text=f"{side}: a mean of {latency.mean / 1000:.3g} us is shorter than any disk "
            "behind a hypervisor answers",
            threshold=f"mean at least {least / 1000:g} us",
            evidence=f"mean {latency.mean:.0f} ns over {latency.count} I/Os",
            next_step="these come from memory: blocks that were never written, a cache, or an "
            "engine that does no I/O; fill the targets first and use direct=1",
        )
    return None


def check_percentiles_carried(subject: Plausible) -> Iterator[Reason]:
    """Says which percentiles the number of I/Os can't carry, so that nobody looks for them."""
    for side, direction in sides(subject.case.total):
        latency = direction.latency_ns
        if latency is None or not any(v is not None for v in latency.percentiles.values()):
            continue
        missing = [key for key, value in latency.percentiles.items() if value is None]
        if missing:
            yield Reason(
                code="percentile-not-carried",
                text=f"{side}: {latency.count} I/Os are too few for p{', p'.join(missing)}",
                level="note",
                threshold="at least half an I/O expected beyond a percentile",
                evidence=f"{latency.count} I/Os",
                next_step="measure longer to see that part of the tail",
            )

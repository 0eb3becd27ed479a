"""Checks of the load and its latencies: Little's law, possible latencies, rate caps."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from orchestrator.casefacts import depth_for_rate
from orchestrator.plausibility.base import Plausible, rate_of, sides
from orchestrator.results import DirectionResult, Reason, TotalResult


def check_littles_law(subject: Plausible) -> Iterator[Reason]:
    """IOPS x mean latency is the number of I/Os in flight (Little 1961), at most those allowed."""
    limits = subject.facts.thresholds
    for name, worker in subject.counted().items():
        allowed = subject.facts.outstanding_ios.get(name)
        flying = _in_flight(worker.total)
        if not allowed or flying is None:
            continue
        share = flying / allowed
        evidence = f"IOPS x mean latency = {flying:.3g} in flight, {allowed} allowed ({share:.0%})"
        if share > limits.most_in_flight:
            yield Reason(
                code="littles-law",
                text=f"{flying:.3g} I/Os in flight on average where the jobs allow {allowed}",
                worker=name,
                level="invalid",
                threshold=f"at most {limits.most_in_flight:.0%} of the allowed",
                evidence=evidence,
                next_step="IOPS or latency is wrong: look at the raw output, clocks "
                "(clocksource, gtod_reduce), and whether all jobs ran at the same time",
            )
        elif share < limits.least_in_flight and not subject.facts.paced:
            yield Reason(
                code="queue-not-kept",
                text=f"only {flying:.3g} of {allowed} I/Os were in flight on average: the load "
                "that was asked for was not there",
                worker=name,
                threshold=f"at least {limits.least_in_flight:.0%} of the allowed, without a cap",
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


def check_latency_possible(subject: Plausible) -> Iterator[Reason]:
    """Latency was measured, isn't 0, isn't below what any device needs, isn't above the runtime."""
    least = subject.facts.thresholds.least_latency_ns
    for name, worker in subject.counted().items():
        for side, direction in sides(worker.total):
            reason = _latency_reason(subject, side, direction, least)
            if reason is not None:
                yield replace(reason, worker=name)


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


def check_cap(subject: Plausible) -> Iterator[Reason]:
    """A capped load reached its cap; where it didn't, its latencies leave out the waiting."""
    cap = subject.facts.cap
    kept = subject.facts.thresholds.cap_kept
    for figure, unit in (("iops", "IOPS"), ("bytes_per_s", "B/s")):
        asked = getattr(cap, figure, None)
        found = rate_of(subject.case.total, figure)
        if asked and found is not None and found < kept * asked:
            yield Reason(
                code="rate-not-kept",
                text=f"{found:.0f} of the {asked:.0f} {unit} asked for were reached: I/Os were "
                "issued late, and the time they waited is in no latency",
                threshold=f"at least {kept:.0%} of the rate asked for",
                evidence=f"{found / asked:.1%}",
                next_step="the storage can't carry this rate: lower it, or read the result as a "
                "measurement without a rate",
            )


def check_coordinated_omission(subject: Plausible) -> Iterator[Reason]:
    """Under a rate cap the queue is deep enough for the longest I/O seen.

    While the slowest I/O ran, rate x latency more were due; those above the depth were issued late
    and their waiting is not in the percentiles.
    """
    cap = subject.facts.cap
    if cap is None or not cap.job_iops or not cap.job_depth:
        return
    for side, direction in sides(subject.case.total):
        latency = direction.latency_ns
        if latency is None or latency.max is None:
            continue
        due = cap.job_iops * latency.max / 1e9
        if due > cap.job_depth:
            tail = latency.percentiles.get("99")
            broad = tail is not None and cap.job_iops * tail / 1e9 > cap.job_depth
            yield Reason(
                code="coordinated-omission",
                text=f"{side}: during the slowest I/O ({latency.max / 1e6:.3g} ms) a job had "
                f"{due:.0f} I/Os to issue and room for {cap.job_depth}; "
                + ("p99 and above are" if broad else "the end of the tail is")
                + " better than it was",
                level="unknown" if broad else "note",
                threshold=f"rate x latency at most the job's depth of {cap.job_depth}",
                evidence=f"{cap.job_iops:.0f} IOPS a job x {latency.max / 1e6:.3g} ms",
                next_step=f"set iodepth to at least {depth_for_rate(cap.job_iops)} (an "
                "asynchronous engine) so that a pause of a second is ridden out",
            )

"""Adding up: jobs to a worker, workers to groups and a case, in memory that doesn't grow with them.

A percentile is read from a sum of histograms or not given at all; it is never averaged. Total
(`lat`) and completion (`clat`) latency are never mixed: the kind that more workers have
histograms of is the headline, `lat` when equal, and the figure says how many workers it covers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from orchestrator.histogram import (
    LEAST_COUNTS,
    PERCENT_KEYS,
    PERCENTS,
    add_up_each,
    percentile_rows,
)
from orchestrator.measured import Job
from orchestrator.results import DirectionResult, JobResult, LatencyResult, TotalResult
from orchestrator.sums import DirectionSum, LatencySum, Moments, Sum

_NO_PERCENTILES: dict[str, int | None] = dict.fromkeys(PERCENT_KEYS)
_UNKNOWN = [None] * len(PERCENT_KEYS)


class MergedWorker(NamedTuple):
    """One worker's sum, its jobs' results by name, and its own result."""

    sum: Sum
    jobs: dict[str, JobResult]
    total: TotalResult


def merge_jobs(jobs: Iterable[Job]) -> MergedWorker:
    """Add up one worker's jobs.

    Entries of one name, as `numjobs` without group reporting gives, are one job.
    """
    return merge_workers([jobs])[0]


def merge_workers(workers: Sequence[Iterable[Job]]) -> list[MergedWorker]:
    """Add up the jobs of each of some workers; all percentiles are read in one go."""
    grouped = [_by_key(jobs) for jobs in workers]
    # A worker's sum stands behind those of its jobs; a single job is its worker.
    sums = [_sums_of(jobs) for jobs in grouped]
    totals = iter(finish([part for parts in sums for part in parts]))
    return [
        _merged(jobs, parts, [next(totals) for _ in parts])
        for jobs, parts in zip(grouped, sums, strict=True)
    ]


def _by_key(jobs: Iterable[Job]) -> dict[str, list[Job]]:
    found: dict[str, list[Job]] = {}
    for job in jobs:
        found.setdefault(job.key, []).append(job)
    return found


def _sums_of(jobs: Mapping[str, list[Job]]) -> list[Sum]:
    parts = [_sum_of(entries) for entries in jobs.values()]
    if len(parts) != 1:
        parts.append(_sum_of(entry for entries in jobs.values() for entry in entries))
    return parts


def _merged(
    jobs: Mapping[str, list[Job]], parts: Sequence[Sum], totals: Sequence[TotalResult]
) -> MergedWorker:
    results = {
        key: _job_result(entries, total)
        for (key, entries), total in zip(jobs.items(), totals, strict=False)
    }
    return MergedWorker(parts[-1], results, totals[-1])


def _sum_of(entries: Iterable[Job]) -> Sum:
    total = Sum()
    for entry in entries:
        total.add_job(entry)
    return total


def _job_result(entries: Sequence[Job], total: TotalResult) -> JobResult:
    return JobResult(
        read=total.read,
        write=total.write,
        trim=total.trim,
        sync=total.sync,
        entries=len(entries),
        error=next((entry.error for entry in entries if entry.error), 0),
        mixed_group=any(entry.mixed_group for entry in entries),
    )


def finish(sums: Sequence[Sum], *, whole: bool = False) -> list[TotalResult]:
    """The results of sums.

    `whole` results, those of groups and totals, carry the kind of latency beside the headline
    and the summed bins too.
    """
    latencies: list[tuple[str, LatencySum, int]] = []
    for total in sums:
        for direction in (total.read, total.write, total.trim):
            if direction is not None:
                for kind, latency in direction.kinds()[: 2 if whole else 1]:
                    latencies.append((kind, latency, direction.active))
        if total.sync is not None:
            latencies.append(("sync", total.sync, 0))
    results = _latency_results(latencies, keep_bins=whole)
    return [
        TotalResult(
            read=_direction_result(total.read, results),
            write=_direction_result(total.write, results),
            trim=_direction_result(total.trim, results),
            sync=results.get(id(total.sync)),
        )
        for total in sums
    ]


def _direction_result(
    part: DirectionSum | None, results: Mapping[int, LatencyResult]
) -> DirectionResult | None:
    if part is None:
        return None
    lat, clat = results.get(id(part.lat)), results.get(id(part.clat))
    if lat is not None and clat is not None and part.kinds()[0][0] == "clat":
        lat, clat = clat, lat
    return DirectionResult(
        ios=part.ios,
        bytes=part.bytes,
        iops=part.iops,
        bytes_per_s=part.bytes_per_s,
        latency_ns=lat or clat,
        other_latency_ns=clat if lat else None,
    )


def _latency_results(
    latencies: Sequence[tuple[str, LatencySum, int]], *, keep_bins: bool
) -> dict[int, LatencyResult]:
    """Results by the id of their sum; all percentiles are read in one go."""
    binned = [entry for entry in latencies if entry[1].binned_workers]
    results = {
        id(latency): _plain_result(kind, latency)
        for kind, latency, _ in latencies
        if not latency.binned_workers
    }
    if binned:
        _add_up_parts([latency for _, latency, _ in binned])
        rows = percentile_rows([latency.histogram() for _, latency, _ in binned]).tolist()
        for (kind, latency, workers), row in zip(binned, rows, strict=True):
            results[id(latency)] = _binned_result(kind, latency, workers, row, keep_bins)
    return results


def _add_up_parts(latencies: Iterable[LatencySum]) -> None:
    several = [latency for latency in latencies if len(latency.parts) > 1]
    for latency, total in zip(several, add_up_each([part.parts for part in several]), strict=True):
        latency.parts = [total]


def _binned_result(
    kind: str, latency: LatencySum, workers: int, row: list[int], keep_bins: bool
) -> LatencyResult:
    """One latency's result, from the samples with histograms only."""
    part, note = latency.binned, None
    if latency.binned_workers < workers:
        note = f"{latency.binned_workers} of {workers} workers have percentiles of this kind"
    elif latency.plain.count:
        note = f"{latency.plain.count} I/Os without a histogram are left out"
    return LatencyResult(
        kind=kind,
        count=part.count,
        min=part.least,
        max=part.most,
        mean=part.mean,
        stddev=part.stddev(),
        percentiles=_percentiles(row, part),
        workers=latency.binned_workers,
        note=note,
        bins=latency.histogram().bins() if keep_bins else None,
    )


def _plain_result(kind: str, latency: LatencySum) -> LatencyResult:
    """One latency's result without histograms: fio's own percentiles if it is a single one."""
    part, percentiles, note = latency.plain, _NO_PERCENTILES, None
    if latency.printed:
        percentiles = _percentiles([latency.printed.get(percent) for percent in PERCENTS], part)
    elif latency.printed is None:
        note = "no histograms (plain json): percentiles of several jobs can't be merged"
    else:
        note = "this kind was measured without percentiles"
    return LatencyResult(
        kind=kind,
        count=part.count,
        min=part.least,
        max=part.most,
        mean=part.mean,
        stddev=part.stddev(),
        percentiles=percentiles,
        workers=latency.plain_workers,
        note=note,
    )


def _percentiles(values: Sequence[int | None], part: Moments) -> dict[str, int | None]:
    """Percentiles by name: those that the count carries, at most the true maximum.

    A bin's value is its middle, which may lie above the maximum.
    """
    most, held = part.most, bisect_right(LEAST_COUNTS, part.count)
    known = [
        value if value is None or most is None or value < most else most for value in values[:held]
    ]
    return dict(zip(PERCENT_KEYS, [*known, *_UNKNOWN[held:]], strict=True))

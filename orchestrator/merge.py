"""Adding up: jobs to a worker, workers to groups and a case, in memory that doesn't grow with them.

Rates are summed, means weighted by count, deviations pooled, histograms added bin by bin.
A percentile is read from a sum of histograms or not given at all; it is never averaged. Total
(`lat`) and completion (`clat`) latency are never mixed: the kind that more workers have
histograms of is the headline, `lat` when equal, and the figure says how many workers it covers.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from orchestrator.histogram import (
    LEAST_COUNTS,
    PERCENT_KEYS,
    PERCENTS,
    Histogram,
    add_up,
    add_up_each,
    percentile_rows,
)
from orchestrator.measured import Direction, Job, Latency
from orchestrator.results import DirectionResult, JobResult, LatencyResult, TotalResult

_NO_PERCENTILES: dict[str, int | None] = dict.fromkeys(PERCENT_KEYS)
_UNKNOWN = [None] * len(PERCENT_KEYS)
#: How many histograms wait to be added in one go: numpy's cost is in the calls.
_PENDING = 128


class Moments(Struct, gc=False):
    """Count, extremes, mean and deviation of samples, added in any order.

    Pooling by Chan, Golub and LeVeque (1979): M2 = M2a + M2b + d*d * na*nb/(na+nb). fio's
    deviation is the sample one (divided by n - 1).
    """

    count: int = 0
    least: int | None = None
    most: int | None = None
    mean: float | None = None
    m2: float | None = None

    def add(
        self,
        count: int,
        least: int | None,
        most: int | None,
        mean: float | None,
        m2: float | None,
    ) -> None:
        """Add `count` samples; what is None for a part is None for the sum."""
        if not self.count:
            self.count, self.least, self.most, self.mean, self.m2 = count, least, most, mean, m2
            return
        before, self.count = self.count, self.count + count
        self.least = None if self.least is None or least is None else min(self.least, least)
        self.most = None if self.most is None or most is None else max(self.most, most)
        if self.mean is None or mean is None:
            self.mean = self.m2 = None
            return
        apart = mean - self.mean
        self.mean += apart * count / self.count
        if self.m2 is not None and m2 is not None:
            self.m2 += m2 + apart * apart * before * count / self.count
        else:
            self.m2 = None

    def stddev(self) -> float | None:
        """The sample deviation; None when it isn't known."""
        if self.m2 is None or not self.count:
            return None
        return math.sqrt(self.m2 / (self.count - 1)) if self.count > 1 else 0.0


class LatencySum(Struct, gc=False):
    """Latency of one kind. Samples with histograms and samples without are kept apart."""

    binned: Moments = field(default_factory=Moments)
    binned_workers: int = 0
    #: histograms that are still to be added up, never more than _PENDING
    parts: list[Histogram] = []
    plain: Moments = field(default_factory=Moments)
    plain_workers: int = 0
    #: fio's own percentiles, of the one latency added so far without a histogram
    printed: Mapping[float, int] | None = None

    def add(self, latency: Latency) -> None:
        """Add one job's latency, inside one worker."""
        deviation = latency.stddev
        m2 = None if deviation is None else deviation * deviation * (latency.count - 1)
        if latency.histogram is None:
            self.printed = None if self.plain.count else latency.printed
            self.plain.add(latency.count, latency.min, latency.max, latency.mean, m2)
            self.plain_workers = 1
        else:
            self.binned.add(latency.count, latency.min, latency.max, latency.mean, m2)
            self.parts.append(latency.histogram)
            self.binned_workers = 1

    def add_sum(self, other: LatencySum) -> None:
        """Add the sum of another worker."""
        if other.binned_workers:
            part = other.binned
            self.binned.add(part.count, part.least, part.most, part.mean, part.m2)
            self.parts.extend(other.parts)
            self.binned_workers += other.binned_workers
            if len(self.parts) > _PENDING:
                self.histogram()
        if other.plain_workers:
            part = other.plain
            self.printed = None if self.plain.count else other.printed
            self.plain.add(part.count, part.least, part.most, part.mean, part.m2)
            self.plain_workers += other.plain_workers

    def histogram(self) -> Histogram:
        """The sum of the histograms so far."""
        if len(self.parts) != 1:
            self.parts = [add_up(self.parts)]
        return self.parts[0]

    @property
    def samples(self) -> int:
        """All samples, with and without a histogram."""
        return self.binned.count + self.plain.count


class DirectionSum(Struct, gc=False):
    """Reads, writes or trims; every figure None as soon as one part of it is."""

    ios: int | None = 0
    bytes: int | None = 0
    iops: float | None = 0.0
    bytes_per_s: float | None = 0.0
    #: workers that did any I/O in this direction
    active: int = 0
    lat: LatencySum = field(default_factory=LatencySum)
    clat: LatencySum = field(default_factory=LatencySum)

    def add(self, direction: Direction) -> None:
        """Add one job's direction."""
        self._add_rates(direction)
        if direction.ios != 0:
            self.active = 1
        if direction.lat is not None:
            self.lat.add(direction.lat)
        if direction.clat is not None:
            self.clat.add(direction.clat)

    def add_sum(self, other: DirectionSum) -> None:
        """Add another worker's sum."""
        self._add_rates(other)
        self.active += other.active
        self.lat.add_sum(other.lat)
        self.clat.add_sum(other.clat)

    def _add_rates(self, other: Direction | DirectionSum) -> None:
        self.ios = None if self.ios is None or other.ios is None else self.ios + other.ios
        self.bytes = None if self.bytes is None or other.bytes is None else self.bytes + other.bytes
        self.iops = None if self.iops is None or other.iops is None else self.iops + other.iops
        self.bytes_per_s = (
            None
            if self.bytes_per_s is None or other.bytes_per_s is None
            else self.bytes_per_s + other.bytes_per_s
        )

    def kinds(self) -> list[tuple[str, LatencySum]]:
        """The kinds of latency that were measured, the headline first."""
        lat, clat = self.lat, self.clat
        if not clat.samples:
            return [("lat", lat)] if lat.samples else []
        if not lat.samples:
            return [("clat", clat)]
        if lat.binned_workers or clat.binned_workers:
            total_first = lat.binned_workers >= clat.binned_workers
        else:
            total_first = bool(lat.printed or not clat.printed)
        found = [("lat", lat), ("clat", clat)]
        return found if total_first else found[::-1]


class Sum(Struct, gc=False):
    """The figures of a job, a worker, a group or a case, while they are being added."""

    read: DirectionSum | None = None
    write: DirectionSum | None = None
    trim: DirectionSum | None = None
    sync: LatencySum | None = None

    def add_job(self, job: Job) -> None:
        """Add one entry of a worker's output."""
        if job.read is not None:
            self.read = self.read or DirectionSum()
            self.read.add(job.read)
        if job.write is not None:
            self.write = self.write or DirectionSum()
            self.write.add(job.write)
        if job.trim is not None:
            self.trim = self.trim or DirectionSum()
            self.trim.add(job.trim)
        if job.sync is not None:
            self.sync = self.sync or LatencySum()
            self.sync.add(job.sync)

    def add_worker(self, worker: Sum) -> None:
        """Add a whole worker."""
        if worker.read is not None:
            self.read = self.read or DirectionSum()
            self.read.add_sum(worker.read)
        if worker.write is not None:
            self.write = self.write or DirectionSum()
            self.write.add_sum(worker.write)
        if worker.trim is not None:
            self.trim = self.trim or DirectionSum()
            self.trim.add_sum(worker.trim)
        if worker.sync is not None:
            self.sync = self.sync or LatencySum()
            self.sync.add_sum(worker.sync)


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

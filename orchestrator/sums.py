"""Figures while they are being added: rates, latencies with and without histograms, by direction.

Rates are summed, means weighted by count, deviations pooled, histograms added bin by bin. What
isn't known in one part isn't known in the sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct, field

from orchestrator.histogram import Histogram, add_up
from orchestrator.measured import Direction, Job, Latency

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

"""What is known about a case beyond fio's figures: load asked for, data touched, caches, limits.

Filled by whoever knows (plan, inventory, counters); what isn't known is None or left out, and the
checks that need it say nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

LimitSide = Literal["all", "read", "write"]

#: The longest pause of the storage that a capped load should ride out with its I/Os still issued
#: on time, in seconds: a path failover or a host's stun is shorter, a rebuild's hiccup too.
RIDDEN_OUT_S: Final = 1.0


@dataclass(frozen=True)
class Cache:
    """A cache between fio and the disks: its size over all of the case's workers, in bytes."""

    name: str
    bytes: int
    reads: bool = True
    writes: bool = False


@dataclass(frozen=True)
class Limit:
    """What a device or link can carry at most. `workers` are those whose sum it holds for; empty:
    the whole case. `side`: of which direction."""

    name: str
    iops: float | None = None
    bytes_per_s: float | None = None
    side: LimitSide = "all"
    workers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class HostCounters:
    """What the hosts counted over the measured window, summed; `source` names the counter."""

    source: str
    iops: float | None = None
    bytes_per_s: float | None = None


@dataclass(frozen=True)
class JobCap:
    """The rate limit of one of a worker's jobs, by its name in fio's output.

    `iops` and `bytes_per_s` by direction are those of all its clones (numjobs) together; a
    direction that isn't limited is left out. `clone_iops` is what one clone has to issue each
    second (None: not known), `depth` how many I/Os it may have outstanding. `poisson`: arrivals are
    random (rate_process), so their number is, too.
    """

    job: str
    iops: Mapping[str, float] = field(default_factory=dict)
    bytes_per_s: Mapping[str, float] = field(default_factory=dict)
    clone_iops: float | None = None
    depth: int = 1
    poisson: bool = False


@dataclass(frozen=True)
class FactLimits:
    """Where the checks of `plausibility` say no."""

    #: Little's law: mean I/Os in flight (IOPS x mean latency) over those allowed. More than all of
    #: them can't be in flight; 10 % is left for the edges of the measured time.
    most_in_flight: float = 1.10
    #: Without a cap fio keeps the queue full; below this it was fio or its CPU that couldn't.
    least_in_flight: float = 0.50
    #: A mean below 10 us is shorter than one round to a local NVMe device through a guest's kernel.
    least_latency_ns: float = 10_000
    #: A worker below this part of its group's median, ...
    straggler_share: float = 0.5
    #: ... a host whose workers' median is below this part of the others'.
    slow_host_share: float = 0.75
    #: Guests and hosts count the same I/O; windows differ a little.
    guest_above_host: float = 1.10
    host_above_guest: float = 1.25
    #: Measured over a stated limit: impossible above, the limit itself was measured near it.
    above_limit: float = 1.02
    at_limit: float = 0.95
    #: A capped load that reached less than this part of its cap.
    cap_kept: float = 0.98


@dataclass(frozen=True)
class CaseFacts:
    """Everything known about a case beyond its results.

    `outstanding_ios` by worker: the most I/Os that its jobs keep in flight (depth x jobs x targets;
    1 a job for synchronous engines). `paced`: workers whose fio is slowed down by something other
    than the queue (a rate cap, think time, a latency target). `caps` by worker. `in_turn`: workers
    whose jobs don't all run at the same time (stonewall). `buffered`: workers whose I/O goes
    through their page cache. `working_set_bytes` and `filled_bytes` over all workers.
    """

    outstanding_ios: Mapping[str, int] = field(default_factory=dict)
    paced: frozenset[str] = frozenset()
    caps: Mapping[str, tuple[JobCap, ...]] = field(default_factory=dict)
    in_turn: frozenset[str] = frozenset()
    buffered: frozenset[str] = frozenset()
    working_set_bytes: int | None = None
    filled_bytes: int | None = None
    caches: tuple[Cache, ...] = ()
    limits: tuple[Limit, ...] = ()
    host_counters: HostCounters | None = None
    #: the suite asked for steadiness, so its absence counts
    steady_asked: bool = False
    thresholds: FactLimits = FactLimits()


def depth_for_rate(job_iops: float, pause_s: float = RIDDEN_OUT_S) -> int:
    """The queue depth that lets a job with a rate cap issue every I/O on time during a pause.

    With less, fio stops issuing while the queue is full and starts those I/Os late, so the time
    that they waited is in no latency (coordinated omission). An asynchronous engine with this
    depth avoids it; `io_submit_mode=offload` doesn't help where it hangs (fio 3.33, libaio).
    """
    return max(1, math.ceil(job_iops * pause_s))

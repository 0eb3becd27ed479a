"""What a case asks of its workers, as the checks need it: I/Os in flight, caps, data touched."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence

from orchestrator import demand
from orchestrator.casefacts import Cache, Cap, CaseFacts, HostCounters, Limit
from orchestrator.plan import Assigned, Plan, assignments, filled
from orchestrator.profiles import Profile
from orchestrator.suites import Case

#: Options of a job that slow it down on purpose.
_PACING = ("thinktime", "rate", "rate_iops", "rate_min", "latency_target")


def case_facts(
    plan: Plan,
    case: Case,
    *,
    prepared: bool,
    host_counters: HostCounters | None = None,
    steady_asked: bool = False,
) -> CaseFacts:
    """The facts of a case that its plan holds; the hosts' counters are what others know."""
    parts = assignments(plan, case)
    return CaseFacts(
        outstanding_ios={part.worker.name: outstanding_ios(part) for part in parts},
        paced=any(_is_paced(part.profile) for part in parts),
        cap=_cap(parts),
        working_set_bytes=_whole(_working_set(part) for part in parts),
        filled_bytes=_whole(_filled(plan, part) for part in parts) if prepared else None,
        caches=tuple(Cache(c.name, c.size, c.reads, c.writes) for c in plan.caches),
        limits=tuple(_limits(plan, [part.worker.name for part in parts])),
        host_counters=host_counters,
        steady_asked=steady_asked,
    )


def _limits(plan: Plan, workers: Sequence[str]) -> Iterator[Limit]:
    """Those that hold for workers of the case; one for other workers says nothing of it."""
    for limit in plan.limits:
        names = [n for pattern in limit.workers for n in fnmatch.filter(workers, pattern)]
        if names or not limit.workers:
            yield Limit(limit.name, limit.iops, limit.bytes_per_s, limit.side, frozenset(names))


def outstanding_ios(part: Assigned) -> int:
    """The most I/Os that a worker's jobs keep in flight."""
    totals = demand.totals(part.profile, len(part.worker.targets))
    return totals.jobs if part.profile.engine in demand.SYNCHRONOUS else totals.outstanding_ios


def _is_paced(profile: Profile) -> bool:
    job = profile.job_text
    if job is not None:
        return any(key in options for _, options in job.jobs() for key in _PACING)
    return any(
        shape.rate is not None
        or shape.latency_target is not None
        or any(key in shape.options for key in _PACING)
        for shape in profile.shapes
    )


def _cap(parts: Sequence[Assigned]) -> Cap | None:
    """Caps of the whole case; None unless each worker has one. A case capped in part has none:
    what its other jobs do is not limited."""
    sums = [_worker_cap(part) for part in parts]
    iops, size = _whole(cap[0] for cap in sums), _whole(cap[1] for cap in sums)
    tight = max((job for part in parts for job in _job_rates(part)), default=None)
    if iops is None and size is None and tight is None:
        return None
    return Cap(
        iops=iops,
        bytes_per_s=size,
        job_iops=tight[1] if tight else None,
        job_depth=tight[2] if tight else None,
    )


def _worker_cap(part: Assigned) -> tuple[int | None, int | None]:
    totals = demand.totals(part.profile, len(part.worker.targets))
    return (
        _whole((totals.read_iops_cap, totals.write_iops_cap)),
        _whole((totals.read_bytes_per_s_cap, totals.write_bytes_per_s_cap)),
    )


def _job_rates(part: Assigned) -> Iterator[tuple[float, float, int]]:
    """(rate for each outstanding I/O, rate, depth) of every job with a cap on its I/Os."""
    if part.profile.fio is not None:
        return
    for item in demand.assign_targets(part.profile, len(part.worker.targets)):
        rate = sum(one or 0 for one in item.iops)
        depth = 1 if part.profile.engine in demand.SYNCHRONOUS else item.shape.iodepth
        if rate:
            yield rate / depth, float(rate), depth


def _working_set(part: Assigned) -> int | None:
    """Bytes that a worker's jobs touch; None when a target's size isn't known, or with the user's
    own job file."""
    if part.profile.fio is not None:
        return None
    spans: dict[int, int] = {}
    for item in demand.assign_targets(part.profile, len(part.worker.targets)):
        size = part.worker.targets[item.index].size
        if size is None:
            return None
        span = size * item.area_percent // 100 * item.shape.working_set // 100
        areas = spans.setdefault(item.index, 0)
        # Jobs without a share use the same area of a target, jobs with one have an area each.
        spans[item.index] = areas + span if item.area_percent < 100 else max(areas, span)
    return sum(spans.values())


def _filled(plan: Plan, part: Assigned) -> int | None:
    methods = filled(plan, part.worker)
    sizes = [t.size for t in part.worker.targets if str(t.label) in methods]
    return _whole(sizes)


def _whole(parts: Iterator[int | None] | Sequence[int | None]) -> int | None:
    """The sum, None when a part of it isn't known."""
    found = list(parts)
    known = [part for part in found if part is not None]
    return sum(known) if known and len(known) == len(found) else None

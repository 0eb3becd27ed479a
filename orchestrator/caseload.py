"""What a case asks of its workers, as the checks need it: I/Os in flight, caps, data touched."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence

from orchestrator import demand
from orchestrator.casefacts import Cache, CaseFacts, HostCounters, Limit
from orchestrator.plan import Assigned, Plan, assignments, filled
from orchestrator.profiles import Profile
from orchestrator.ratecaps import job_caps
from orchestrator.sections import fio_flag
from orchestrator.shapes import OptionValue
from orchestrator.suites import Case

#: Options of a job that slow it down on purpose.
_PACING = ("thinktime", "rate", "rate_iops", "rate_min", "latency_target", "iodepth_low", "flow")


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
        paced=frozenset(part.worker.name for part in parts if _is_paced(part.profile)),
        caps={part.worker.name: job_caps(part.profile, _labels(part)) for part in parts},
        in_turn=frozenset(part.worker.name for part in parts if _in_turn(part)),
        buffered=frozenset(part.worker.name for part in parts if _is_buffered(part.profile)),
        working_set_bytes=_whole(_working_set(part) for part in parts),
        filled_bytes=_whole(_filled(plan, part) for part in parts) if prepared else None,
        caches=tuple(Cache(c.name, c.size, c.reads, c.writes) for c in plan.caches),
        limits=tuple(_limits(plan, [part.worker.name for part in parts])),
        host_counters=host_counters,
        steady_asked=steady_asked,
    )


def _labels(part: Assigned) -> list[str]:
    return [str(target.label) for target in part.worker.targets]


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


def _in_turn(part: Assigned) -> bool:
    """Whether some of its jobs wait for others: their rates were never there together."""
    job = part.profile.job_text
    if job is not None:
        return _waiting([options for _, options in job.jobs()])
    return _waiting([shape.options for shape in part.profile.shapes for _ in part.worker.targets])


def _waiting(jobs: Sequence[Mapping[str, str]] | Sequence[Mapping[str, OptionValue]]) -> bool:
    delays = {str(options.get("startdelay", "0")) for options in jobs}
    behind = any(key in options for options in jobs[1:] for key in ("stonewall", "wait_for"))
    return behind or len(delays) > 1


def _is_buffered(profile: Profile) -> bool:
    """Whether any of its jobs goes through the worker's page cache (fio's own default)."""
    job = profile.job_text
    if job is None:
        return not profile.direct
    return any(
        not fio_flag(options, "direct") and options.get("buffered") != "0"
        for _, options in job.jobs()
        if options.get("ioengine") not in ("cpuio", "null")
    )


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

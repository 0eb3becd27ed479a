"""The rate limits of a worker's jobs as fio was given them: from its profile, or its own file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from orchestrator import demand
from orchestrator.casefacts import JobCap
from orchestrator.profiles import Job, Profile
from orchestrator.sections import JobText, fio_directions, fio_int, named_files
from orchestrator.shapes import OptionValue, Shape

_SIDES = ("read", "write")
#: fio's own block size.
_BLOCK = 4096


def job_caps(profile: Profile, labels: Sequence[str]) -> tuple[JobCap, ...]:
    """The limits of a worker's jobs on its targets, by the names that fio's output has for them."""
    job = profile.job_text
    if job is not None:
        return tuple(_of_file(job, labels))
    placed = demand.assign_targets(profile, len(labels))
    found = (_of_assignment(item, labels[item.index], profile.engine) for item in placed)
    return tuple(cap for cap in found if cap is not None)


def _of_assignment(item: demand.Assignment, label: str, engine: str) -> JobCap | None:
    shape = item.shape
    # With a latency target each clone is a job of its own (see jobfile), and that is the limit.
    if shape.rate is None or shape.latency_target is not None:
        return None
    iops, size = _named(item.iops), _named(item.bytes_per_s)
    blocks = dict(zip(_SIDES, demand.mean_block_sizes(shape), strict=True))
    return JobCap(
        job=f"{label}-{shape.name}" if isinstance(shape, Job) else label,
        iops=_times(iops, shape.numjobs),
        bytes_per_s=_times(size, shape.numjobs),
        clone_iops=sum(iops.values()) + sum(value / blocks[side] for side, value in size.items()),
        depth=_depth(shape, engine),
        poisson=_is_poisson(shape.options),
    )


def _depth(shape: Shape, engine: str) -> int:
    return 1 if engine in demand.SYNCHRONOUS else shape.iodepth


def _of_file(job: JobText, labels: Sequence[str]) -> Iterator[JobCap]:
    """A file that names no device, or one, has its jobs on every target (see ownjob)."""
    repeated = len(named_files(job)) <= 1 and len(labels) > 1
    for section, options in job.jobs():
        if not {"rate", "rate_iops"} & options.keys() or "latency_target" in options:
            continue
        happens = demand.own_direction(options)
        iops = _asked(options.get("rate_iops"), happens)
        size = _asked(options.get("rate"), happens)
        clones = fio_int(options.get("numjobs", "1")) or 1
        engine = options.get("ioengine", "psync")
        for name in [f"{section.name}-{label}" for label in labels] if repeated else [section.name]:
            yield JobCap(
                job=name,
                iops=_times(iops, clones),
                bytes_per_s=_times(size, clones),
                clone_iops=_due(iops, size, options),
                depth=1
                if engine in demand.SYNCHRONOUS
                else fio_int(options.get("iodepth", "1")) or 1,
                poisson=_is_poisson(options),
            )


def _is_poisson(options: Mapping[str, OptionValue] | Mapping[str, str]) -> bool:
    return options.get("rate_process") == "poisson"


def _asked(value: str | None, happens: tuple[bool, bool]) -> dict[str, int]:
    read, write = fio_directions(value) if value is not None else (None, None)
    return _named((read if happens[0] else None, write if happens[1] else None))


def _due(
    iops: Mapping[str, int], size: Mapping[str, int], options: Mapping[str, str]
) -> float | None:
    """I/Os a second; None where blocks of several sizes leave it open."""
    if iops:
        return float(sum(iops.values()))
    if {"bssplit", "bsrange"} & options.keys() or "," in options.get("bs", ""):
        return None
    block = fio_int(options.get("bs", str(_BLOCK)))
    return sum(size.values()) / block if block else None


def _named(caps: tuple[int | None, int | None]) -> dict[str, int]:
    """By direction, those that are limited."""
    return {side: cap for side, cap in zip(_SIDES, caps, strict=True) if cap}


def _times(caps: Mapping[str, int], clones: int) -> dict[str, float]:
    return {side: float(cap * clones) for side, cap in caps.items()}

"""What a profile asks of a worker: which job on which target, at what rate, and the totals.

A limit belongs to a worker as a whole. fio's own rate options cap each job and each direction, so
they are split here: over directions by the mix, over targets and jobs by count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from orchestrator.casefacts import depth_for_rate
from orchestrator.errors import ConfigError
from orchestrator.joblint import Finding, check_reach, lint_job
from orchestrator.profiles import Job, Profile, with_timing
from orchestrator.sections import (
    fio_directions,
    fio_int,
    fio_seconds,
    named_files,
    parse_job_text,
)
from orchestrator.shapes import BlockSizes, BlockSplits, ByteRates, IopsRates, Shape, Split
from orchestrator.units import format_duration

#: Engines that keep one I/O in flight in each job whatever iodepth says.
SYNCHRONOUS: Final = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"})


@dataclass(frozen=True)
class Totals:
    """What a worker, or a fleet, is asked to do. A cap is None where nothing limits it."""

    jobs: int = 0
    outstanding_ios: int = 0
    read_iops_cap: int | None = None
    write_iops_cap: int | None = None
    read_bytes_per_s_cap: int | None = None
    write_bytes_per_s_cap: int | None = None

    def times(self, workers: int) -> Totals:
        """The same on several workers."""
        result = self
        for _ in range(workers - 1):
            result = result + self
        return result if workers else Totals()

    def __add__(self, other: Totals) -> Totals:
        """Both together; a cap holds only where both sides have it."""
        caps = (
            "read_iops_cap",
            "write_iops_cap",
            "read_bytes_per_s_cap",
            "write_bytes_per_s_cap",
        )
        both = {name: _sum(getattr(self, name), getattr(other, name)) for name in caps}
        return Totals(
            jobs=self.jobs + other.jobs,
            outstanding_ios=self.outstanding_ios + other.outstanding_ios,
            **both,
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def does_read(profile: Profile) -> bool:
    """Whether any of its jobs reads."""
    return any(shape.read_percent > 0 for shape in profile.shapes) or any(
        own_direction(options)[0] for options in _own_jobs(profile)
    )


def does_write(profile: Profile) -> bool:
    """Whether any of its jobs writes (or trims): then its targets lose what they hold."""
    return any(shape.read_percent < 100 for shape in profile.shapes) or any(
        own_direction(options)[1] for options in _own_jobs(profile)
    )


def _own_jobs(profile: Profile) -> list[Mapping[str, str]]:
    job = profile.job_text
    return [] if job is None else [options for _, options in job.jobs()]


def own_direction(options: Mapping[str, str]) -> tuple[bool, bool]:
    """(reads, writes) of fio's rw; cpuio does neither, what isn't known writes."""
    if options.get("ioengine") == "cpuio":
        return False, False
    kind = options.get("rw", "read").split(":")[0].removeprefix("rand")
    if kind == "read":
        return True, False
    if kind in ("write", "trim", "trimwrite"):
        return False, True
    return True, True


def wall_seconds(profile: Profile) -> float:
    """How long fio takes on a worker: ramp and runtime (case 30: wall time counts both).

    For the user's own file the longest job; jobs behind a stonewall come one after the other.
    """
    if profile.fio is None:
        return (profile.ramp or 0.0) + (profile.runtime or 0.0)
    finished, running = 0.0, 0.0
    for options in _own_jobs(profile):
        if "stonewall" in options:
            finished, running = finished + running, 0.0
        ramp = _own_time(profile.ramp, options, "ramp_time")
        runtime = _own_time(profile.runtime, options, "runtime")
        delay = fio_seconds(options.get("startdelay", "0").split(",")[-1].split("-")[-1]) or 0.0
        running = max(running, ramp + runtime + delay)
    return finished + running


def _own_time(override: float | None, options: Mapping[str, str], key: str) -> float:
    return override if override is not None else fio_seconds(options.get(key, "0")) or 0.0


def measured_seconds(profile: Profile) -> float:
    """The time that fio is asked to measure: wall time without the ramp."""
    if profile.fio is None:
        return profile.runtime or 0.0
    times = [_own_time(profile.runtime, options, "runtime") for options in _own_jobs(profile)]
    return max(times, default=0.0)


def lint_profile(profile: Profile) -> tuple[Finding, ...]:
    """Errors and warnings that need no target and no worker."""
    job = profile.job_text
    if job is not None:
        timing = lint_job(with_timing(job, profile))
        return (*check_reach(job), *timing)
    findings: list[Finding] = []
    if profile.ramp and profile.runtime and profile.ramp >= profile.runtime:
        findings.append(
            Finding(
                "error",
                "ramp-longer-than-runtime",
                "",
                f"ramp {format_duration(profile.ramp)} is not shorter than runtime "
                f"{format_duration(profile.runtime)}: fio may end inside the ramp with nothing "
                "measured; make runtime longer or ramp shorter",
            )
        )
    if profile.engine in SYNCHRONOUS:
        findings += [
            Finding(
                "warning",
                "depth-of-a-synchronous-engine",
                shape.name if isinstance(shape, Job) else "",
                f"engine {profile.engine} keeps one I/O in flight whatever iodepth says "
                f"({shape.iodepth})",
            )
            for shape in profile.shapes
            if shape.iodepth > 1
        ]
    for shape in profile.shapes:
        text = "\n".join(["[job]", *(f"{k}={v}" for k, v in shape.options.items())])
        measuring = ("latency-off", "errors-continued")
        findings += [f for f in lint_job(parse_job_text(text)) if f.code in measuring]
    return tuple(findings)


def lint_depth(profile: Profile, targets: int) -> tuple[Finding, ...]:
    """A warning for each job whose rate cap leaves I/Os waiting outside of every latency when the
    storage pauses: its depth is below what it has to issue in that time.

    Nothing about the user's own job file, or where the rate can't be split over the targets.
    """
    try:
        items = assign_targets(profile, targets)
    except ConfigError:
        return ()
    highest: dict[str, tuple[float, int]] = {}
    for item in items:
        name = item.shape.name if isinstance(item.shape, Job) else ""
        depth = 1 if profile.engine in SYNCHRONOUS else item.shape.iodepth
        rate = float(sum(one or 0 for one in item.iops))
        highest[name] = max((rate, depth), highest.get(name, (0.0, depth)))
    return tuple(
        Finding(
            "warning",
            "depth-for-rate",
            name,
            f"depth {depth} at {rate:,.0f} IOPS a job: I/Os that are due while the storage pauses "
            "wait outside of every latency (coordinated omission); an asynchronous engine with "
            f"iodepth {depth_for_rate(rate)} rides out a second",
        )
        for name, (rate, depth) in highest.items()
        if rate and depth < depth_for_rate(rate)
    )


def worker_seed(seed: int, worker: str) -> int:
    """A worker's own seed: the same for the same suite seed and worker name, else unlike.

    fio 3.33 seeds job n with the low 32 bits of n times randseed (seen: seeds 1 and 2 give the
    second job of one worker and the first of the other the same offsets; 2**62 gives all jobs the
    same). So seeds must be neither small, nor neighbours, nor even.
    """
    digest = hashlib.sha256(f"{seed}/{worker}".encode()).digest()
    return int.from_bytes(digest[:4], "big") | 1


@dataclass(frozen=True)
class Assignment:
    """One job shape on one target: which area of it (percents), and its rates per job.

    `index` is the target's position. Rates are (read, write), None where not limited.
    """

    shape: Shape
    index: int
    area_start: int
    area_percent: int
    iops: tuple[int | None, int | None] = (None, None)
    bytes_per_s: tuple[int | None, int | None] = (None, None)


def assign_targets(profile: Profile, targets: int) -> tuple[Assignment, ...]:
    """Which job runs on which of a worker's targets, and at what rate.

    Jobs with a `share` get whole targets in that proportion (each at least one); where there are
    too few, each target's area is divided instead. ConfigError when a rate is too small to split.
    """
    placed: list[tuple[Shape, int, int, int]] = []
    sharing = [job for job in profile.jobs if job.share is not None]
    whole = deal([job.share or 0 for job in sharing], targets)
    start = 0
    for shape in profile.shapes:
        if not isinstance(shape, Job) or shape.share is None:
            placed += [(shape, index, 0, 100) for index in range(targets)]
        elif whole is None:
            placed += [(shape, index, start, shape.share) for index in range(targets)]
            start += shape.share
        else:
            count = whole[sharing.index(shape)]
            placed += [(shape, index, 0, 100) for index in range(start, start + count)]
            start += count
    result: list[Assignment] = []
    for shape in profile.shapes:
        result += _with_rates(shape, [item for item in placed if item[0] is shape])
    return tuple(result)


def deal(shares: Sequence[int], targets: int) -> list[int] | None:
    """Divide targets in proportion to shares, each share at least one, by largest remainder.

    None when there are fewer targets than shares. The targets that no share asks for (a sum
    below 100) stay unused.
    """
    if targets < len(shares):
        return None
    wanted = [share * targets / 100 for share in shares]
    counts = [max(1, int(want)) for want in wanted]
    limit = max(len(shares), round(sum(wanted)))
    order = sorted(range(len(shares)), key=lambda i: (counts[i] - wanted[i], i))
    for i in order:
        if sum(counts) < limit and counts[i] < wanted[i]:
            counts[i] += 1
    while sum(counts) > targets:
        spare = [i for i in range(len(counts)) if counts[i] > 1]
        counts[max(spare, key=lambda i: (counts[i] - wanted[i], counts[i]))] -= 1
    return counts


def _with_rates(shape: Shape, placed: list[tuple[Shape, int, int, int]]) -> list[Assignment]:
    name = shape.name if isinstance(shape, Job) else ""
    per_target: list[list[tuple[int | None, int | None]]] = []
    for rates in (iops_by_direction(shape), bytes_by_direction(shape)):
        split = [split_rate(rate, len(placed), shape.numjobs, job=name) for rate in rates]
        per_target.append(list(zip(*split, strict=True)))
    return [
        Assignment(shape, index, start, percent, per_target[0][n], per_target[1][n])
        for n, (_, index, start, percent) in enumerate(placed)
    ]


def split_rate(rate: int | None, targets: int, numjobs: int, *, job: str = "") -> list[int | None]:
    """The cap of each job on each target, so that all together come nearest to `rate`.

    All of a target's jobs have one cap; the rest is dealt over the targets. ConfigError when a
    job would get less than one.
    """
    if rate is None:
        return [None] * targets
    units = max(1, round(rate / numjobs))
    if units < targets:
        place = f"job {job}: " if job else ""
        raise ConfigError(
            f"{place}a rate of {rate} per worker can't be split over {targets} targets with "
            f"{numjobs} jobs each",
            means="fio limits each job on its own, to at least 1",
            next_step="raise the rate, or take fewer jobs or targets",
        )
    base, more = divmod(units, targets)
    return [base + (1 if n < more else 0) for n in range(targets)]


def iops_by_direction(shape: Shape) -> tuple[int | None, int | None]:
    """A worker's (read, write) I/O caps; a total is divided by the mix."""
    given = None if shape.rate is None else shape.rate.iops
    if isinstance(given, IopsRates):
        return given.read, given.write
    if given is None:
        return None, None
    return _divide(given, shape.read_percent, 100 - shape.read_percent)


def bytes_by_direction(shape: Shape) -> tuple[int | None, int | None]:
    """A worker's (read, write) byte caps; a total is divided by the mix times the block sizes."""
    given = None if shape.rate is None else shape.rate.bytes_per_s
    if isinstance(given, ByteRates):
        return given.read, given.write
    if given is None:
        return None, None
    read, write = mean_block_sizes(shape)
    return _divide(given, shape.read_percent * read, (100 - shape.read_percent) * write)


def _divide(rate: int, read: float, write: float) -> tuple[int | None, int | None]:
    """In the proportion read to write; a direction that never happens has no cap."""
    reads = round(rate * read / (read + write))
    return (reads if read else None), (rate - reads if write else None)


def mean_block_sizes(shape: Shape) -> tuple[float, float]:
    """Mean bytes of a read and of a write."""
    if isinstance(shape.bssplit, BlockSplits):
        return _mean(shape.bssplit.read), _mean(shape.bssplit.write)
    if shape.bssplit is not None:
        return _mean(shape.bssplit), _mean(shape.bssplit)
    if isinstance(shape.block_size, BlockSizes):
        return float(shape.block_size.read), float(shape.block_size.write)
    return float(shape.block_size or 0), float(shape.block_size or 0)


def _mean(split: Split) -> float:
    return sum(part.size * part.percent for part in split) / 100


def totals(profile: Profile, targets: int) -> Totals:
    """What one worker with so many targets is asked for (case 32); caps as they are rendered.

    The user's own file: one set of its jobs for each target when it names none or one.
    """
    result: Totals | None = None
    if profile.fio is None:
        parts = [_of_assignment(item) for item in assign_targets(profile, targets)]
    else:
        job = parse_job_text(profile.fio)
        parts = [_of_options(options) for _, options in job.jobs()]
        parts *= targets if len(named_files(job)) <= 1 else 1
    for part in parts:
        result = part if result is None else result + part
    return result or Totals()


def _of_assignment(item: Assignment) -> Totals:
    jobs, percent = item.shape.numjobs, item.shape.read_percent

    def cap(figure: int | None, happens: bool) -> int | None:
        return 0 if not happens else (None if figure is None else figure * jobs)

    return Totals(
        jobs=jobs,
        outstanding_ios=jobs * item.shape.iodepth,
        read_iops_cap=cap(item.iops[0], percent > 0),
        write_iops_cap=cap(item.iops[1], percent < 100),
        read_bytes_per_s_cap=cap(item.bytes_per_s[0], percent > 0),
        write_bytes_per_s_cap=cap(item.bytes_per_s[1], percent < 100),
    )


def _of_options(options: Mapping[str, str]) -> Totals:
    if options.get("ioengine") == "cpuio":
        return Totals()
    jobs = fio_int(options.get("numjobs", "1")) or 1
    depth = fio_int(options.get("iodepth", "1")) or 1
    happens = own_direction(options)
    caps: list[int | None] = []
    for key in ("rate_iops", "rate"):
        given = fio_directions(options[key]) if key in options else (None, None)
        caps += [
            0 if not direction else (None if figure is None else figure * jobs)
            for figure, direction in zip(given, happens, strict=True)
        ]
    return Totals(jobs, jobs * depth, *caps)

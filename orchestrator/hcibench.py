"""HCIBench's way to name a workload: `fio-8vmdk-100ws-4k-70rdpct-100randompct-4threads`.

The form is that of fioconfig 0.4.4: `[prefix-]fio-<n>vmdk-<ws>ws-<bs>-<r>rdpct-<s>randompct-` then
`<t>threads`, or `<us>lt` for a latency target, then `-<j>jobs`, `-<n>cpu-<p>cpupct`,
`-<c>compress`, `-<d>dedupe`, each only where it was set. The name says nothing of time or rate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from orchestrator.errors import ConfigError
from orchestrator.profiles import Profile
from orchestrator.shapes import LatencyTarget
from orchestrator.units import parse_size

#: With a latency target HCIBench gives fio this depth as a ceiling, and these two figures.
LATENCY_DEPTH: Final = 1024
_LATENCY_PERCENTILE: Final = 95.0
_NAME: Final = re.compile(
    r"(?:(?P<prefix>[A-Za-z0-9_.+-]+?)-)?fio-(?P<disks>\d+)vmdk-(?P<ws>\d+)ws-(?P<bs>\d+[kKmMgGbB]?)-"
    r"(?P<read>\d+)rdpct-(?P<random>\d+)randompct-(?:(?P<threads>\d+)threads|(?P<lt>\d+)lt)"
    r"(?:-(?P<jobs>\d+)jobs)?(?:-(?P<cpus>\d+)cpu-(?P<cpupct>\d+)cpupct)?"
    r"(?:-(?P<compress>\d+)compress)?(?:-(?P<dedupe>\d+)dedupe)?"
)


@dataclass(frozen=True)
class HcibenchName:
    """What a name holds. `block` is as written (`4k`, `1024k`), `latency_us` is there instead of
    `threads` with a latency target; percents are whole."""

    disks: int
    working_set: int
    block: str
    read_percent: int
    random_percent: int
    threads: int | None = None
    latency_us: int | None = None
    prefix: str | None = None
    jobs: int | None = None
    cpus: int | None = None
    cpu_percent: int | None = None
    compress: int | None = None
    dedupe: int | None = None

    def __str__(self) -> str:
        depth = f"{self.latency_us}lt" if self.threads is None else f"{self.threads}threads"
        parts = [
            f"{self.prefix}-" if self.prefix else "",
            f"fio-{self.disks}vmdk-{self.working_set}ws-{self.block}-",
            f"{self.read_percent}rdpct-{self.random_percent}randompct-{depth}",
            f"-{self.jobs}jobs" if self.jobs is not None else "",
            f"-{self.cpus}cpu-{self.cpu_percent}cpupct" if self.cpus is not None else "",
            f"-{self.compress}compress" if self.compress is not None else "",
            f"-{self.dedupe}dedupe" if self.dedupe is not None else "",
        ]
        return "".join(parts)


def is_hcibench_name(text: str) -> bool:
    """Whether a name has the form; it may still hold figures out of range."""
    return _NAME.fullmatch(text) is not None


def parse_name(text: str) -> HcibenchName:
    """Take a name apart. ConfigError when it hasn't the form, or a percent is above 100."""
    match = _NAME.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"{text!r} is not an HCIBench workload name",
            next_step="write it like fio-8vmdk-100ws-4k-70rdpct-100randompct-4threads",
        )

    def number(key: str) -> int | None:
        return None if match[key] is None else int(match[key])

    parts = {key: number(key) for key in ("ws", "read", "random", "compress", "dedupe", "cpupct")}
    above = sorted(key for key, value in parts.items() if value is not None and value > 100)
    counts = ("disks", "ws", "threads", "lt", "jobs", "cpus")
    none = [key for key in counts if match[key] is not None and not int(match[key])]
    if above or none or not parse_size(match["bs"]):
        raise ConfigError(
            f"{text!r}: percents go from 0 to 100, counts and sizes from 1",
            next_step=f"correct {', '.join([*above, *none]) or 'the block size'}",
        )
    return HcibenchName(
        disks=int(match["disks"]),
        working_set=int(match["ws"]),
        block=match["bs"],
        read_percent=int(match["read"]),
        random_percent=int(match["random"]),
        threads=number("threads"),
        latency_us=number("lt"),
        prefix=match["prefix"],
        jobs=number("jobs"),
        cpus=number("cpus"),
        cpu_percent=number("cpupct"),
        compress=number("compress"),
        dedupe=number("dedupe"),
    )


def profile_of_name(text: str) -> Profile:
    """The profile that a name stands for; its timing is HCIBench's easy run (30 m ramp, 1 h).

    `threads` is the queue depth of the one job of each disk. ConfigError where the name asks for
    what has another meaning here: fewer jobs than disks, or a CPU load beside the I/O.
    """
    name = parse_name(text)
    if name.cpus is not None:
        raise ConfigError(
            f"{text!r}: the CPU load ({name.cpus}cpu-{name.cpu_percent}cpupct) is not supported",
            means="the figures would be of another workload",
            next_step="leave it out of the name, or use a job file with an ioengine=cpuio section",
        )
    if name.jobs is not None and name.jobs % name.disks:
        raise ConfigError(
            f"{text!r}: {name.jobs} jobs can't be dealt evenly over {name.disks} disks",
            means="HCIBench lets one job go round over several disks then",
            next_step=f"take a multiple of {name.disks} jobs, or your own job file",
        )
    target = None
    if name.latency_us is not None:
        target = LatencyTarget.model_validate(
            {"latency": f"{name.latency_us}us", "percentile": _LATENCY_PERCENTILE}
        )
    return Profile(
        name=text,
        description=f"HCIBench's workload for {name.disks} disks a worker",
        block_size=parse_size(name.block),
        read_percent=name.read_percent,
        random_percent=name.random_percent,
        iodepth=LATENCY_DEPTH if name.threads is None else name.threads,
        numjobs=1 if name.jobs is None else name.jobs // name.disks,
        working_set=name.working_set,
        compress=name.compress or 0,
        dedupe=name.dedupe or 0,
        latency_target=target,
        runtime=3600.0,
        ramp=1800.0,
    )


def _kibibytes(size: int) -> str:
    """HCIBench writes 1024k, not 1m."""
    return str(size) if size % 1024 else f"{size // 1024}k"


def name_of_profile(profile: Profile, *, disks: int, prefix: str | None = None) -> str:
    """A profile's name in HCIBench's form. ConfigError for what the form can't say."""
    unsaid = [
        field
        for field in ("bssplit", "jobs", "fio", "rate", "options")
        if getattr(profile, field) not in (None, (), {})
    ]
    if profile.distribution != "random":
        unsaid.append("distribution")
    if unsaid or not isinstance(profile.block_size, int):
        raise ConfigError(
            f"profile {profile.name} can't be written as an HCIBench name: it has no place for "
            f"{', '.join(unsaid) or 'different block sizes of reads and writes'}"
        )
    target = profile.latency_target
    return str(
        HcibenchName(
            disks=disks,
            working_set=profile.working_set,
            block=_kibibytes(profile.block_size),
            read_percent=profile.read_percent,
            random_percent=profile.random_percent,
            threads=profile.iodepth if target is None else None,
            latency_us=None if target is None else target.latency // 1000,
            prefix=prefix,
            jobs=None if profile.numjobs == 1 else profile.numjobs * disks,
            compress=profile.compress or None,
            dedupe=profile.dedupe or None,
        )
    )

"""What I/O a job does: sizes, mix, distribution, depth, rates, and the fields' own rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from orchestrator.joblint import check_reach
from orchestrator.sections import parse_job_text
from orchestrator.units import ByteRate, Iops, Latency, Percent, PositiveDuration, Size

Name = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$", min_length=1, max_length=100)
]
Positive = Annotated[int, Field(ge=1)]


class Part(BaseModel):
    """A part of a block size split: a size and its share of the I/Os."""

    # Built when first used: an outer model builds its inner ones anyway, and most commands use few.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    size: Size
    percent: Percent


Split = tuple[Part, ...]


class BlockSizes(BaseModel):
    """Different block sizes for reads and writes."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    read: Size
    write: Size


class BlockSplits(BaseModel):
    """Different splits for reads and writes."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    read: Split
    write: Split


class IopsRates(BaseModel):
    """I/Os per second of a worker, reads and writes."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    read: Iops | None = None
    write: Iops | None = None


class ByteRates(BaseModel):
    """Bytes per second of a worker, reads and writes."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    read: ByteRate | None = None
    write: ByteRate | None = None


class Rate(BaseModel):
    """A limit for one worker as a whole; it is split over targets, jobs and directions."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    iops: Iops | IopsRates | None = None
    bytes_per_s: ByteRate | ByteRates | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.iops is None) == (self.bytes_per_s is None):
            raise ValueError("give one of iops and bytes_per_s")
        return self


class Zone(BaseModel):
    """A part of the working set: `access` percent of the I/Os go to `span` percent of it."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    access: Percent
    span: Percent


class Zipf(BaseModel):
    """Zipf's law; theta > 0 and not 1 (fio's own limit)."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    zipf: Annotated[float, Field(gt=0, le=100)]


class Pareto(BaseModel):
    """Pareto's law with the Hurst parameter h, 0 < h < 1."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    pareto: Annotated[float, Field(gt=0, lt=1)]


class Zoned(BaseModel):
    """Zones in order of address; accesses and spans each add up to 100."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    zoned: Annotated[tuple[Zone, ...], Field(min_length=2, max_length=64)]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for name in ("access", "span"):
            total = sum(getattr(zone, name) for zone in self.zoned)
            if total != 100:
                raise ValueError(f"the zones' {name} percents add up to {total}, not 100")
        return self


def _known_distribution(value: object) -> object:
    if isinstance(value, str) and value != "random":
        raise ValueError(
            f"{value!r}: write random, {{zipf: 1.2}}, {{pareto: 0.2}} or "
            "{zoned: [{access: 95, span: 5}, ...]}"
        )
    return value


class LatencyTarget(BaseModel):
    """fio seeks the highest queue depth (up to `iodepth`) that keeps this latency."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    latency: Latency
    window: PositiveDuration = 1.0
    percentile: Annotated[float, Field(gt=0, le=100)] = 95.0


OptionValue = str | int | float

#: Options that hcio renders itself; given as extra ones they would contradict the profile.
RESERVED_OPTIONS: Final = {
    "filename": "the inventory's targets",
    "rw": "read_percent and random_percent",
    "rwmixread": "read_percent",
    "rwmixwrite": "read_percent",
    "percentage_random": "random_percent",
    "random_distribution": "distribution",
    "bs": "block_size",
    "bssplit": "bssplit",
    "bsrange": "block_size or bssplit",
    "size": "working_set",
    "offset": "working_set",
    "offset_increment": "working_set",
    "iodepth": "iodepth",
    "numjobs": "numjobs",
    "rate": "rate",
    "rate_iops": "rate",
    "runtime": "runtime",
    "ramp_time": "ramp",
    "time_based": "runtime",
    "ioengine": "engine",
    "direct": "direct",
    "buffered": "direct",
    "buffer_compress_percentage": "compress",
    "dedupe_percentage": "dedupe",
    "latency_target": "latency_target",
    "latency_window": "latency_target",
    "latency_percentile": "latency_target",
    "latency_run": "latency_target",
    "thread": "hcio (a worker's jobs are threads, so that stopping one stops all)",
    "group_reporting": "hcio (figures are kept by target)",
    "randseed": "hcio (a seed of its own for each worker)",
    "randrepeat": "hcio (a seed of its own for each worker)",
    "allrandrepeat": "hcio (a seed of its own for each worker)",
    "lat_percentiles": "hcio (always on)",
    "clat_percentiles": "hcio (always on)",
    "percentile_list": "hcio",
}


class Shape(BaseModel):
    """What I/O is done: the fields of a profile, and of each of its `jobs`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    block_size: Size | BlockSizes | None = None
    bssplit: Split | BlockSplits | None = None
    read_percent: Percent = 100
    random_percent: Percent = 100
    distribution: Annotated[
        Literal["random"] | Zipf | Pareto | Zoned, BeforeValidator(_known_distribution)
    ] = "random"
    iodepth: Annotated[int, Field(ge=1, le=65536, description="per job, on each target")] = 1
    numjobs: Annotated[int, Field(ge=1, le=1024, description="jobs on each target")] = 1
    working_set: Annotated[Percent, Field(ge=1, description="percent of each target")] = 100
    rate: Annotated[Rate | None, Field(description="limit of a worker as a whole")] = None
    compress: Percent = 0
    dedupe: Percent = 0
    latency_target: LatencyTarget | None = None
    options: Annotated[
        dict[str, OptionValue], Field(description="more fio options, as fio names them")
    ] = {}

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.block_size is not None and self.bssplit is not None:
            raise ValueError("give one of block_size and bssplit")
        for split in _splits(self.bssplit):
            total = sum(part.percent for part in split)
            if total != 100:
                raise ValueError(f"the percents of bssplit add up to {total}, not 100")
        if self.distribution != "random" and self.random_percent == 0:
            raise ValueError("distribution needs random_percent above 0")
        if isinstance(self.distribution, Zipf) and self.distribution.zipf == 1:
            raise ValueError("zipf can't be 1 (fio refuses it); take 0.99 or 1.01")
        _check_options(self.options)
        _check_rate_directions(self.rate, self.read_percent)
        return self


def _splits(bssplit: Split | BlockSplits | None) -> tuple[Split, ...]:
    if bssplit is None:
        return ()
    if isinstance(bssplit, BlockSplits):
        return (bssplit.read, bssplit.write)
    return (bssplit,)


def _check_options(options: Mapping[str, OptionValue]) -> None:
    text = "[x]\n" + "".join(f"{key}={value}\n" for key, value in options.items())
    job = parse_job_text(text)
    if len(job.sections) != 1 or len(list(job.lines())) != len(options):
        raise ValueError("options hold more than one option a line")
    for line in job.lines():
        owner = RESERVED_OPTIONS.get(line.key or "")
        if owner:
            raise ValueError(f"option {line.key} is set through {owner}")
    findings = check_reach(job)
    if findings:
        raise ValueError("; ".join(f"option {finding.text}" for finding in findings))


def _check_rate_directions(rate: Rate | None, read_percent: int) -> None:
    figures = None if rate is None else rate.iops or rate.bytes_per_s
    if not isinstance(figures, IopsRates | ByteRates):
        return
    if figures.read is None and figures.write is None:
        raise ValueError("rate gives neither read nor write")
    if figures.read is not None and read_percent == 0:
        raise ValueError("rate limits reads, but read_percent is 0")
    if figures.write is not None and read_percent == 100:
        raise ValueError("rate limits writes, but read_percent is 100")

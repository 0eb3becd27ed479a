"""Job files from profiles: Jinja2 with strict names, and figures worked out before the template.

A template only lays text out. All it is given are plain values of the profile and the targets, so
no secret can reach a job file, and a template that asks for anything else is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

import jinja2
from jinja2 import meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from orchestrator.demand import Assignment, assign_targets
from orchestrator.errors import ConfigError, TemplateError
from orchestrator.ownjob import fill_targets
from orchestrator.profiles import Job, Profile, fio_time, with_timing
from orchestrator.sections import JobTarget, escape_filename, parse_job_text, set_option
from orchestrator.shapes import (
    BlockSizes,
    BlockSplits,
    LatencyTarget,
    Pareto,
    Shape,
    Split,
    Zipf,
    Zoned,
)
from orchestrator.units import format_size

#: In every template of ours: p50 to p99.999.
PERCENTILES: Final = "50:90:95:99:99.9:99.99:99.999"
JOB_TEMPLATE: Final = "job.fio.j2"
FILL_TEMPLATE: Final = "fill.fio.j2"
#: fio's smallest unit of direct I/O on any disk of today.
_SECTOR: Final = 4096
_FILL_BLOCK: Final = 2**20


@dataclass(frozen=True)
class TemplateSource:
    """A template's name, for errors, and its text."""

    name: str
    text: str


def render_text(template: TemplateSource, variables: Mapping[str, Any]) -> str:
    """Render a template. TemplateError names every unknown variable, and those not used."""
    try:
        compiled, used = _compiled(template)
        unknown = sorted(used - set(variables))
        if not unknown:
            return compiled.render(variables)
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(
            f"template {template.name}, line {error.lineno}: {error.message}"
        ) from None
    except (jinja2.TemplateError, TypeError) as error:
        raise TemplateError(f"template {template.name}: {error}") from None
    unused = sorted(set(variables) - used)
    raise TemplateError(
        f"template {template.name} names what nobody gave: {', '.join(unknown)}",
        means=f"given and not used: {', '.join(unused)}" if unused else "",
        next_step="correct the names in the template; nothing has been sent to a worker",
    )


@lru_cache(maxsize=16)
def _compiled(template: TemplateSource) -> tuple[jinja2.Template, frozenset[str]]:
    """The template and the names that it uses. Kept: a fleet renders one text for every worker,
    and compiling takes many times longer than rendering."""
    environment = ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    parsed = environment.parse(template.text)
    used = meta.find_undeclared_variables(parsed)
    return environment.from_string(parsed), frozenset(used)


def render_job(
    profile: Profile,
    targets: Sequence[JobTarget],
    *,
    seed: int,
    template: TemplateSource,
    logs: Mapping[str, str] | None = None,
) -> str:
    """The job file of one worker. `seed` is the worker's own; `logs` are options for all jobs that
    make fio write its series (`fio_logs.log_options`).

    With the user's own file the template and the seed are not used. ConfigError when the profile
    doesn't fit the targets (a rate too small to split, a working set below the block size).
    """
    if profile.fio is not None:
        job = with_timing(parse_job_text(profile.fio), profile)
        for key, value in reversed(list((logs or {}).items())):
            job = set_option(job, key, value)
        return fill_targets(job, targets, name=profile.name).render()
    sections = [
        section
        for assignment in assign_targets(profile, len(targets))
        for section in _sections(assignment, targets[assignment.index])
    ]
    return render_text(
        template,
        {
            "profile": profile.name,
            "engine": profile.engine,
            "direct": int(profile.direct),
            "runtime": fio_time(profile.runtime or 0.0),
            "ramp": fio_time(profile.ramp) if profile.ramp else None,
            "seed": seed,
            "percentiles": PERCENTILES,
            "logs": logs or {},
            "sections": sections,
        },
    )


def render_fill(
    method: Literal["zero", "random", "compressible"],
    targets: Sequence[JobTarget],
    *,
    seed: int,
    template: TemplateSource,
    engine: str = "libaio",
    direct: bool = True,
    compress: int | None = None,
    dedupe: int | None = None,
) -> str:
    """A job file that writes every target once, whole, and ends when that is done.

    `compress` and `dedupe` are the percents of a `compressible` fill.
    """
    sections = []
    for target in targets:
        tail = target.size % _FILL_BLOCK
        parts = [(target.label, 0, target.size - tail, _FILL_BLOCK)]
        if tail:
            parts.append((f"{target.label}-tail", target.size - tail, tail, tail))
        sections += [
            {
                "name": name,
                "filename": escape_filename(target.path),
                "offset": offset,
                "size": size,
                "block_size": format_size(block),
            }
            for name, offset, size, block in parts
            if size
        ]
    return render_text(
        template,
        {
            "method": method,
            "engine": engine,
            "direct": int(direct),
            "seed": seed,
            "compress": compress or None,
            "dedupe": dedupe or None,
            "sections": sections,
        },
    )


def _sections(assignment: Assignment, target: JobTarget) -> Iterator[dict[str, Any]]:
    """The section of one job on one target; one for each of numjobs with a latency target,
    which fio 3.33 multiplies by 1000 in all but the first clone of a section."""
    shape = assignment.shape
    base = f"{target.label}-{shape.name}" if isinstance(shape, Job) else target.label
    copies = shape.numjobs if shape.latency_target else 1
    offset, size, increment = _area(assignment, target)
    for copy in range(copies):
        yield {
            "name": base if copy == 0 else f"{base}-{copy + 1}",
            "filename": escape_filename(target.path),
            "numjobs": shape.numjobs // copies,
            "offset": offset + (increment or 0) * (copy if copies > 1 else 0),
            "size": size,
            "offset_increment": increment if copies == 1 else None,
            **_workload(shape),
            "rate_iops": _directions(assignment.iops),
            "rate": _directions(assignment.bytes_per_s),
            "latency": _latency(shape.latency_target),
            "options": shape.options,
        }


def _workload(shape: Shape) -> dict[str, Any]:
    mixed = 0 < shape.read_percent < 100
    partly = 0 < shape.random_percent < 100
    return {
        "rw": _readwrite(shape),
        "rwmixread": shape.read_percent if mixed else None,
        "percentage_random": shape.random_percent if partly else None,
        "random_distribution": _distribution(shape),
        "block_size": _block_size(shape),
        "bssplit": _bssplit(shape),
        "iodepth": shape.iodepth,
        "compress": shape.compress or None,
        "dedupe": shape.dedupe or None,
    }


def _readwrite(shape: Shape) -> str:
    kind = {100: "read", 0: "write"}.get(shape.read_percent, "rw")
    return f"rand{kind}" if shape.random_percent else kind


def _distribution(shape: Shape) -> str | None:
    law = shape.distribution
    if isinstance(law, Zipf):
        return f"zipf:{law.zipf:g}"
    if isinstance(law, Pareto):
        return f"pareto:{law.pareto:g}"
    if isinstance(law, Zoned):
        return "zoned:" + ":".join(f"{zone.access}/{zone.span}" for zone in law.zoned)
    return None


def _block_size(shape: Shape) -> str | None:
    if isinstance(shape.block_size, BlockSizes):
        return f"{format_size(shape.block_size.read)},{format_size(shape.block_size.write)}"
    return None if shape.block_size is None else format_size(shape.block_size)


def _bssplit(shape: Shape) -> str | None:
    if shape.bssplit is None:
        return None
    if isinstance(shape.bssplit, BlockSplits):
        return f"{_split(shape.bssplit.read)},{_split(shape.bssplit.write)}"
    return _split(shape.bssplit)


def _split(split: Split) -> str:
    return ":".join(f"{format_size(part.size)}/{part.percent}" for part in split)


def _largest_block(shape: Shape) -> int:
    if isinstance(shape.bssplit, BlockSplits):
        return max(part.size for part in (*shape.bssplit.read, *shape.bssplit.write))
    if shape.bssplit is not None:
        return max(part.size for part in shape.bssplit)
    if isinstance(shape.block_size, BlockSizes):
        return max(shape.block_size.read, shape.block_size.write)
    return shape.block_size or _SECTOR


def _area(assignment: Assignment, target: JobTarget) -> tuple[int, int, int | None]:
    """(offset, bytes, bytes from one of numjobs to the next) of a job on a target.

    Sequential jobs on one target each get a slice: from one offset they would all read the same
    blocks, and all but the first from a cache.
    """
    shape = assignment.shape
    block = max(_largest_block(shape), _SECTOR)
    offset = _aligned(target.size * assignment.area_start // 100, block)
    area = target.size * assignment.area_percent // 100
    size = _aligned(area * shape.working_set // 100, block)
    increment = None
    if shape.random_percent == 0 and shape.numjobs > 1:
        increment = size = _aligned(size // shape.numjobs, block)
    if size < block:
        raise ConfigError(
            f"target {target.label}: its working set of {size} bytes is below the block size",
            next_step="take a larger target, a larger working_set, or fewer jobs",
        )
    return offset, size, increment


def _aligned(size: int, block: int) -> int:
    return size // block * block


def _directions(caps: tuple[int | None, int | None]) -> str | None:
    """fio's `read,write`; a side left empty is not limited."""
    read, write = caps
    if read is None and write is None:
        return None
    return f"{'' if read is None else read}{'' if write is None else f',{write}'}"


def _latency(target: LatencyTarget | None) -> dict[str, Any] | None:
    if target is None:
        return None
    return {
        "target": f"{max(1, target.latency // 1000)}us",
        "window": f"{round(target.window * 1_000_000)}us",
        "percentile": f"{target.percentile:g}",
    }

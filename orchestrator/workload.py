"""The workload that fio's own output says it ran, named as a profile's fields.

A run that was made elsewhere has no profile; with these fields a comparison sees that two runs
measured different things. fio prints options as they were written, so `bs` and `blocksize` are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from orchestrator.measured import Job
from orchestrator.units import parse_size

_ALIASES: Final[Mapping[str, str]] = {
    "blocksize": "bs",
    "readwrite": "rw",
    "buffer_compress_percentage": "compress",
    "dedupe_percentage": "dedupe",
    "ioengine": "engine",
    "ramp_time": "ramp",
    "random_distribution": "distribution",
}
#: Taken over as they are; `size` and `filename` say where, not what.
_SAID: Final = (
    "bssplit",
    "iodepth",
    "numjobs",
    "engine",
    "direct",
    "rate_iops",
    "rate",
    "compress",
    "dedupe",
    "ramp",
    "runtime",
)


def workload_of(jobs: Iterable[Job]) -> dict[str, Any]:
    """Field to value, block sizes in bytes; jobs that differ are all said (`4096 and 8192`).

    Empty where the output holds no options at all.
    """
    found: dict[str, list[Any]] = {}
    for job in jobs:
        for name, value in _fields(job) if job.options else ():
            values = found.setdefault(name, [])
            if value not in values:
                values.append(value)
    return {
        name: values[0] if len(values) == 1 else " and ".join(map(str, values))
        for name, values in found.items()
    }


def _fields(job: Job) -> Iterator[tuple[str, Any]]:
    defaults = {name: job.option(name) for name in ("rw", "bs", "iodepth", "numjobs")}
    said = {_ALIASES.get(name, name): value for name, value in job.options.items()}
    options: dict[str, Any] = {**defaults, **said}
    if options.get("engine") == "cpuio":
        return
    pattern = str(options["rw"]).partition(":")[0]
    random = pattern.startswith("rand")
    yield "block_size", _size(str(options["bs"]))
    yield from _mix(pattern.removeprefix("rand"), options)
    yield "random_percent", _number(options.get("percentage_random", "100")) if random else 0
    yield "distribution", options.get("distribution", "random")
    for name in _SAID:
        if options.get(name) is not None:
            yield name, _number(str(options[name]))


def _mix(pattern: str, options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if pattern in ("read", "write"):
        yield "read_percent", 100 if pattern == "read" else 0
    elif pattern in ("rw", "readwrite"):
        writes = _number(options.get("rwmixwrite", "50"))
        reads = 100 - writes if isinstance(writes, int) else "?"
        yield "read_percent", _number(options["rwmixread"]) if "rwmixread" in options else reads
    else:
        yield "rw", pattern


def _size(text: str) -> Any:
    try:
        return parse_size(text)
    except ValueError:
        return text


def _number(text: str) -> Any:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text

"""What one fio process reported, in one form whatever fio's version: ns, bytes, None for unknown.

Made by `fio_output` from bytes, or by `hcibench` from its texts; added up by `merge`.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from orchestrator.histogram import Histogram

DIRECTIONS = ("read", "write", "trim")

#: fio's defaults for options that its JSON leaves out (fio HOWTO).
DEFAULT_OPTIONS: Mapping[str, str] = {"rw": "read", "bs": "4k", "iodepth": "1", "numjobs": "1"}


class Latency(Struct, frozen=True, gc=False):
    """One latency of one job: moments in ns, percentiles as printed, bins where there are any."""

    count: int
    min: int | None
    max: int | None
    mean: float | None
    stddev: float | None
    #: percent (50.0) to ns, as fio printed it
    printed: Mapping[float, int]
    histogram: Histogram | None


class Direction(Struct, frozen=True, gc=False):
    """Reads, writes or trims of one job. `iops` and `bytes_per_s` are totals over its runtime."""

    ios: int | None
    bytes: int | None
    iops: float | None
    bytes_per_s: float | None
    runtime_ms: float | None
    iops_mean: float | None = None
    iops_samples: int | None = None
    lat: Latency | None = None
    clat: Latency | None = None


class Job(Struct, frozen=True, gc=False):
    """One entry of fio's output: a job, or a group of jobs under its first one's name."""

    name: str
    #: `name:port` of the fio server that ran it, None outside client/server mode
    host: str | None
    error: int
    #: global options, then the job's own; a cross-check only: a grouped entry has its last job's
    options: Mapping[str, str]
    read: Direction | None
    write: Direction | None
    trim: Direction | None
    #: latency of fsync and fdatasync, never part of write latency
    sync: Latency | None = None
    latency_target_ns: int | None = None

    @property
    def key(self) -> str:
        """The name under which results keep it."""
        return self.name if self.host is None else f"{self.host}/{self.name}"

    def option(self, name: str) -> str | None:
        """An option's value as the output tells it, or fio's default."""
        return self.options.get(name, DEFAULT_OPTIONS.get(name))

    def directions(self) -> dict[str, Direction]:
        """The directions that the output has, by name."""
        found = {}
        if self.read is not None:
            found["read"] = self.read
        if self.write is not None:
            found["write"] = self.write
        if self.trim is not None:
            found["trim"] = self.trim
        return found

    @property
    def runtime_ms(self) -> float | None:
        """How long it ran: the longest of its directions."""
        sides = (self.read, self.write, self.trim)
        known = [side.runtime_ms for side in sides if side is not None and side.runtime_ms]
        return max(known) if known else None

    @property
    def mixed_group(self) -> bool:
        """Whether the entry holds I/O that its own `rw` option can't have done (a hybrid group)."""
        rw = self.option("rw") or ""
        if "rw" not in self.options or rw.endswith("rw") or "readwrite" in rw:
            return False
        own = "write" if "write" in rw else "trim" if "trim" in rw else "read"
        return any(
            direction.ios and name != own and not ("trimwrite" in rw and name == "trim")
            for name, direction in self.directions().items()
        )


class Note(Struct, frozen=True, gc=False):
    """Something about an output that a reader of its figures must know."""

    code: str
    text: str


class WorkerOutput(Struct, frozen=True, gc=False):
    """Everything that one worker's fio said."""

    fio_version: str
    jobs: tuple[Job, ...]
    #: complete documents found; the last one is the result, earlier ones are cumulative states
    documents: int = 1
    #: False when a later document was cut short
    complete: bool = True
    #: lines that weren't JSON, empty ones left out
    text_before: tuple[str, ...] = ()
    text_after: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()

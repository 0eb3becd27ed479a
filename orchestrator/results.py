"""A result: immutable records from run down to job, and their JSON form, schema 1.

Units are in the names: ns, bytes, bytes_per_s. A figure that isn't known is None (null), never
0. Key names are a contract; more keys may come, none is renamed. Schema history: 1, the first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from orchestrator.errors import IncompatibleResults
from orchestrator.windows import Course, WarmUp

SCHEMA = 1

#: What the figures mean; stands in every result.
DEFINITIONS: Mapping[str, str] = {
    "iops": "total I/Os over the job's runtime, summed over jobs and workers",
    "bytes_per_s": "bytes over the job's runtime, summed over jobs and workers",
    "mean": "weighted by I/O count",
    "stddev": "pooled over all I/Os",
    "percentiles": "read from the sum of the latency histograms, never averaged; "
    "null where the samples can't carry one or there are no histograms",
}

Level = Literal["note", "unknown", "invalid"]
Outcome = Literal["done", "failed", "broken", "skipped"]
VerdictValue = Literal["valid", "unknown", "invalid"]


class LatencyResult(Struct, frozen=True, kw_only=True, gc=False):
    """Latency in ns of one kind (`lat` total, `clat` completion, `sync` flushes)."""

    kind: str
    count: int
    min: int | None
    max: int | None
    mean: float | None
    stddev: float | None
    #: percentile name (`50`, `99.9`) to ns; None when it isn't known or can't be carried
    percentiles: Mapping[str, int | None]
    #: how many workers these samples come from (1 inside a worker)
    workers: int = 1
    #: why percentiles are missing, or what the figure leaves out
    note: str | None = None
    #: the summed histogram, fio's bin value in ns to count; kept for groups and totals
    bins: Mapping[int, int] | None = None


class DirectionResult(Struct, frozen=True, kw_only=True, gc=False):
    """Reads, writes or trims. Rates are totals over the runtime, summed."""

    ios: int | None
    bytes: int | None
    iops: float | None
    bytes_per_s: float | None
    latency_ns: LatencyResult | None = None
    #: the kind that isn't the headline, where it was measured too; never mixed with it
    other_latency_ns: LatencyResult | None = None


class TotalResult(Struct, frozen=True, kw_only=True, gc=False):
    """The figures of a job, a worker, a group or a case. `sync` is never part of `write`."""

    read: DirectionResult | None = None
    write: DirectionResult | None = None
    trim: DirectionResult | None = None
    sync: LatencyResult | None = None


class JobResult(Struct, frozen=True, kw_only=True, gc=False):
    """One of fio's jobs; `entries` of the same name were added up."""

    read: DirectionResult | None = None
    write: DirectionResult | None = None
    trim: DirectionResult | None = None
    sync: LatencyResult | None = None
    entries: int = 1
    error: int = 0
    #: a grouped entry of jobs that differ: its options are those of the last one only
    mixed_group: bool = False


class Reason(Struct, frozen=True, kw_only=True, gc=False):
    """Why a figure is or isn't to be trusted, with the threshold, the evidence, the next step."""

    code: str
    text: str
    worker: str | None = None
    level: Level = "unknown"
    threshold: str | None = None
    evidence: str | None = None
    next_step: str | None = None


class Verdict(Struct, frozen=True, kw_only=True, gc=False):
    """valid, unknown or invalid: the worst of the reasons. Notes don't lower it."""

    value: VerdictValue
    reasons: tuple[Reason, ...] = ()


class WorkerTiming(Struct, frozen=True, kw_only=True, gc=False):
    """One worker's instants in the controller's clock, seconds since the epoch."""

    started: float | None = None
    ended: float | None = None
    #: actual start minus the agreed instant
    late_s: float | None = None
    clock_offset_s: float | None = None
    clock_uncertainty_s: float | None = None


class WorkerResult(Struct, frozen=True, kw_only=True, gc=False):
    """One worker's part. `counted` says whether the totals hold it."""

    outcome: Outcome
    reason: str | None = None
    counted: bool = True
    group: str | None = None
    host: str | None = None
    datastore: str | None = None
    exit_status: int | None = None
    fio_version: str | None = None
    #: how long fio measured, by its longest job
    runtime_s: float | None = None
    total: TotalResult | None = None
    jobs: Mapping[str, JobResult] = {}
    #: complete JSON documents in the output; the last one counts
    documents: int | None = None
    #: fio's lines around the document
    text: tuple[str, ...] = ()
    timing: WorkerTiming = WorkerTiming()


class GroupResult(Struct, frozen=True, kw_only=True, gc=False):
    """A group of workers that ran the same profile."""

    expected_workers: int
    received_workers: int
    total: TotalResult | None = None


class Timing(Struct, frozen=True, kw_only=True, gc=False):
    """How simultaneous a case was, in seconds by the controller's clock."""

    t0: float | None = None
    #: latest start minus earliest
    skew_s: float | None = None
    #: time in which every worker measured, over the time in which any did
    overlap: float | None = None
    common_window_s: float | None = None
    clock_uncertainty_s: float | None = None
    ramp_s: float | None = None
    runtime_s: float | None = None


class CaseResult(Struct, frozen=True, kw_only=True, gc=False):
    """One case: what was expected, what came, the total, and whether to believe it."""

    case: str
    outcome: Outcome
    verdict: Verdict
    expected_workers: int
    received_workers: int
    total: TotalResult | None
    workers: Mapping[str, WorkerResult]
    groups: Mapping[str, GroupResult] = {}
    timing: Timing = Timing()
    #: some workers are missing and the policy allowed it
    degraded: bool = False
    reason: str | None = None
    #: how the case went over time, from its series; None without logs
    course: Course | None = None
    #: what attendants of the case say, by their names: the platform's counters, the cache
    platform: Mapping[str, Any] = {}
    #: what ended the measuring: `time` as asked, `steady` on evidence, `cap` without it
    ended_by: str = "time"
    #: how its warm-up ended; None without one
    warm_up: WarmUp | None = None


class RunResult(Struct, frozen=True, kw_only=True, gc=False):
    """A whole run."""

    cases: tuple[CaseResult, ...]
    schema: int = SCHEMA
    definitions: Mapping[str, str] = msgspec.field(default_factory=lambda: dict(DEFINITIONS))
    #: run id, tool version, hashes, commands: whatever says where the figures come from
    provenance: Mapping[str, Any] = {}


class _SchemaOnly(Struct):
    schema: int


_RUN = msgspec.json.Decoder(RunResult)
_SCHEMA = msgspec.json.Decoder(_SchemaOnly)


def write_result(run: RunResult) -> bytes:
    """A result as JSON, indented, with a final line end. Never NaN or Infinity: those are null."""
    plain = _finite_only(run.provenance)
    encoded = msgspec.json.encode(msgspec.structs.replace(run, provenance=plain))
    return msgspec.json.format(encoded, indent=1) + b"\n"


def read_result(data: bytes, source: str) -> RunResult:
    """Read a result's JSON. `source` names it in errors.

    Raises IncompatibleResults for a newer schema and for what isn't a result.
    """
    try:
        schema = _SCHEMA.decode(data).schema
        if schema > SCHEMA:
            raise IncompatibleResults(
                f"{source}: schema {schema} is newer than {SCHEMA}, the newest known here",
                means="its figures may mean something else",
                next_step="read it with the hcio that wrote it, or a newer one",
            )
        return _RUN.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise IncompatibleResults(
            f"{source}: not a result of hcio: {error}",
            next_step="give a result.json, or merge fio's own outputs with `hcio merge`",
        ) from error


def _finite_only(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite_only(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite_only(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

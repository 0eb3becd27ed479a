"""fio's output, bytes in, one WorkerOutput out: fio 2.x and 3.x, json and json+, text around.

The quick way decodes only what is needed, straight to typed records, and turns all bins of an
output into counts at once; whatever it doesn't take goes the patient way over `fio_documents`,
which makes old and odd forms regular first. Both end in the same records.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from orchestrator.errors import UnreadableOutput
from orchestrator.fio_bins import histograms
from orchestrator.fio_documents import FoundDocuments, find_documents, regular, text_lines
from orchestrator.histogram import Histogram
from orchestrator.measured import Direction, Job, Latency, Note, WorkerOutput

#: The summary entry of client/server mode: a sum over all clients, without percentiles.
SUMMARY_ENTRY = "All clients"
#: Figures at or above this are damage, not a measurement (72 PB; 128 of them fit in 64 bits).
_ABSURD = 1 << 56
#: Slack on "mean latency above the runtime": fio's runtime is in whole ms.
_RUNTIME_SLACK_MS = 1

_DOCUMENT_START = re.compile(rb"^\{", re.MULTILINE)
_SHOWN_TEXT = 500


class _Latency(Struct, gc=False):
    min: int | float | None = None
    max: int | float | None = None
    mean: float | None = None
    stddev: float | None = None
    N: int | None = None
    percentile: Raw = Raw()
    bins: Raw = Raw()


class _Direction(Struct, gc=False):
    io_bytes: int | float | None = None
    bw_bytes: float | None = None
    iops: float | None = None
    runtime: float | None = None
    total_ios: int | None = None
    iops_mean: float | None = None
    iops_samples: int | None = None
    lat_ns: _Latency | None = None
    clat_ns: _Latency | None = None


class _Sync(Struct, gc=False):
    lat_ns: _Latency | None = None


class _Job(Struct, gc=False, rename={"options": "job options"}):
    jobname: str
    error: int = 0
    hostname: str | None = None
    port: int | None = None
    options: Raw = Raw()
    read: _Direction | None = None
    write: _Direction | None = None
    trim: _Direction | None = None
    sync: _Sync | None = None
    latency_target: int | float | None = None


class _Document(Struct, gc=False, rename={"version": "fio version", "options": "global options"}):
    version: str = ""
    options: Raw = Raw()
    jobs: list[_Job] = []
    client_stats: list[_Job] = []


_DOCUMENT = msgspec.json.Decoder(_Document)
_OPTIONS = msgspec.json.Decoder(dict[str, Any])
_PERCENTILES = msgspec.json.Decoder(dict[str, float | None])


class _Read(Struct, gc=False):
    """A decoded document and what stood around it."""

    document: _Document
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    documents: int = 1
    complete: bool = True
    notes: list[Note] = []


def parse_fio_output(data: bytes, source: str) -> WorkerOutput:
    """Parse what one fio printed. `source` names it in errors.

    The last complete document is the result. Raises UnreadableOutput (reason `empty`,
    `no JSON`, `incomplete` or `not fio`) when there is none.
    """
    (parsed,) = parse_fio_outputs([(data, source)])
    if isinstance(parsed, UnreadableOutput):
        raise parsed
    return parsed


def parse_fio_outputs(
    outputs: Sequence[tuple[bytes, str]],
) -> list[WorkerOutput | UnreadableOutput]:
    """Parse some outputs together, which is quicker; an unreadable one gives its error."""
    found = [_read(data, source) for data, source in outputs]
    wires = [
        wire for read in found if isinstance(read, _Read) for wire in _with_bins(read.document)
    ]
    read_bins = histograms([wire.bins for wire in wires])
    known = {id(wire): histogram for wire, histogram in zip(wires, read_bins, strict=True)}
    return [read if isinstance(read, UnreadableOutput) else _built(read, known) for read in found]


def _read(data: bytes, source: str) -> _Read | UnreadableOutput:
    try:
        return _quick(data) or _patient(data, source)
    except UnreadableOutput as error:
        return error


def _quick(data: bytes) -> _Read | None:
    """One whole document of fio 3.2 or later after any text; None when it isn't that."""
    start = 0
    if not data.startswith(b"{"):
        match = _DOCUMENT_START.search(data)
        if match is None:
            return None
        start = match.start()
    try:
        document = _DOCUMENT.decode(memoryview(data)[start:] if start else data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not document.version.startswith("fio-3") or not _has_modern_names(document):
        return None
    before = text_lines(data[:start].decode("utf-8", "replace")) if start else ()
    return _Read(document, before)


def _has_modern_names(document: _Document) -> bool:
    jobs = document.jobs or document.client_stats
    directions = [d for job in jobs for d in (job.read, job.write, job.trim) if d is not None]
    return bool(jobs) and all(
        direction.bw_bytes is not None and direction.iops is not None for direction in directions
    )


def _patient(data: bytes, source: str) -> _Read:
    text = data.decode("utf-8", "replace").replace("\x00", "")
    if not text.strip():
        raise UnreadableOutput(source, "empty")
    found = find_documents(text)
    if not found.documents:
        raise _unreadable(source, found)
    document, coarse = regular(found.documents[-1])
    try:
        typed = _DOCUMENT.decode(msgspec.json.encode(document))
    except (msgspec.MsgspecError, OverflowError, RecursionError, UnicodeError) as error:
        raise UnreadableOutput(source, "not fio", str(error)) from error
    notes = [Note("coarse-units", f"{typed.version or 'this fio'} gives {what}") for what in coarse]
    if found.not_finite:
        notes.append(
            Note("not-finite", f"{found.not_finite} numbers were nan or inf and are not known")
        )
    return _Read(
        typed,
        before=found.before,
        after=found.after,
        documents=len(found.documents),
        complete=not found.cut,
        notes=notes,
    )


def _unreadable(source: str, found: FoundDocuments) -> UnreadableOutput:
    said = "\n".join(found.before)[-_SHOWN_TEXT:]
    if found.cut:
        return UnreadableOutput(source, "incomplete", "the JSON document has no end")
    if found.trouble:
        return UnreadableOutput(source, "not fio", found.trouble)
    if found.before and any(line.startswith("{") for line in found.before):
        return UnreadableOutput(source, "not fio", "a JSON document without jobs")
    return UnreadableOutput(source, "no JSON", said)


def _entries(document: _Document) -> list[_Job]:
    return document.jobs or [job for job in document.client_stats if job.jobname != SUMMARY_ENTRY]


def _with_bins(document: _Document) -> list[_Latency]:
    """The latencies of a document that have bins and samples."""
    return [
        wire
        for job in _entries(document)
        for side in (job.read, job.write, job.trim, job.sync)
        if side is not None
        for wire in (side.lat_ns, getattr(side, "clat_ns", None))
        if wire is not None and wire.bins and wire.N
    ]


def _built(read: _Read, known: Mapping[int, Histogram | None]) -> WorkerOutput:
    builder = _Builder(read, known)
    return WorkerOutput(
        fio_version=read.document.version,
        jobs=builder.jobs(),
        documents=read.documents,
        complete=read.complete,
        text_before=read.before,
        text_after=read.after,
        notes=tuple(builder.notes),
    )


class _Builder:
    """Turns one decoded document into records; collects notes on the way."""

    def __init__(self, read: _Read, known: Mapping[int, Histogram | None]) -> None:
        self.notes = list(read.notes)
        self._document = read.document
        self._shared = _options(read.document.options)
        #: histograms by the id of their wire record, None for bins that can't be read
        self._known = known

    def jobs(self) -> tuple[Job, ...]:
        return tuple([self._job(entry) for entry in _entries(self._document)])

    def _job(self, entry: _Job) -> Job:
        host = None
        if entry.hostname:
            host = entry.hostname if entry.port is None else f"{entry.hostname}:{entry.port}"
        own = _options(entry.options)
        trim = entry.trim
        return Job(
            name=entry.jobname,
            host=host,
            error=entry.error,
            options={**self._shared, **own} if self._shared else own,
            read=self._direction(entry, "read", entry.read),
            write=self._direction(entry, "write", entry.write),
            trim=self._direction(entry, "trim", trim)
            if trim is not None and trim.total_ios
            else None,
            sync=None if entry.sync is None else self._latency(entry.sync.lat_ns),
            latency_target_ns=_whole(entry.latency_target) or None,
        )

    def _direction(self, entry: _Job, name: str, wire: _Direction | None) -> Direction | None:
        if wire is None:
            return None
        if wire.iops is None:
            self.notes.append(
                Note("rate-unknown", f"job {entry.jobname!r}: {name} IOPS is not a finite number")
            )
        return Direction(
            ios=_whole(wire.total_ios),
            bytes=_whole(wire.io_bytes),
            iops=_finite(wire.iops),
            bytes_per_s=_finite(wire.bw_bytes),
            runtime_ms=_finite(wire.runtime),
            iops_mean=_finite(wire.iops_mean),
            iops_samples=wire.iops_samples,
            lat=self._believed(wire.lat_ns, wire.runtime, (entry.jobname, name, "lat")),
            clat=self._believed(wire.clat_ns, wire.runtime, (entry.jobname, name, "clat")),
        )

    def _believed(
        self, wire: _Latency | None, runtime_ms: float | None, where: tuple[str, str, str]
    ) -> Latency | None:
        """The latency, unless its mean is longer than the job ran."""
        latency = self._latency(wire)
        if latency is None or latency.mean is None or not runtime_ms:
            return latency
        if latency.mean <= (runtime_ms + _RUNTIME_SLACK_MS) * 1e6:
            return latency
        job, side, kind = where
        text = (
            f"job {job!r}: {side} {kind}: a mean of {latency.mean / 1e9:.3g} s exceeds the "
            f"runtime of {runtime_ms / 1000:g} s; rejected"
        )
        self.notes.append(Note("impossible-latency", text))
        return None

    def _latency(self, wire: _Latency | None) -> Latency | None:
        if wire is None or not wire.N or not 0 < wire.N < _ABSURD:
            return None
        histogram = self._histogram(wire) if wire.bins else None
        printed = {}
        if histogram is None and wire.percentile:
            printed = _printed(wire.percentile)
        return Latency(
            wire.N,
            _whole(wire.min, 1 << 63),
            _whole(wire.max, 1 << 63),
            _finite(wire.mean),
            _finite(wire.stddev),
            printed,
            histogram,
        )

    def _histogram(self, wire: _Latency) -> Histogram | None:
        histogram = self._known[id(wire)]
        if histogram is None:
            self.notes.append(Note("bins-unreadable", "the histogram bins can't be read"))
        elif histogram.count != wire.N:
            text = f"bins hold {histogram.count} samples where fio counted {wire.N}"
            self.notes.append(Note("bins-unreadable", text))
            return None
        return histogram


def _options(raw: Raw) -> dict[str, str]:
    if not raw:
        return {}
    try:
        return {name: str(value) for name, value in _OPTIONS.decode(raw).items()}
    except msgspec.DecodeError:
        return {}


def _printed(raw: Raw) -> dict[float, int]:
    """fio's own percentiles: percent to ns. Ones that aren't numbers are left out."""
    try:
        decoded = _PERCENTILES.decode(raw)
        return {float(key): round(value) for key, value in decoded.items() if value is not None}
    except (msgspec.DecodeError, ValueError, OverflowError):
        return {}


def _whole(value: float | None, below: int = _ABSURD) -> int | None:
    if value is None or not 0 <= value < below:
        return None
    return round(value)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and value >= 0 else None

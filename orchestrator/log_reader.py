"""A worker's logs, opened and read forward a window at a time; packed ones are unpacked first."""

from __future__ import annotations

import contextlib
import gzip
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from orchestrator.fio_logs import INTERVAL_MS, USED_KINDS, LogKind, LogName, parse_log_name
from orchestrator.log_rows import Rows, parse_histograms, parse_rows
from orchestrator.timeline import (
    Amounts,
    HistogramSum,
    Span,
    Window,
    WorkerLogs,
    standstills,
    worker_amounts,
)

#: Times below this (1973) are counted from the job's begin: fio without log_unix_epoch.
_EPOCH_FROM_MS: Final = 10**11
#: Bytes looked at on each end of a histogram log: a dozen of its longest rows.
_REACH: Final = 64 * 1024
_LEAST_STEP_MS: Final = 100
#: The logs of rates and latencies, in the order in which they are read.
KINDS: Final[tuple[LogKind, ...]] = ("iops", "bw", "lat")
RATES: Final[tuple[LogKind, ...]] = ("iops", "bw")


@dataclass(frozen=True)
class Member:
    """A worker of the case and its logs (`.log` or `.log.gz`; other files are passed over).

    `clock_offset_s` is its clock minus the controller's. `measuring_from_ms` is needed only for
    logs without epoch: the instant, by the worker's own clock, at which its ramp ended.
    """

    worker: str
    files: Sequence[Path]
    group: str | None = None
    host: str | None = None
    clock_offset_s: float = 0.0
    measuring_from_ms: float | None = None


def find_logs(folder: Path) -> list[Path]:
    """The logs in a worker's raw folder that a series is made of, by name."""
    named = ((path, parse_log_name(path.name)) for path in sorted(folder.rglob("*_*.log*")))
    return [path for path, name in named if name is not None and name.kind in USED_KINDS]


class LogFile:
    """One log, read forward a window at a time. `step_ms` is the interval of its rows."""

    def __init__(self, path: Path, name: LogName) -> None:
        self.path, self.name = path, name
        self.size = path.stat().st_size
        self.first_ms, self.last_ms, self.step_ms = self._ends()
        self._from = 0

    def _ends(self) -> tuple[int | None, int | None, int]:
        reach = _REACH if self.name.kind == "hist" else _REACH // 32
        with self.path.open("rb", buffering=0) as file:
            head = file.read(reach)
            file.seek(max(0, self.size - reach))
            tail = file.read()
        first = next(_times(head.split(b"\n", 64)[:-1]), None)
        last = next(_times(reversed(tail.split(b"\n")[:-1])), None)
        if first is None:
            return None, None, INTERVAL_MS
        if self.name.kind != "hist":
            return first, last, INTERVAL_MS
        steps = np.diff(np.unique(list(_times(head.split(b"\n")[:-1]))))
        # Rows of two directions in one interval can be some ms apart.
        steps = steps[steps >= _LEAST_STEP_MS]
        return first, last, int(np.median(steps)) if len(steps) else INTERVAL_MS

    def block(self, until_ms: float, again_from_ms: float) -> bytes:
        """Whole lines from where the last block asked to go on, up to a row at `until_ms`.

        The next block begins at a row before `again_from_ms`: rows on the border are read twice.
        """
        if self.first_ms is None or self.last_ms is None:
            return b""
        lasting = max(self.last_ms - self.first_ms, self.step_ms)
        density = self.size / lasting
        end = int((until_ms - self.first_ms + 2 * self.step_ms) * density) + 512
        with self.path.open("rb", buffering=0) as file:
            file.seek(self._from)
            data = file.read(max(0, min(end, self.size) - self._from))
            while self._from + len(data) < self.size and not _reaches(data, until_ms):
                data += file.read(max(4096, len(data) // 4))
        back = int((until_ms - again_from_ms + 4 * self.step_ms) * density) + 512
        self._from += _line_before(data, again_from_ms, back)
        return data


def _time_of(line: bytes) -> int | None:
    field_ = line.partition(b",")[0].strip()
    return int(field_) if field_.isdigit() and len(field_) < 19 else None


def _times(lines: Iterable[bytes]) -> Iterator[int]:
    return (time for line in lines if (time := _time_of(line)) is not None)


def _reaches(data: bytes, until_ms: float) -> bool:
    end = data.rfind(b"\n")
    begin = data.rfind(b"\n", 0, max(end, 0)) + 1
    time = _time_of(data[begin:end]) if end > 0 else None
    return time is not None and time >= until_ms


def _line_before(data: bytes, before_ms: float, back: int) -> int:
    """The place of a line whose time lies before `before_ms`, looking from `back` bytes before
    the end; 0 (the whole block again) when there is none."""
    while back < len(data):
        begin = data.find(b"\n", len(data) - back) + 1
        time = _time_of(data[begin : data.find(b"\n", begin)])
        if time is not None and time < before_ms:
            return begin
        back *= 2
    return 0


@dataclass
class OpenLogs:
    """A worker's logs, opened: by kind in the order of jobs, and when it measured."""

    member: Member
    files: dict[LogKind, list[LogFile]]
    span: Span | None = None
    offset_s: float = 0.0
    dropped: int = 0
    seen: set[int] = field(default_factory=set)
    stood: set[tuple[int, int]] = field(default_factory=set)

    @classmethod
    def open(cls, member: Member, stack: ExitStack, beside: Path) -> OpenLogs:
        """Look at a worker's logs; packed ones are unpacked into a folder `beside` the series,
        where there is room for a run, until the stack is left."""
        named = [(path, parse_log_name(path.name)) for path in member.files]
        found = [(path, name) for path, name in named if name and name.kind in USED_KINDS]
        if any(name.gzipped for _, name in found):
            folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix=".logs-", dir=beside))
            )
            found = [(_plain(path, name, folder), name) for path, name in found]
        files: dict[LogKind, list[LogFile]] = {}
        for path, name in sorted(found, key=lambda item: item[1].job):
            files.setdefault(name.kind, []).append(LogFile(path, name))
        logs = cls(member, files)
        logs._read_span()
        return logs

    def _read_span(self) -> None:
        logs = self.files.get("iops") or self.files.get("bw") or self.files.get("lat") or []
        firsts = [log.first_ms for log in logs if log.first_ms is not None]
        lasts = [log.last_ms for log in logs if log.last_ms is not None]
        if not firsts or not lasts:
            return
        self.offset_s = self.member.clock_offset_s
        if max(firsts) < _EPOCH_FROM_MS:
            self.offset_s -= (self.member.measuring_from_ms or 0.0) / 1000.0
        shift = self.offset_s * 1000.0
        self.span = Span(min(firsts) - INTERVAL_MS - shift, max(lasts) - shift)

    def rates(self) -> set[LogKind]:
        """The kinds of rates that its logs have rows of."""
        return {
            kind
            for kind in RATES
            if any(log.first_ms is not None for log in self.files.get(kind, []))
        }

    def lacking(self, needed: set[LogKind]) -> str | None:
        """Why it can't be added to the others: a rate that they have would be 0 here. None when
        nothing is lacking."""
        if self.span is None:
            return "no rows" if self.files else "no logs"
        missing = sorted(needed - self.rates())
        return f"no rows of {' and '.join(missing)}" if missing else None

    def still(self) -> tuple[Span, ...]:
        """When fio stood still, by the controller's clock; what its jobs say is put together."""
        shift = self.offset_s * 1000.0
        spans: list[Span] = []
        for begin, end in sorted(self.stood):
            if spans and begin - shift <= spans[-1].end_ms:
                spans[-1] = Span(spans[-1].begin_ms, max(spans[-1].end_ms, end - shift))
            else:
                spans.append(Span(begin - shift, end - shift))
        return tuple(spans)

    def histogram_step_s(self) -> int | None:
        steps = [log.step_ms for log in self.files.get("hist", []) if log.first_ms is not None]
        return max(1, round(float(np.median(steps)) / 1000)) if steps else None

    def blocks(self, window: Window) -> list[bytes]:
        """The part of each rate and latency log that touches a window, in the order of KINDS."""
        end = self._end_ms(window)
        logs = [log for kind in KINDS for log in self.files.get(kind, [])]
        return [log.block(end + 2 * INTERVAL_MS, end - 2 * INTERVAL_MS) for log in logs]

    def _end_ms(self, window: Window) -> float:
        return window.origin_ms + (window.first + window.length + self.offset_s) * 1000.0

    def amounts(self, rows: Rows, window: Window) -> Amounts:
        """What happened in a window; `source` of the rows counts this worker's blocks."""
        counts = [len(self.files.get(kind, [])) for kind in KINDS]
        iops, bw, lat = _split(rows, counts)
        self.stood.update(standstills(iops))
        amounts = worker_amounts(WorkerLogs(iops, bw, lat, max(counts)), window, self.offset_s)
        self.seen.update(np.flatnonzero(amounts.ios.any(axis=1)).tolist())
        return amounts

    def histograms(self, window: Window, step_s: int) -> HistogramSum:
        """The histogram logs' rows that lie in a window, in steps of `step_s` seconds."""
        total, end = HistogramSum(step_s, window.length // step_s), self._end_ms(window)
        margin = 2000.0 * step_s
        for log in self.files.get("hist", []):
            rows = parse_histograms(log.block(end + margin, end - margin))
            if rows is not None:
                total.add_rows(rows, window, self.offset_s)
                self.dropped += rows.dropped
        return total


def read_together(
    several: Sequence[OpenLogs], window: Window, step_s: int | None
) -> list[tuple[Amounts, HistogramSum | None]]:
    """Each worker's amounts and histogram rows in a window; read together, which is quicker."""
    blocks = [one.blocks(window) for one in several]
    rows = parse_rows([block for part in blocks for block in part])
    parts = _split(rows, [len(part) for part in blocks])
    several[0].dropped += rows.dropped  # only the case's sum is told
    return [
        (
            one.amounts(part, window),
            None if step_s is None else one.histograms(window, step_s),
        )
        for one, part in zip(several, parts, strict=True)
    ]


def _split(rows: Rows, counts: Sequence[int]) -> list[Rows]:
    """Rows of so many blocks each, `source` counted anew in each part."""
    borders = np.cumsum([0, *counts])
    places = np.searchsorted(rows.source, borders).tolist()
    parts = []
    for first, low, high in zip(borders.tolist(), places, places[1:], strict=False):
        cut = slice(low, high)
        source = rows.source[cut] - first
        parts.append(Rows(rows.time_ms[cut], rows.value[cut], rows.direction[cut], source))
    return parts


def _plain(path: Path, name: LogName, folder: Path) -> Path:
    if not name.gzipped:
        return path
    plain = folder / path.name.removesuffix(".gz")
    # A file that was cut on its way has good rows before the cut.
    cut = (EOFError, gzip.BadGzipFile, zlib.error)
    with gzip.open(path, "rb") as source, plain.open("wb") as target, contextlib.suppress(*cut):
        shutil.copyfileobj(source, target, 1 << 16)
    return plain

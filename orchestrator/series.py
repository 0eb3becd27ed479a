"""The series of a case: the logs of all its workers in, one Parquet file out, a window at a time.

One row for each second, direction (`read`, `write`, `trim`) and entity: the `total`, each `host`,
each `group`, each `worker`. Columns:

    scope, name     total/host/group/worker, and which (`total` for the total)
    second          whole seconds since the series' origin
    time_ms         its begin, ms since 1970 by the controller's clock
    direction
    workers         how many workers measured in this second, with parts: 0.4 of a second is 0.4
    iops, bytes_per_s   what was completed in this second; not scaled up where workers < expected
    lat_mean_ns     mean weighted by I/Os; null without I/O
    p50_ns ... p99.9_ns   completion latency, from the sum of the histogram logs; in the last second
                    of the `percentiles_s` seconds that they cover, null elsewhere

A second in which a worker measured and completed nothing has 0; one in which it didn't measure
has no row.
"""

from __future__ import annotations

import contextlib
import gzip
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from orchestrator.fio_logs import INTERVAL_MS, USED_KINDS, LogKind, LogName, parse_log_name
from orchestrator.histogram import percent_key
from orchestrator.log_rows import Rows, parse_histograms, parse_rows
from orchestrator.timeline import (
    DIRECTIONS,
    SERIES_PERCENTS,
    Amounts,
    Figures,
    HistogramSum,
    Span,
    Window,
    WorkerLogs,
    choose_origin,
    standstills,
    worker_amounts,
)

#: Seconds worked on at a time; rounded down to whole histogram intervals.
WINDOW_S: Final = 900
#: Workers read ahead while one is added up.
AHEAD: Final = 3
#: Times below this (1973) are counted from the job's begin: fio without log_unix_epoch.
_EPOCH_FROM_MS: Final = 10**11
#: Bytes looked at on each end of a histogram log: a dozen of its longest rows.
_REACH: Final = 64 * 1024
_LEAST_STEP_MS: Final = 100
_PERCENT_COLUMNS: Final = tuple(f"p{percent_key(percent)}_ns" for percent in SERIES_PERCENTS)


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


@dataclass(frozen=True)
class SeriesSummary:
    """What a series holds. `without` names workers that had no rows, with the reason."""

    origin_ms: float
    seconds: int
    histogram_step_s: int | None
    spans: Mapping[str, Span]
    #: by worker, when its fio stood still: a paused or starved machine
    standstills: Mapping[str, tuple[Span, ...]]
    without: Mapping[str, str]
    dropped_lines: int


def find_logs(folder: Path) -> list[Path]:
    """The logs in a worker's raw folder that a series is made of, by name."""
    named = ((path, parse_log_name(path.name)) for path in sorted(folder.rglob("*_*.log*")))
    return [path for path, name in named if name is not None and name.kind in USED_KINDS]


def write_series(
    path: Path, members: Sequence[Member], *, window_s: int = WINDOW_S, threads: int = 2
) -> SeriesSummary | None:
    """Reduce the logs of `members` into the Parquet file `path`; None when no log has a row.

    Memory grows with workers, groups and hosts, not with the run's length.
    """
    with ExitStack() as stack:
        opened = [_Logs.open(member, stack, path.parent) for member in members]
        logs = [one for one in opened if one.span is not None]
        if not logs:
            return None
        series = _Series(logs, window_s)
        with ThreadPoolExecutor(threads) as pool:
            frames = series.frames(pool)
            first = next(frames)

            def source(
                _columns: list[str] | None,
                _predicate: pl.Expr | None,
                _rows: int | None,
                _batch: int | None,
            ) -> Iterator[pl.DataFrame]:
                yield first
                yield from frames

            part = path.with_name(path.name + ".part")
            register_io_source(source, schema=first.schema).sink_parquet(
                part, engine="streaming", maintain_order=True
            )
        part.replace(path)
    return SeriesSummary(
        origin_ms=series.origin_ms,
        seconds=series.seconds,
        histogram_step_s=series.step_s,
        spans={one.member.worker: one.span for one in logs if one.span is not None},
        standstills={one.member.worker: still for one in logs if (still := one.still())},
        without={
            one.member.worker: "no logs" if not one.files else "no rows"
            for one in opened
            if one.span is None
        },
        dropped_lines=sum(one.dropped for one in logs),
    )


def scan_series(path: Path) -> pl.LazyFrame:
    """The series as a lazy frame, columns as above."""
    return pl.scan_parquet(path)


class _LogFile:
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
class _Logs:
    """A worker's logs, opened: by kind in the order of jobs, and when it measured."""

    member: Member
    files: dict[LogKind, list[_LogFile]]
    span: Span | None = None
    offset_s: float = 0.0
    dropped: int = 0
    seen: set[int] = field(default_factory=set)
    stood: set[tuple[int, int]] = field(default_factory=set)

    @classmethod
    def open(cls, member: Member, stack: ExitStack, beside: Path) -> _Logs:
        """Look at a worker's logs; packed ones are unpacked into a folder `beside` the series,
        where there is room for a run, until the stack is left."""
        named = [(path, parse_log_name(path.name)) for path in member.files]
        found = [(path, name) for path, name in named if name and name.kind in USED_KINDS]
        if any(name.gzipped for _, name in found):
            folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix=".logs-", dir=beside))
            )
            found = [(_plain(path, name, folder), name) for path, name in found]
        files: dict[LogKind, list[_LogFile]] = {}
        for path, name in sorted(found, key=lambda item: item[1].job):
            files.setdefault(name.kind, []).append(_LogFile(path, name))
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

    def read(self, window: Window, step_s: int | None) -> tuple[Amounts, HistogramSum | None]:
        """The worker's amounts and histogram rows in a window."""
        begin = window.origin_ms + window.first * 1000.0 + self.offset_s * 1000.0
        end = begin + window.length * 1000.0
        kinds: list[LogKind] = ["iops", "bw", "lat"]
        logs = [log for kind in kinds for log in self.files.get(kind, [])]
        blocks = [log.block(end + 2 * INTERVAL_MS, end - 2 * INTERVAL_MS) for log in logs]
        parts = self._split(parse_rows(blocks), [len(self.files.get(kind, [])) for kind in kinds])
        jobs = max(len(self.files.get(kind, [])) for kind in kinds)
        iops, bw, lat = parts
        self.stood.update(standstills(iops))
        amounts = worker_amounts(WorkerLogs(iops, bw, lat, jobs), window, self.offset_s)
        self.seen.update(np.flatnonzero(amounts.ios.any(axis=1)).tolist())
        if step_s is None:
            return amounts, None
        return amounts, self._histograms(window, step_s, end)

    def _split(self, rows: Rows, counts: Sequence[int]) -> list[Rows]:
        """Rows of all logs back into kinds; the job's index instead of the block's."""
        self.dropped += rows.dropped
        parts, first = [], 0
        for count in counts:
            low, high = np.searchsorted(rows.source, (first, first + count)).tolist()
            cut = slice(low, high)
            source = rows.source[cut] - first
            parts.append(Rows(rows.time_ms[cut], rows.value[cut], rows.direction[cut], source))
            first += count
        return parts

    def _histograms(self, window: Window, step_s: int, end: float) -> HistogramSum:
        total = HistogramSum(step_s, window.length // step_s)
        margin = 2000.0 * step_s
        for log in self.files.get("hist", []):
            rows = parse_histograms(log.block(end + margin, end - margin))
            if rows is not None:
                total.add_rows(rows, window, self.offset_s)
                self.dropped += rows.dropped
        return total


def _plain(path: Path, name: LogName, folder: Path) -> Path:
    if not name.gzipped:
        return path
    plain = folder / path.name.removesuffix(".gz")
    # A file that was cut on its way has good rows before the cut.
    cut = (EOFError, gzip.BadGzipFile, zlib.error)
    with gzip.open(path, "rb") as source, plain.open("wb") as target, contextlib.suppress(*cut):
        shutil.copyfileobj(source, target, 1 << 16)
    return plain


@dataclass
class _Entity:
    """A row's subject, and what has been added up for it in the current window."""

    code: int
    scope: int
    amounts: Amounts
    workers: Figures
    histogram: HistogramSum | None
    seen: set[int] = field(default_factory=set)


_SCOPES: Final = ("total", "host", "group", "worker")


class _Series:
    """The reduction of a case, window after window."""

    def __init__(self, logs: Sequence[_Logs], window_s: int) -> None:
        # Hosts one after the other, so that only one host's histograms are held at a time.
        self.logs = sorted(logs, key=lambda one: (one.member.host or "", one.member.worker))
        spans = [one.span for one in logs if one.span is not None]
        self.origin_ms = choose_origin(spans)
        last = max(span.end_ms for span in spans)
        self.seconds = max(1, int(np.ceil((last - self.origin_ms) / 1000.0)))
        steps = [step for one in logs if (step := one.histogram_step_s()) is not None]
        self.step_s = max(steps) if steps else None
        step = self.step_s or 1
        self.window_s = max(step, window_s // step * step)
        names = {one.member.worker for one in logs}
        names |= {one.member.host for one in logs if one.member.host}
        names |= {one.member.group for one in logs if one.member.group}
        self.names = pl.Enum(sorted(names | {"total"}))
        self._codes = {name: code for code, name in enumerate(sorted(names | {"total"}))}
        self._seen: dict[tuple[int, int], set[int]] = {}

    def frames(self, pool: ThreadPoolExecutor) -> Iterator[pl.DataFrame]:
        """One frame for each window."""
        for first in range(0, self.seconds, self.window_s):
            yield self._frame(Window(self.origin_ms, first, self.window_s), pool)

    def _frame(self, window: Window, pool: ThreadPoolExecutor) -> pl.DataFrame:
        total = self._entity(0, "total", window)
        groups: dict[str, _Entity] = {}
        host: _Entity | None = None
        parts: list[pl.DataFrame] = []
        for one, (amounts, histogram) in self._in_order(window, pool):
            member = one.member
            worker = self._entity(3, member.worker, window)
            sums = [total, worker]
            if member.group:
                if member.group not in groups:
                    groups[member.group] = self._entity(2, member.group, window)
                sums.append(groups[member.group])
            if member.host:
                code = self._codes[member.host]
                if host is None or host.code != code:
                    parts += self._rows(host, window)
                    host = self._entity(1, member.host, window)
                sums.append(host)
            share = one.span.share(window) if one.span else np.zeros(window.length)
            for entity in sums:
                entity.amounts.add(amounts)
                entity.workers += share
                entity.seen.update(one.seen)
                if histogram is not None and entity.histogram is not None:
                    entity.histogram.add(histogram)
            parts += self._rows(worker, window)
        parts += self._rows(host, window)
        for summed in (*groups.values(), total):
            parts += self._rows(summed, window)
        return pl.concat(parts)

    def _in_order(
        self, window: Window, pool: ThreadPoolExecutor
    ) -> Iterator[tuple[_Logs, tuple[Amounts, HistogramSum | None]]]:
        """Each worker's window, read a few workers ahead in threads."""
        waiting = iter(self.logs)
        queue = [
            (one, pool.submit(one.read, window, self.step_s)) for one in islice(waiting, AHEAD)
        ]
        while queue:
            one, future = queue.pop(0)
            yield one, future.result()
            for more in islice(waiting, 1):
                queue.append((more, pool.submit(more.read, window, self.step_s)))

    def _entity(self, scope: int, name: str, window: Window) -> _Entity:
        step = self.step_s
        code = self._codes[name]
        return _Entity(
            code=code,
            scope=scope,
            amounts=Amounts.empty(window.length),
            workers=np.zeros(window.length),
            histogram=None if step is None else HistogramSum(step, window.length // step),
            seen=self._seen.setdefault((scope, code), set()),
        )

    def _rows(self, entity: _Entity | None, window: Window) -> list[pl.DataFrame]:
        """The entity's rows, a frame for each direction that it was ever seen to do."""
        if entity is None:
            return []
        measured = np.flatnonzero(entity.workers > 0)
        percentiles = entity.histogram.percentiles() if entity.histogram else {}
        return [
            self._direction(entity, window, direction, measured, percentiles.get(direction))
            for direction in sorted(entity.seen)
        ]

    def _direction(
        self,
        entity: _Entity,
        window: Window,
        direction: int,
        chosen: np.ndarray[tuple[int], np.dtype[np.int64]],
        percentiles: Figures | None,
    ) -> pl.DataFrame:
        amounts = entity.amounts
        timed = amounts.timed[direction][chosen]
        mean = np.full(len(chosen), np.nan)
        np.divide(amounts.latency_ns[direction][chosen], timed, out=mean, where=timed > 0)
        second = chosen + window.first
        frame = pl.DataFrame(
            {
                "second": second,
                "time_ms": second * 1000.0 + self.origin_ms,
                "workers": entity.workers[chosen],
                "iops": amounts.ios[direction][chosen],
                "bytes_per_s": amounts.bytes[direction][chosen],
                "lat_mean_ns": pl.Series(mean, nan_to_null=True),
                **self._percentile_columns(percentiles, chosen, window.length),
            }
        )
        return frame.select(
            pl.lit(_SCOPES[entity.scope], pl.Enum(_SCOPES)).alias("scope"),
            pl.lit(self.names.categories[entity.code], self.names).alias("name"),
            pl.lit(DIRECTIONS[direction], pl.Enum(DIRECTIONS)).alias("direction"),
            pl.all(),
        )

    def _percentile_columns(
        self,
        percentiles: Figures | None,
        chosen: np.ndarray[tuple[int], np.dtype[np.int64]],
        length: int,
    ) -> dict[str, pl.Series]:
        step = self.step_s or 1
        spread = np.full((len(_PERCENT_COLUMNS), length), np.nan)
        if percentiles is not None:
            spread[:, step - 1 :: step] = percentiles.T
        columns = {
            name: pl.Series(values[chosen], nan_to_null=True)
            for name, values in zip(_PERCENT_COLUMNS, spread, strict=True)
        }
        known = ~np.isnan(spread).all(axis=0)[chosen]
        covered = np.where(known, float(step), np.nan)
        return {**columns, "percentiles_s": pl.Series(covered, nan_to_null=True)}

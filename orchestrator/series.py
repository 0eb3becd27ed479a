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

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from orchestrator.histogram import percent_key
from orchestrator.log_reader import Member, OpenLogs, read_together
from orchestrator.log_rows import Integers
from orchestrator.timeline import (
    DIRECTIONS,
    SERIES_PERCENTS,
    Amounts,
    Figures,
    HistogramSum,
    Span,
    Window,
    choose_origin,
)

#: Seconds worked on at a time; rounded down to whole histogram intervals.
WINDOW_S: Final = 900
#: Workers whose logs are read in one go, and how many such goes are ahead of the adding up.
TOGETHER: Final = 4
AHEAD: Final = 1
_FIGURES: Final = ("second", "workers", "iops", "bytes_per_s", "lat_mean_ns")
_PERCENT_COLUMNS: Final = tuple(f"p{percent_key(percent)}_ns" for percent in SERIES_PERCENTS)
_PERCENTILES: Final = (*_PERCENT_COLUMNS, "percentiles_s")


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


def write_series(
    path: Path, members: Sequence[Member], *, window_s: int = WINDOW_S, threads: int = 2
) -> SeriesSummary | None:
    """Reduce the logs of `members` into the Parquet file `path`; None when no log has a row.
    A worker without rows of a rate that others have is left out, and named in the summary.

    Memory grows with workers, groups and hosts, not with the run's length.
    """
    with ExitStack() as stack:
        opened = [OpenLogs.open(member, stack, path.parent) for member in members]
        needed = {kind for one in opened for kind in one.rates()}
        lacking = {one.member.worker: why for one in opened if (why := one.lacking(needed))}
        logs = [one for one in opened if one.member.worker not in lacking]
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
        without=lacking,
        dropped_lines=sum(one.dropped for one in logs),
    )


def scan_series(path: Path) -> pl.LazyFrame:
    """The series as a lazy frame, columns as above."""
    return pl.scan_parquet(path)


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

    def __init__(self, logs: Sequence[OpenLogs], window_s: int) -> None:
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
        rows = _Rows(window, self.origin_ms, self.step_s)
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
                    rows.add(host)
                    host = self._entity(1, member.host, window)
                sums.append(host)
            share = one.span.share(window) if one.span else np.zeros(window.length)
            for entity in sums:
                entity.amounts.add(amounts)
                entity.workers += share
                entity.seen.update(one.seen)
                if histogram is not None and entity.histogram is not None:
                    entity.histogram.add(histogram)
            rows.add(worker)
        rows.add(host)
        for summed in (*groups.values(), total):
            rows.add(summed)
        return rows.frame(self.names)

    def _in_order(
        self, window: Window, pool: ThreadPoolExecutor
    ) -> Iterator[tuple[OpenLogs, tuple[Amounts, HistogramSum | None]]]:
        """Each worker's window; a few are read ahead in threads."""
        batches = (self.logs[n : n + TOGETHER] for n in range(0, len(self.logs), TOGETHER))
        queue: deque[tuple[Sequence[OpenLogs], Future[list[tuple[Amounts, HistogramSum | None]]]]]
        queue = deque()
        for batch in batches:
            queue.append((batch, pool.submit(read_together, batch, window, self.step_s)))
            if len(queue) > AHEAD:
                several, future = queue.popleft()
                yield from zip(several, future.result(), strict=True)
        for several, future in queue:
            yield from zip(several, future.result(), strict=True)

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


class _Rows:
    """The rows of a window, gathered as arrays and made one frame: hundreds of small ones cost."""

    def __init__(self, window: Window, origin_ms: float, step_s: int | None) -> None:
        self._window = window
        self._origin_ms = origin_ms
        self._step_s = step_s
        #: scope, name and direction of each part, as codes, and how many rows it has
        self._keys: list[tuple[int, int, int, int]] = []
        self._figures: dict[str, list[Figures]] = {name: [] for name in (*_FIGURES, *_PERCENTILES)}

    def add(self, entity: _Entity | None) -> None:
        """Add the entity's rows, a part for each direction that it was ever seen to do."""
        if entity is None:
            return
        measured = np.flatnonzero(entity.workers > 0)
        percentiles = entity.histogram.percentiles() if entity.histogram else {}
        for direction in sorted(entity.seen):
            self._keys.append((entity.scope, entity.code, direction, len(measured)))
            figures = self._of(entity, direction, measured)
            figures |= self._percentiles(percentiles.get(direction), measured)
            for name, values in figures.items():
                self._figures[name].append(values)

    def _of(self, entity: _Entity, direction: int, chosen: Integers) -> dict[str, Figures]:
        amounts = entity.amounts
        timed = amounts.timed[direction][chosen]
        mean = np.full(len(chosen), np.nan)
        np.divide(amounts.latency_ns[direction][chosen], timed, out=mean, where=timed > 0)
        return {
            "second": (chosen + self._window.first).astype(np.float64),
            "workers": entity.workers[chosen],
            "iops": amounts.ios[direction][chosen],
            "bytes_per_s": amounts.bytes[direction][chosen],
            "lat_mean_ns": mean,
        }

    def _percentiles(self, percentiles: Figures | None, chosen: Integers) -> dict[str, Figures]:
        """Known in the last second of a step, NaN elsewhere; with the seconds that they cover."""
        step = self._step_s or 1
        if percentiles is None:
            return dict.fromkeys(_PERCENTILES, np.full(len(chosen), np.nan))
        spread = np.full((len(_PERCENT_COLUMNS), self._window.length), np.nan)
        spread[:, step - 1 :: step] = percentiles.T
        found = dict(zip(_PERCENT_COLUMNS, spread[:, chosen], strict=True))
        known = ~np.isnan(spread).all(axis=0)[chosen]
        return {**found, "percentiles_s": np.where(known, float(step), np.nan)}

    def frame(self, names: pl.Enum) -> pl.DataFrame:
        """All rows, in the order in which they were added."""
        keys = np.array(self._keys, dtype=np.int64).reshape(-1, 4)
        scopes, codes, directions = (np.repeat(keys[:, n], keys[:, 3]) for n in range(3))
        figures = {n: np.concatenate([[], *parts]) for n, parts in self._figures.items()}
        second = figures["second"].astype(np.int64)
        known = {n: figures[n] for n in ("workers", "iops", "bytes_per_s")}
        unsure = {
            n: pl.Series(figures[n], nan_to_null=True) for n in ("lat_mean_ns", *_PERCENTILES)
        }
        return pl.DataFrame(
            {
                "scope": _named(pl.Enum(_SCOPES), scopes),
                "name": _named(names, codes),
                "direction": _named(pl.Enum(DIRECTIONS), directions),
                "second": second,
                "time_ms": second * 1000.0 + self._origin_ms,
                **known,
                **unsure,
            }
        )


def _named(kind: pl.Enum, codes: Integers) -> pl.Series:
    return pl.Series(kind.categories, dtype=kind).gather(codes)

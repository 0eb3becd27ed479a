"""A run as flat tables: one row a case, one row a second; every column is defined here once.

`docs/columns.md` is made from these definitions (`columns_document`), so it can't say anything
else. Units are in the names; a figure that isn't known is empty.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from orchestrator.histogram import PERCENT_KEYS
from orchestrator.metrics import parse_metric
from orchestrator.repeats import split_repeat
from orchestrator.results import CaseResult, DirectionResult, LatencyResult, RunResult

Kind = Literal["text", "whole", "number", "yes/no"]
Value = str | int | float | bool | None
Row = Mapping[str, Value]

DIRECTIONS: Final = ("read", "write", "trim")


class Column(Struct, frozen=True):
    """A column's name, what kind of value it holds, and what it means."""

    name: str
    kind: Kind
    meaning: str


_Read = Callable[[str, CaseResult], Value]


def _case_columns() -> Iterator[tuple[Column, _Read]]:
    yield from _identity()
    for name, meaning in _TIMING.items():
        yield Column(name, "number", meaning), _timing(name)
    for name in ("iops", "bytes_per_s"):
        words = "I/Os" if name == "iops" else "bytes"
        meaning = f"{words} a second, reads, writes and trims together"
        yield Column(name, "number", meaning), _metric(name)
    for direction in DIRECTIONS:
        yield from _direction_columns(direction)
    yield from _latency_columns("sync", "flushes (fsync, fdatasync), never part of writes", _sync)


def _timing(name: str) -> _Read:
    def read(_: str, case: CaseResult) -> Value:
        value: Value = getattr(case.timing, name)
        return value

    return read


def _metric(name: str) -> _Read:
    metric = parse_metric(name)
    return lambda _, case: metric.value(case.total)


_TIMING: Final[Mapping[str, str]] = {
    "skew_s": "latest start of a worker minus the earliest, s",
    "overlap": "share of the time in which all workers measured, 0 to 1",
    "common_window_s": "time in which every worker measured, s",
    "ramp_s": "time before the measured time, s",
    "runtime_s": "measured time that was asked for, s",
}


def _identity() -> Iterator[tuple[Column, _Read]]:
    yield Column("run", "text", "the run's id"), lambda run, _: run
    yield (
        Column("case", "text", "the case's id, without its repeat"),
        lambda _, case: split_repeat(case.case)[0],
    )
    yield (
        Column("repeat", "whole", "which repeat of the case; empty when it isn't repeated"),
        lambda _, case: split_repeat(case.case)[1],
    )
    yield Column("outcome", "text", "done, failed, broken or skipped"), lambda _, c: c.outcome
    yield (
        Column("verdict", "text", "whether to believe the figures: valid, unknown or invalid"),
        lambda _, case: case.verdict.value,
    )
    yield Column("reasons", "text", "codes of the checks behind the verdict"), _reasons
    yield (
        Column("expected_workers", "whole", "workers that the plan has in the case"),
        lambda _, case: case.expected_workers,
    )
    yield (
        Column("received_workers", "whole", "workers whose figures are in the totals"),
        lambda _, case: case.received_workers,
    )
    yield (
        Column("degraded", "yes/no", "some workers are missing and the policy allowed it"),
        lambda _, case: case.degraded,
    )
    yield Column("fio_version", "text", "fio's version as fio says it"), _versions


def _reasons(_: str, case: CaseResult) -> Value:
    return ", ".join(sorted({r.code for r in case.verdict.reasons if r.level != "note"})) or None


def _versions(_: str, case: CaseResult) -> Value:
    found = {worker.fio_version for worker in case.workers.values() if worker.fio_version}
    return ", ".join(sorted(found)) or None


def _direction_columns(name: str) -> Iterator[tuple[Column, _Read]]:
    figures: tuple[tuple[str, Kind, str], ...] = (
        ("ios", "whole", f"number of {name}s"),
        ("bytes", "whole", f"bytes of {name}s"),
        ("iops", "number", f"{name}s a second, total over the runtime"),
        ("bytes_per_s", "number", f"bytes of {name}s a second, total over the runtime"),
    )
    for figure, kind, meaning in figures:

        def read(_: str, case: CaseResult, figure: str = figure) -> Value:
            direction = _direction(case, name)
            value: Value = None if direction is None else getattr(direction, figure)
            return value

        yield Column(f"{name}_{figure}", kind, meaning), read

    def latency(case: CaseResult) -> LatencyResult | None:
        direction = _direction(case, name)
        return None if direction is None else direction.latency_ns

    yield from _latency_columns(name, f"{name}s", latency)


def _direction(case: CaseResult, name: str) -> DirectionResult | None:
    direction: DirectionResult | None = None if case.total is None else getattr(case.total, name)
    return direction


def _sync(case: CaseResult) -> LatencyResult | None:
    return None if case.total is None else case.total.sync


def _latency_columns(
    name: str, words: str, find: Callable[[CaseResult], LatencyResult | None]
) -> Iterator[tuple[Column, _Read]]:
    kinds = "lat: total, clat: completion, sync: flush"
    fields: tuple[tuple[str, str, Kind, str], ...] = (
        ("latency_kind", "kind", "text", f"which latency of {words} ({kinds})"),
        ("latency_samples", "count", "whole", f"samples behind the latency of {words}"),
        ("latency_min_ns", "min", "whole", f"shortest latency of {words}, ns"),
        ("latency_max_ns", "max", "whole", f"longest latency of {words}, ns"),
        ("latency_mean_ns", "mean", "number", f"mean latency of {words}, weighted by I/O, ns"),
        (
            "latency_stddev_ns",
            "stddev",
            "number",
            f"pooled deviation of the latency of {words}, ns",
        ),
    )
    for suffix, field, kind, meaning in fields:

        def read(_: str, case: CaseResult, field: str = field) -> Value:
            latency = find(case)
            value: Value = None if latency is None else getattr(latency, field)
            return value

        yield Column(f"{name}_{suffix}", kind, meaning), read
    for key in PERCENT_KEYS:

        def percentile(_: str, case: CaseResult, key: str = key) -> Value:
            latency = find(case)
            return None if latency is None else latency.percentiles.get(key)

        meaning = f"{key}th percentile of the latency of {words}, from summed histograms, ns"
        yield Column(f"{name}_p{key}_ns", "whole", meaning), percentile


_CASES: Final = tuple(_case_columns())

#: One row a case.
CASE_COLUMNS: Final = tuple(column for column, _ in _CASES)

#: One row a second, direction and part of the cluster, where the run kept a series.
SECOND_COLUMNS: Final = (
    Column("run", "text", "the run's id"),
    Column("case", "text", "the case's id, without its repeat"),
    Column("repeat", "whole", "which repeat of the case; empty when it isn't repeated"),
    Column("scope", "text", "total, host, group or worker"),
    Column("name", "text", "which host, group or worker; total for the total"),
    Column("second", "whole", "whole seconds since the series began"),
    Column("time_ms", "number", "its begin, ms since 1970 by the controller's clock"),
    Column("direction", "text", "read, write or trim"),
    Column("workers", "number", "workers that measured in this second; 0.4 of it counts 0.4"),
    Column("iops", "number", "I/Os completed in this second"),
    Column("bytes_per_s", "number", "bytes completed in this second"),
    Column("lat_mean_ns", "number", "mean latency, weighted by I/O, ns; empty without I/O"),
    *(
        Column(
            f"p{key}_ns",
            "number",
            f"{key}th percentile of completion latency over the last percentiles_s seconds, ns",
        )
        for key in ("50", "95", "99", "99.9")
    ),
    Column("percentiles_s", "number", "seconds that the percentiles of this row cover"),
)


def case_rows(run_id: str, run: RunResult) -> list[dict[str, Value]]:
    """One row a case, its keys the names of CASE_COLUMNS in their order."""
    return [{column.name: read(run_id, case) for column, read in _CASES} for case in run.cases]


#: What a spreadsheet takes for a formula's begin when it opens a CSV file.
FORMULA: Final = r"^[=+\-@\t\r]"


def render_csv(columns: Sequence[Column], rows: Iterable[Row]) -> str:
    """CSV with a head and `\\n` line ends; what isn't known is empty, yes/no is true/false.

    Text that a spreadsheet would take for a formula gets an apostrophe before it: names and
    versions come from files of other people.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [column.name for column in columns]
    writer.writerow(names)
    for row in rows:
        writer.writerow([_csv_value(row.get(name)) for name in names])
    return out.getvalue()


def _csv_value(value: Value) -> Value:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and re.match(FORMULA, value):
        return f"'{value}"
    return value


def render_json(columns: Sequence[Column], rows: Iterable[Row]) -> str:
    """The rows as JSON objects, beside the columns' definitions."""
    defined = [{"name": c.name, "kind": c.kind, "meaning": c.meaning} for c in columns]
    document: dict[str, Any] = {"schema": 1, "columns": defined, "rows": list(rows)}
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def columns_document() -> str:
    """The text of docs/columns.md."""
    lines = [
        "# Columns of `hcio export`",
        "",
        "Made from `orchestrator/export.py`; a test compares them. Units are in the names: ns,",
        "bytes, s. What isn't known is empty (null), never 0. Kinds: text, whole (number),",
        "number, yes/no. In CSV, text that begins like a formula (= + - @) has an apostrophe",
        "before it, so that no spreadsheet runs it.",
    ]
    for title, columns in (("One row a case", CASE_COLUMNS), ("One row a second", SECOND_COLUMNS)):
        lines += ["", f"## {title}", "", "| column | kind | meaning |", "| --- | --- | --- |"]
        lines += [f"| `{c.name}` | {c.kind} | {c.meaning} |" for c in columns]
    return "\n".join(lines) + "\n"

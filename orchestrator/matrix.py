"""The matrix that people publish: configurations down, workloads across, one figure a cell.

A cell's unit is its column's: MB/s (10^6 bytes) where an I/O is 64 KiB or larger on average, IOPS
below. A cell that isn't known is None; one whose figures a check called invalid says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from orchestrator.metrics import parse_metric
from orchestrator.repeats import group_repeats
from orchestrator.results import CaseResult

CellUnit = Literal["IOPS", "MB/s"]

#: From this I/O size on (bytes) a workload's figure is its throughput.
LARGE_IO: Final = 65536
_IOPS, _BYTES = parse_metric("iops"), parse_metric("bytes_per_s")


class Row(Struct, frozen=True):
    """One configuration: a name and what it ran."""

    name: str
    cases: tuple[CaseResult, ...]


class Cell(Struct, frozen=True):
    """The mean over `runs` repeats, in the column's unit; None when it isn't known."""

    value: float | None
    runs: int = 0
    #: why the figure is missing, or must not be trusted
    note: str = ""


class Column(Struct, frozen=True):
    """One workload and the unit that fits it."""

    case: str
    unit: CellUnit


class Matrix(Struct, frozen=True):
    """Columns, and for each configuration its cells in the columns' order."""

    columns: tuple[Column, ...]
    rows: Mapping[str, tuple[Cell, ...]]


def build_matrix(rows: Sequence[Row]) -> Matrix:
    """Lay out configurations by workloads, both in the order in which they come.

    Rows of one name are repeats of one configuration.
    """
    names = list(dict.fromkeys(row.name for row in rows))
    grouped = {
        name: group_repeats(case for row in rows if row.name == name for case in row.cases)
        for name in names
    }
    cases = list(dict.fromkeys(case for found in grouped.values() for case in found))
    columns = tuple(Column(case, _unit(case, grouped.values())) for case in cases)
    return Matrix(
        columns=columns,
        rows={
            name: tuple(_cell(found.get(column.case, ()), column.unit) for column in columns)
            for name, found in grouped.items()
        },
    )


def _unit(case: str, grouped: Iterable[Mapping[str, tuple[CaseResult, ...]]]) -> CellUnit:
    """One unit for a column, from the mean I/O size over all its cells."""
    ios = sizes = 0.0
    for found in grouped:
        for result in found.get(case, ()):
            iops, rate = _IOPS.value(result.total), _BYTES.value(result.total)
            if iops and rate:
                ios += iops
                sizes += rate
    return "MB/s" if ios and sizes / ios >= LARGE_IO else "IOPS"


def _cell(repeats: Sequence[CaseResult], unit: CellUnit) -> Cell:
    if not repeats:
        return Cell(None, note="not run")
    metric, factor = (_BYTES, 1e6) if unit == "MB/s" else (_IOPS, 1.0)
    values = [value for result in repeats if (value := metric.value(result.total)) is not None]
    note = _note(repeats)
    if not values:
        return Cell(None, note=note or "no figures")
    return Cell(math.fsum(values) / len(values) / factor, len(values), note)


def _note(repeats: Sequence[CaseResult]) -> str:
    outcomes = sorted({result.outcome for result in repeats} - {"done"})
    if outcomes:
        return ", ".join(outcomes)
    if any(result.verdict.value == "invalid" for result in repeats):
        return "invalid"
    if any(result.degraded for result in repeats):
        return "degraded"
    return "unknown" if any(result.verdict.value == "unknown" for result in repeats) else ""

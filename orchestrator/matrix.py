"""The matrix that people publish: configurations down, workloads across, one figure a cell.

A cell's unit is its column's: MB/s (10^6 bytes) where an I/O is 64 KiB or larger on average, IOPS
below. A cell that isn't known is None; one whose figures a check called invalid says so. Down a
column one thing should be measured: a cell whose I/Os are of another size or mix than those of the
first row that has figures says so.
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
_READS: Final = parse_metric("read.iops")
#: Sizes and shares of reads that are this near each other are those of one workload.
_NEAR: Final = 0.05


class Row(Struct, frozen=True):
    """One configuration: a name and what it ran."""

    name: str
    cases: tuple[CaseResult, ...]


class Cell(Struct, frozen=True):
    """The mean over `runs` repeats, in the column's unit; None when it isn't known.

    Repeats that a check found invalid are left out where there are others.
    """

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
    firsts = {
        case: _first_shape(found.get(case, ()) for found in grouped.values()) for case in cases
    }
    return Matrix(
        columns=columns,
        rows={
            name: tuple(
                _cell(found.get(column.case, ()), column.unit, firsts[column.case])
                for column in columns
            )
            for name, found in grouped.items()
        },
    )


class _Shape(Struct, frozen=True):
    """What the I/Os of a cell were: their mean size in bytes, and the share that reads."""

    size: float
    reads: float

    def __str__(self) -> str:
        return f"{self.size / 1024:,.4g} KiB, {self.reads:.0%} reads"

    def differs(self, other: _Shape) -> bool:
        """Beyond what chance makes of one mix."""
        return (
            abs(self.size - other.size) > _NEAR * other.size
            or abs(self.reads - other.reads) > _NEAR
        )


def _shape(repeats: Sequence[CaseResult]) -> _Shape | None:
    ios = sizes = reads = 0.0
    for result in repeats:
        iops, rate = _IOPS.value(result.total), _BYTES.value(result.total)
        if iops and rate:
            ios += iops
            sizes += rate
            reads += _READS.value(result.total) or 0.0
    return _Shape(sizes / ios, reads / ios) if ios else None


def _first_shape(several: Iterable[Sequence[CaseResult]]) -> _Shape | None:
    return next((shape for repeats in several if (shape := _shape(repeats)) is not None), None)


def _unit(case: str, grouped: Iterable[Mapping[str, tuple[CaseResult, ...]]]) -> CellUnit:
    """One unit for a column, from the mean I/O size over all its cells."""
    shape = _shape([result for found in grouped for result in found.get(case, ())])
    return "MB/s" if shape is not None and shape.size >= LARGE_IO else "IOPS"


def _cell(repeats: Sequence[CaseResult], unit: CellUnit, first: _Shape | None) -> Cell:
    if not repeats:
        return Cell(None, note="not run")
    metric, factor = (_BYTES, 1e6) if unit == "MB/s" else (_IOPS, 1.0)
    sure = [result for result in repeats if result.verdict.value != "invalid"]
    used = sure if any(metric.value(result.total) is not None for result in sure) else repeats
    values = [value for result in used if (value := metric.value(result.total)) is not None]
    note = _note(repeats)
    shape = _shape(used)
    if shape is not None and first is not None and shape.differs(first):
        note = f"{note}; " if note else ""
        note += f"another workload ({shape}; the first row's: {first})"
    if note and 0 < len(values) < len(repeats):
        note += f" ({len(values)} of {len(repeats)} repeats count)"
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

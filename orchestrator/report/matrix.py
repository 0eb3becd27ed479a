"""The matrix as text, Markdown and JSON. Notes stand below, marked in their cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from orchestrator.matrix import Cell, Matrix


def render_matrix(matrix: Matrix) -> str:
    """The table as text."""
    table = [_head(matrix), *_body(matrix)]
    widths = [max(len(row[index]) for row in table) for index in range(len(table[0]))]
    lines = [
        "  ".join(
            f"{cell:>{width}}" if index else f"{cell:<{width}}"
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
    return "\n".join([*lines, *_notes(matrix)]) + "\n"


def render_matrix_markdown(matrix: Matrix) -> str:
    """The table as Markdown."""
    head = _head(matrix)
    lines = [_line(head), "| --- |" + " ---: |" * (len(head) - 1)]
    lines += [_line(row) for row in _body(matrix)]
    notes = [f"{line}  " for line in _notes(matrix)]
    return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n"


def matrix_document(matrix: Matrix) -> dict[str, Any]:
    """What `--json` prints."""
    return {"schema": 1, **msgspec.to_builtins(matrix)}


def _head(matrix: Matrix) -> list[str]:
    return ["configuration", *(f"{column.case} {column.unit}" for column in matrix.columns)]


def _body(matrix: Matrix) -> Iterator[list[str]]:
    for name, cells in matrix.rows.items():
        yield [name, *(_shown(cell) for cell in cells)]


def _shown(cell: Cell) -> str:
    if cell.value is None:
        return cell.note or "-"
    digits = 0 if cell.value >= 100 else 2
    return f"{cell.value:,.{digits}f}" + ("*" if cell.note else "")


def _notes(matrix: Matrix) -> Iterator[str]:
    for name, cells in matrix.rows.items():
        for column, cell in zip(matrix.columns, cells, strict=True):
            if cell.value is not None and cell.note:
                yield f"* {name}, {column.case}: {cell.note}"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(" ".join(c.replace("|", "\\|").split()) for c in cells) + " |"

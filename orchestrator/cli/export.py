"""`hcio export`: runs as flat tables for other programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.sides import case_series, load_run, runs_option
from orchestrator.errors import ConfigError, IncompatibleResults
from orchestrator.export import (
    CASE_COLUMNS,
    FORMULA,
    SECOND_COLUMNS,
    Column,
    Row,
    Value,
    case_rows,
    columns_document,
    render_csv,
    render_json,
)
from orchestrator.repeats import split_repeat
from orchestrator.spreadsheet import MOST_ROWS, Sheet, write_workbook

if TYPE_CHECKING:
    import polars as pl


@click.command("export")
@click.argument("references", metavar="RUN...", nargs=-1)
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "parquet", "json", "xlsx"]),
    default="csv",
    show_default=True,
)
@click.option(
    "--per",
    type=click.Choice(["case", "second"]),
    default="case",
    show_default=True,
    help="One row a case, or one a second where the run kept a series.",
)
@click.option(
    "--scope",
    type=click.Choice(["total", "host", "group", "worker", "all"]),
    default="total",
    show_default=True,
    help="Whose seconds.",
)
@click.option("--output", "-o", type=click.Path(path_type=Path), help="[standard output]")
@click.option("--columns", is_flag=True, help="Print what every column means, and end.")
@runs_option
def export_command(
    references: tuple[str, ...],
    form: str,
    per: str,
    scope: str,
    output: Path | None,
    columns: bool,
    runs: Path,
) -> int:
    """Write RUNs as one table. `--columns` tells what its columns mean.

    A workbook (xlsx) holds the cases, the seconds of those runs that kept a series, and the
    columns' meanings, whatever --per says.
    """
    if columns:
        click.echo(columns_document(), nl=False)
        return 0
    if not references:
        raise ConfigError("no run is named", next_step="name one: `hcio list` shows them")
    if output is None and form in ("parquet", "xlsx"):
        raise ConfigError(f"{form} can't be printed", next_step=f"give --output FILE.{form}")
    content = _content(references, form, per, scope, runs)
    if output is None:
        click.echo(content, nl=False)
        return 0
    try:
        output.write_bytes(content)
    except OSError as error:
        raise ConfigError(f"{output}: {error.strerror or error}") from error
    click.echo(f"written: {output}", err=True)
    return 0


def _content(references: Sequence[str], form: str, per: str, scope: str, runs: Path) -> bytes:
    if form == "xlsx":
        return _workbook(references, scope, runs)
    if per == "second":
        return _seconds_content(_seconds(references, scope, runs), form)
    rows = _cases(references, runs)
    if form == "json":
        return render_json(CASE_COLUMNS, rows).encode()
    if form == "csv":
        return render_csv(CASE_COLUMNS, rows).encode()
    return _parquet(_frame(CASE_COLUMNS, rows))


def _cases(references: Sequence[str], runs: Path) -> list[dict[str, Value]]:
    rows: list[dict[str, Value]] = []
    for reference in references:
        result, _, folder = load_run(reference, runs)
        rows += case_rows(folder.name if folder else reference, result)
    return rows


def _seconds(references: Sequence[str], scope: str, runs: Path) -> pl.DataFrame:
    """All seconds of all runs; raises IncompatibleResults when no run kept a series.

    Cases without one are named on stderr: nothing in the table tells of them.
    """
    import polars as pl

    frames, without = [], []
    for reference in references:
        result, _, folder = load_run(reference, runs)
        for case in result.cases:
            frame = case_series(folder, case.case, alone=len(result.cases) == 1)
            run = folder.name if folder else reference
            if frame is None:
                without.append(f"{run}/{case.case}")
                continue
            if scope != "all":
                frame = frame.filter(pl.col("scope") == scope)
            base, repeat = split_repeat(case.case)
            named = frame.with_columns(
                pl.lit(run).alias("run"),
                pl.lit(base).alias("case"),
                pl.lit(repeat, pl.Int64).alias("repeat"),
            )
            found = named.collect().with_columns(
                pl.col("scope", "name", "direction").cast(pl.String)
            )
            frames.append(found.select([column.name for column in SECOND_COLUMNS]))
    if not frames:
        raise IncompatibleResults(
            f"{', '.join(references)}: no series was kept",
            means="there are no seconds to write",
            next_step="export one row a case, or run with per-second logs",
        )
    if without:
        click.echo(f"no series was kept of {', '.join(without)}", err=True)
    return pl.concat(frames)


def _seconds_content(frame: pl.DataFrame, form: str) -> bytes:
    if form == "csv":
        return _no_formula(frame).write_csv().encode()
    if form == "json":
        return render_json(SECOND_COLUMNS, frame.to_dicts()).encode()
    return _parquet(frame)


def _no_formula(frame: pl.DataFrame) -> pl.DataFrame:
    """As `render_csv` does for the rows of cases."""
    import polars as pl

    text = pl.col(pl.String)
    return frame.with_columns(
        pl.when(text.str.contains(FORMULA)).then(pl.lit("'") + text).otherwise(text).name.keep()
    )


def _frame(columns: Sequence[Column], rows: Sequence[Row]) -> pl.DataFrame:
    import polars as pl

    kinds = {"text": pl.String, "whole": pl.Int64, "number": pl.Float64, "yes/no": pl.Boolean}
    schema = {column.name: kinds[column.kind] for column in columns}
    return pl.DataFrame([dict(row) for row in rows], schema=schema)


def _parquet(frame: pl.DataFrame) -> bytes:
    import io

    out = io.BytesIO()
    frame.write_parquet(out)
    return out.getvalue()


def _workbook(references: Sequence[str], scope: str, runs: Path) -> bytes:
    sheets = [Sheet("cases", _table(CASE_COLUMNS, _cases(references, runs)))]
    try:
        seconds = _seconds(references, scope, runs)
    except IncompatibleResults:
        pass
    else:
        if seconds.height >= MOST_ROWS:
            raise ConfigError(
                f"{seconds.height:,} seconds don't fit a sheet",
                next_step="export them with --format parquet, or with --scope total",
            )
        head = [column.name for column in SECOND_COLUMNS]
        sheets.append(Sheet("seconds", [head, *seconds.iter_rows()]))
    tables = (("cases", CASE_COLUMNS), ("seconds", SECOND_COLUMNS))
    meanings = [[table, c.name, c.kind, c.meaning] for table, columns in tables for c in columns]
    sheets.append(Sheet("columns", [["sheet", "column", "kind", "meaning"], *meanings]))
    return write_workbook(sheets)


def _table(columns: Sequence[Column], rows: Sequence[Row]) -> Iterator[Sequence[Value]]:
    names = [column.name for column in columns]
    yield names
    for row in rows:
        yield [row.get(name) for name in names]

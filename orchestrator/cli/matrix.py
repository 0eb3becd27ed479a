"""`hcio matrix`: configurations down, workloads across."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from orchestrator.cli.sides import load_run, runs_option
from orchestrator.errors import ConfigError
from orchestrator.matrix import Row, build_matrix
from orchestrator.report.matrix import matrix_document, render_matrix, render_matrix_markdown


def _named_runs(references: Sequence[str]) -> Iterator[tuple[str, str]]:
    for reference in references:
        name, _, runs = reference.rpartition("=")
        for run in filter(None, (word.strip() for word in runs.split(","))):
            yield name or runs, run


@click.command("matrix")
@click.argument("references", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@runs_option
def matrix_command(references: tuple[str, ...], form: str, as_json: bool, runs: Path) -> int:
    """Lay out RUNs: one row a run, one column a workload, each cell in the unit that fits.

    RUN may carry a name for its row: NAME=RUN ("4 SSD, RAID-5=20260101-1200"). Runs of one name,
    or written A1,A2,A3, are repeats of one configuration.
    """
    rows = []
    seen: set[tuple[str, str]] = set()
    for name, run in _named_runs(references):
        result, _, folder = load_run(run, runs)
        source = (name, str(folder or Path(run).resolve()))
        if source in seen:
            raise ConfigError(
                f"{run} is in the row {name!r} already", next_step="name every run once"
            )
        seen.add(source)
        rows.append(Row(name, result.cases))
    matrix = build_matrix(rows)
    if as_json or form == "json":
        click.echo(json.dumps(matrix_document(matrix), indent=1, allow_nan=False))
    elif form == "markdown":
        click.echo(render_matrix_markdown(matrix), nl=False)
    else:
        click.echo(render_matrix(matrix), nl=False)
    return 0

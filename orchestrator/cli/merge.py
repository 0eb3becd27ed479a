"""`hcio merge`: plain fio outputs, one file a worker, to one result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from orchestrator.analysis import UniqueNames, merge_files
from orchestrator.errors import EXIT_GOOD, EXIT_NO, EXIT_UNKNOWN, ConfigError
from orchestrator.plausibility import noted
from orchestrator.report.hcibench import render_hcibench
from orchestrator.report.text import render_text
from orchestrator.results import RunResult, write_result


@click.command("merge")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "hcibench"]),
    default="text",
    show_default=True,
    help="How to print the result.",
)
def merge_command(files: tuple[Path, ...], as_json: bool, form: str) -> int:
    """Merge plain fio outputs (json or json+), one FILE a worker, and print one result.

    Percentiles are read from summed histograms, so use --output-format=json+. fio's exit status
    is taken from FILE's neighbour with the ending .rc, where there is one. Exits with 1 when any
    file can't be used, with 3 when none can.
    """
    names = UniqueNames()
    named = [(names.unique(path.stem), path) for path in files]
    statuses = {name: status for name, path in named if (status := _exit_status(path)) is not None}
    run = noted(merge_files(_contents(named), statuses=statuses))
    click.echo(_rendered(run, "json" if as_json else form), nl=False)
    return _exit_code(run)


def _contents(named: Iterable[tuple[str, Path]]) -> Iterator[tuple[str, bytes]]:
    for name, path in named:
        try:
            yield name, path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"{path}: {error.strerror or error}", next_step="give files that can be read"
            ) from error


def _exit_status(path: Path) -> int | None:
    """fio's exit status from the file beside `path`; None when there is none."""
    beside = path.with_suffix(".rc")
    try:
        return None if beside == path else int(beside.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{beside}: not an exit status", next_step="write fio's exit status, or remove it"
        ) from error


def _rendered(run: RunResult, form: str) -> str:
    if form == "json":
        return write_result(run).decode()
    return render_hcibench(run) if form == "hcibench" else render_text(run)


def _exit_code(run: RunResult) -> int:
    case = run.cases[0]
    if not case.received_workers:
        return EXIT_UNKNOWN
    return EXIT_GOOD if case.received_workers == case.expected_workers else EXIT_NO

"""`hcio compare`: a baseline against one or several candidates."""

from __future__ import annotations

import json
from pathlib import Path

import click

from orchestrator.cli.sides import load_side, runs_option
from orchestrator.compare import compare, exit_code
from orchestrator.contrast import Rules
from orchestrator.gate import CONFIDENCE
from orchestrator.metrics import METRICS, parse_metric
from orchestrator.report.compare import comparisons_document, render_comparisons, render_markdown
from orchestrator.statistics import BETWEEN_RUNS


class Share(click.ParamType[float]):
    """A percent from `least` to below 100, as a share: `5%`, `5` and `0.5%`."""

    name = "percent"

    def __init__(self, least: float = 0.0) -> None:
        self.least = least

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        try:
            share = float(str(value).strip().removesuffix("%")) / 100
        except ValueError:
            share = -1.0
        if not self.least <= share < 1:
            example = "95%" if self.least else "5%"
            text = f"{value!r} is not a percent from {self.least:.0%} to 100%"
            self.fail(f"{text}; write it like {example}", param, ctx)
        return share


@click.command("compare")
@click.argument("baseline")
@click.argument("candidates", nargs=-1, required=True)
@click.option("--metric", "metrics", multiple=True, help="Only these, like read.p99; repeatable.")
@click.option("--min-effect", type=Share(), default="3%", help="Changes below don't count. [3%]")
@click.option(
    "--threshold",
    type=Share(),
    help="A change of your own that counts even where there are too few runs for an interval.",
)
@click.option(
    "--confidence",
    type=Share(least=0.5),
    default=CONFIDENCE,
    help="Of every interval, in percent. [95%]",
)
@click.option(
    "--between-runs",
    type=Share(),
    default=BETWEEN_RUNS,
    help="Spread from run to run, for comparing one run with one run. [3%]",
)
@click.option("--anyway", is_flag=True, help="Compare cases whose workload differs, too.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@runs_option
def compare_command(
    baseline: str,
    candidates: tuple[str, ...],
    metrics: tuple[str, ...],
    min_effect: float,
    threshold: float | None,
    confidence: float,
    between_runs: float,
    anyway: bool,
    form: str,
    as_json: bool,
    runs: Path,
) -> int:
    """Compare CANDIDATES with BASELINE, case by case and figure by figure.

    Each is a run (an id, a path, `latest`), a result.json, or several runs of the same thing
    written A1,A2,A3. Exits with 1 when a figure is worse or a case is missing, with 3 when
    something could not be told.
    """
    rules = Rules(
        metrics=tuple(parse_metric(name) for name in metrics) or METRICS,
        min_effect=min_effect,
        confidence=confidence,
        between_runs=between_runs,
        threshold=threshold,
        anyway=anyway,
    )
    base = load_side(baseline, runs)
    comparisons = [compare(base, load_side(name, runs), rules) for name in candidates]
    if as_json or form == "json":
        click.echo(json.dumps(comparisons_document(comparisons), indent=1, allow_nan=False))
    elif form == "markdown":
        click.echo(render_markdown(comparisons), nl=False)
    else:
        click.echo(render_comparisons(comparisons), nl=False)
    return exit_code(comparisons)

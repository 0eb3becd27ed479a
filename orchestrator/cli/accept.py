"""`hcio accept`: acceptance rules held against a run."""

from __future__ import annotations

import json
from pathlib import Path

import click

from orchestrator.acceptance import (
    acceptance_exit_code,
    judge_rules,
    needs_baseline,
    parse_rules,
)
from orchestrator.cli.sides import load_run, load_side, runs_option
from orchestrator.compare import compare
from orchestrator.contrast import Rules
from orchestrator.errors import ConfigError
from orchestrator.report.acceptance import findings_document, render_findings


@click.command("accept")
@click.argument("reference", metavar="RUN")
@click.option("--rule", "texts", multiple=True, help="A rule; repeatable. Else the suite's own.")
@click.option("--baseline", help="The run that `vs baseline` means.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@runs_option
def accept_command(
    reference: str, texts: tuple[str, ...], baseline: str | None, as_json: bool, runs: Path
) -> int:
    """Hold acceptance rules against RUN (or repeats of it: A1,A2,A3).

    Exits with 1 when a rule failed, with 3 when one could not be told.
    """
    if not texts:
        _, plan, _ = load_run(reference.split(",")[0], runs)
        accept = plan.get("accept")
        texts = tuple(str(text) for text in accept) if isinstance(accept, list) else ()
    if not texts:
        raise ConfigError(
            f"{reference}: neither its suite nor --rule has an acceptance rule",
            next_step="give --rule 'iops >= 50000'",
        )
    rules = parse_rules(texts, reference)
    if needs_baseline(rules) and baseline is None:
        raise ConfigError(
            "a rule speaks of the baseline, and none is named", next_step="give --baseline RUN"
        )
    side = load_side(reference, runs)
    comparison = None
    if baseline is not None:
        metrics = tuple(dict.fromkeys(rule.metric for rule in rules if rule.relative))
        comparison = compare(load_side(baseline, runs), side, Rules(metrics=metrics))
    cases = {case: [seen.result for seen in repeats] for case, repeats in side.cases.items()}
    findings = judge_rules(rules, cases, comparison)
    if as_json:
        click.echo(json.dumps(findings_document(findings), indent=1, allow_nan=False))
    else:
        click.echo(render_findings(findings), nl=False)
    return acceptance_exit_code(findings)

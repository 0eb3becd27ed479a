"""What is printed of a run, and its exit code: table, repeats, acceptance, a search's curve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from orchestrator.acceptance import (
    Finding,
    acceptance_exit_code,
    judge_rules,
    parse_rules,
)
from orchestrator.agenda import Searching, agenda_of
from orchestrator.cli.sides import load_side
from orchestrator.compare import Comparison, Side, compare
from orchestrator.contrast import Rules
from orchestrator.errors import EXIT_BROKEN, EXIT_GOOD, EXIT_NO, EXIT_UNKNOWN
from orchestrator.plan import Plan
from orchestrator.repeats import group_repeats
from orchestrator.repetition import Reached, Spread, gates, spreads
from orchestrator.report.acceptance import findings_document, render_findings
from orchestrator.report.repetition import render_gates, render_spreads
from orchestrator.report.search import full_length_cases, render_search, search_document
from orchestrator.report.text import render_text
from orchestrator.results import CaseResult, RunResult, write_result
from orchestrator.store import RunFolder


def present(
    plan: Plan,
    folder: RunFolder,
    result: RunResult,
    *,
    baseline: Side | None = None,
    as_json: bool = False,
) -> int:
    """Print a run's result with what its plan asks of it; the worst exit code of both.

    The folder must hold the result already: the comparison with `baseline` reads it from there.
    """
    if plan.sought is not None:
        return _present_search(plan, folder, result, as_json=as_json)
    repeated, reached = spreads(result.cases), gates(result.cases, plan.repeats)
    findings = run_findings(plan, folder, result, baseline)
    if as_json:
        more: dict[str, Any] = {}
        if repeated:
            more["repeats"] = msgspec.to_builtins(repeated)
        if reached:
            more["gate"] = msgspec.to_builtins(reached)
        if findings:
            more["acceptance"] = findings_document(findings)
        click.echo(_document(result, more), nl=False)
    else:
        click.echo("\n".join(_parts(result, repeated, reached, findings)), nl=False)
    return worst((exit_code(result), acceptance_exit_code(findings)))


def _present_search(plan: Plan, folder: RunFolder, result: RunResult, *, as_json: bool) -> int:
    """The answer, the curve, and what the full-length runs measured, with their verdicts.

    An answer is as good as the case that confirmed it: its verdict moves the exit code.
    """
    searching = agenda_of(plan)
    assert isinstance(searching, Searching)  # noqa: S101 - the plan has what it looks for
    found = searching.outcome(plan, folder)
    if as_json:
        document = search_document(found, searching.settings)
        click.echo(_document(result, {"search": document}), nl=False)
    else:
        click.echo(render_search(found, searching.settings), nl=False)
        if shown := tuple(c for c in result.cases if c.case in full_length_cases(found)):
            click.echo("\n" + render_text(replace(result, cases=shown)), nl=False)
    if result.cases and all(case.outcome == "broken" for case in result.cases):
        return EXIT_BROKEN
    if found.best is not None:
        return exit_code(
            replace(result, cases=tuple(c for c in result.cases if c.case == found.best.case))
        )
    return EXIT_NO if found.ending == "never met" else EXIT_UNKNOWN


def run_findings(
    plan: Plan, folder: RunFolder, result: RunResult, baseline: Side | None
) -> tuple[Finding, ...]:
    """The suite's acceptance rules held against the run; none when it has no rules."""
    rules = parse_rules(plan.accept, f"suite {plan.suite}")
    comparison: Comparison | None = None
    if baseline is not None and any(rule.relative for rule in rules):
        metrics = tuple(dict.fromkeys(rule.metric for rule in rules if rule.relative))
        candidate = load_side(folder.id, folder.path.parent)
        comparison = compare(baseline, candidate, Rules(metrics=metrics))
    return judge_rules(rules, group_repeats(result.cases), comparison)


def _parts(
    result: RunResult,
    repeated: tuple[Spread, ...],
    reached: tuple[Reached, ...],
    findings: tuple[Finding, ...],
) -> Iterator[str]:
    yield render_text(result)
    if repeated:
        yield render_spreads(repeated)
    if reached:
        yield render_gates(reached)
    if findings:
        yield render_findings(findings)


def _document(result: RunResult, more: Mapping[str, Any]) -> str:
    """The result's own JSON, with more keys."""
    text = write_result(result)
    if not more:
        return text.decode()
    whole = msgspec.json.encode(msgspec.json.decode(text) | more)
    return msgspec.json.format(whole, indent=1).decode() + "\n"


def exit_code(result: RunResult) -> int:
    """The worst of the cases': broken 4, failed or invalid 1, unknown 3, good 0."""
    return worst(_case_code(case) for case in result.cases)


def worst(codes: Iterable[int]) -> int:
    """The worst of several exit codes: 4, then 1, then 3, then 0."""
    found = set(codes)
    return next((c for c in (EXIT_BROKEN, EXIT_NO, EXIT_UNKNOWN) if c in found), EXIT_GOOD)


def _case_code(case: CaseResult) -> int:
    if case.outcome == "broken":
        return EXIT_BROKEN
    if case.outcome in ("failed", "skipped") or case.verdict.value == "invalid":
        return EXIT_NO
    return EXIT_UNKNOWN if case.verdict.value == "unknown" else EXIT_GOOD

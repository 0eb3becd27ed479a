"""What the commands that walk a run share: options, the walk itself, its report and exit code."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import click

from orchestrator.catalog import parse_document
from orchestrator.cli.display import open_display
from orchestrator.cli.lab import RUN_PATIENCE_S, Opener, make_lab
from orchestrator.engine import AT_ONCE, Fleet
from orchestrator.errors import (
    EXIT_BROKEN,
    EXIT_GOOD,
    EXIT_INTERRUPTED,
    EXIT_NO,
    EXIT_UNKNOWN,
)
from orchestrator.inventory import Inventory
from orchestrator.plan import Plan
from orchestrator.report.text import render_text
from orchestrator.results import CaseResult, RunResult, write_result
from orchestrator.runner import Conductor, Interrupted, Mode
from orchestrator.store import RunFolder


def read_plan(folder: RunFolder) -> Plan:
    """The plan of a run, from its folder."""
    return parse_document(folder.read_plan(), str(folder.path / "plan.yaml")).validate(Plan)


def open_fleet(
    plan: Plan,
    report: Callable[[Any], None],
    forks: int = AT_ONCE,
    patience_s: float = RUN_PATIENCE_S,
) -> Fleet:
    """The plan's workers, not yet connected."""
    opener = Opener(
        Inventory(workers=plan.workers, ssh=plan.ssh),
        local=plan.local,
        report=report,
        patience_s=patience_s,
    )
    return Fleet(plan, opener, at_once=forks)


def conduct(
    plan: Plan,
    folder: RunFolder,
    mode: Mode,
    *,
    poll: float | None,
    forks: int,
    as_json: bool,
) -> int:
    """Walk a run, print its report, return the exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    interrupted = False
    with open_display() as display:
        fleet = open_fleet(plan, display, forks)
        conductor = Conductor(plan, folder, fleet, make_lab(display, poll), mode)
        try:
            result = conductor.conduct()
        except Interrupted as stop:
            result, interrupted = stop.result, True
    if result is None:
        again = "hcio collect" if mode.detach or not mode.start else "hcio resume"
        click.echo(f"left running; later: {again} {plan.run}", err=True)
        return EXIT_GOOD if mode.detach else EXIT_UNKNOWN
    click.echo(write_result(result).decode() if as_json else render_text(result), nl=False)
    return EXIT_INTERRUPTED if interrupted else exit_code(result)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def exit_code(result: RunResult) -> int:
    """The worst of the cases': broken 4, failed or invalid 1, unknown 3, good 0."""
    codes = {_case_code(case) for case in result.cases}
    for code in (EXIT_BROKEN, EXIT_NO, EXIT_UNKNOWN):
        if code in codes:
            return code
    return EXIT_GOOD


def _case_code(case: CaseResult) -> int:
    if case.outcome == "broken":
        return EXIT_BROKEN
    if case.outcome in ("failed", "skipped") or case.verdict.value == "invalid":
        return EXIT_NO
    return EXIT_UNKNOWN if case.verdict.value == "unknown" else EXIT_GOOD

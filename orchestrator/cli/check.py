"""`hcio check`: whether a suite could run on these workers, every check with its next step."""

from __future__ import annotations

import json
from pathlib import Path

import click

from orchestrator import __version__
from orchestrator.catalog import load_inventory
from orchestrator.cli.conducting import open_fleet
from orchestrator.cli.display import open_display
from orchestrator.cli.lab import CHECK_PATIENCE_S
from orchestrator.engine import AT_ONCE
from orchestrator.fitness import worker_checks
from orchestrator.inventory import Inventory
from orchestrator.plan import Plan
from orchestrator.preflight import exit_code, run_checks
from orchestrator.report.preflight import checks_document, render_checks
from orchestrator.suites import Policy, Thresholds


@click.command("check")
@click.option("-i", "--inventory", type=click.Path(path_type=Path, dir_okay=False), required=True)
@click.option("--forks", type=click.IntRange(1, 1024), default=AT_ONCE, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check_command(inventory: Path, forks: int, as_json: bool) -> int:
    """Check every worker: SSH, fio and its engines, targets, free space, clocks.

    Writes nothing on a target. Exits with 1 when a check says no, with 3 when one could not run.
    """
    found = load_inventory(inventory)
    plan = checking_plan(found)
    with open_display() as display:
        fleet = open_fleet(plan, display, forks, CHECK_PATIENCE_S)
        try:
            checks = run_checks(worker_checks(fleet), parallel=1)
        finally:
            fleet.close()
    click.echo(json.dumps(checks_document(checks), indent=1) if as_json else render_checks(checks))
    return exit_code(checks)


def checking_plan(inventory: Inventory) -> Plan:
    """A plan without cases, to speak to the workers with."""
    return Plan(
        run="check",
        hcio=__version__,
        suite="check",
        seed=0,
        prepare="none",
        fast_fail=0,
        pause=0,
        policy=Policy(),
        thresholds=Thresholds(),
        cases=(),
        workers=inventory.workers,
        ssh=inventory.ssh,
        templates={},
    )

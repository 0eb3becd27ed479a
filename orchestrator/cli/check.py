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
from orchestrator.preflight import Check, exit_code, run_checks
from orchestrator.report.preflight import checks_document, render_checks
from orchestrator.suites import Policy, Thresholds


@click.command("check")
@click.option("-i", "--inventory", type=click.Path(path_type=Path, dir_okay=False), required=True)
@click.option("--forks", type=click.IntRange(1, 1024), default=AT_ONCE, show_default=True)
@click.option("--deep", is_flag=True, help="vSphere: put a tiny worker on every host, reach it.")
@click.option("--clear-cache", is_flag=True, help="vSphere: the suite clears the cache.")
@click.option(
    "--prepare",
    type=click.Choice(["none", "zero", "random", "compressible"]),
    default="random",
    show_default=True,
    help="vSphere: how the suite fills disks.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    help="vSphere: the deployment's folder.  [default: deployments/NAME]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check_command(
    inventory: Path,
    forks: int,
    deep: bool,
    clear_cache: bool,
    prepare: str,
    state: Path | None,
    as_json: bool,
) -> int:
    """Check the vSphere cluster, if there is one, and every worker that the inventory lists.

    Of workers: SSH, fio and its engines, targets, free space, clocks. Writes nothing on a target.
    Exits with 1 when a check says no, with 3 when one could not run.
    """
    found = load_inventory(inventory)
    checks: list[Check] = []
    if found.vsphere is not None:
        # Only here: the vSphere library is slow to load.
        from orchestrator.cli.inspecting import inspect_cluster
        from orchestrator.inspection import Intent

        section = found.clear_cache
        own = section is not None and section.command is not None
        intent = Intent(clear_cache=clear_cache, own_command=own, prepare=prepare)
        checks += inspect_cluster(found.vsphere, intent, folder=state, deep=deep)
    if found.workers:
        checks += check_workers(found, forks)
    click.echo(json.dumps(checks_document(checks), indent=1) if as_json else render_checks(checks))
    return exit_code(checks)


def check_workers(inventory: Inventory, forks: int) -> list[Check]:
    """The checks that need only SSH, on every worker of the inventory."""
    with open_display() as display:
        fleet = open_fleet(checking_plan(inventory), display, forks, CHECK_PATIENCE_S)
        try:
            return run_checks(worker_checks(fleet), parallel=1)
        finally:
            fleet.close()


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

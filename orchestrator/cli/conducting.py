"""What the commands that walk a run share: options, the walk itself, its report and exit code."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from orchestrator.agenda import plan_so_far
from orchestrator.catalog import parse_document
from orchestrator.cli.display import open_display
from orchestrator.cli.lab import RUN_PATIENCE_S, Opener, make_lab
from orchestrator.cli.presenting import present
from orchestrator.compare import Side
from orchestrator.engine import AT_ONCE, Fleet
from orchestrator.errors import EXIT_GOOD, EXIT_INTERRUPTED, EXIT_UNKNOWN, StoreError
from orchestrator.inventory import Inventory
from orchestrator.plan import Plan
from orchestrator.results import RunResult
from orchestrator.runner import Conductor, Interrupted
from orchestrator.store import RunFolder
from orchestrator.turn import Mode

if TYPE_CHECKING:
    from orchestrator.cli.attending import Staff


def read_plan(folder: RunFolder) -> Plan:
    """The plan of a run as it stands: a search's with the probes decided so far. StoreError for
    an imported run, which has none."""
    document = parse_document(folder.read_plan(), str(folder.path / "plan.yaml"))
    if isinstance(document.data, dict) and "imported" in document.data:
        raise StoreError(
            folder.path,
            "this run was imported: it has results, and no workers",
            next_step="`hcio report`, `compare`, `matrix` and `export` work on it",
        )
    written = document.validate(Plan)
    return plan_so_far(written, folder.events())


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
    baseline: Side | None = None,
) -> int:
    """Walk a run, print its report, return the exit code. `baseline` is what the suite's acceptance
    rules mean."""
    walked = walk(plan, folder, mode, poll=poll, forks=forks)
    if walked.result is None:
        again = "hcio collect" if mode.detach or not mode.start else "hcio resume"
        click.echo(f"left running; later: {again} {plan.run}", err=True)
        return EXIT_GOOD if mode.detach else EXIT_UNKNOWN
    code = present(walked.plan, folder, walked.result, baseline=baseline, as_json=as_json)
    if plan.deployment is not None and not walked.interrupted:
        from orchestrator.cli.deploying import end_deployment

        end_deployment(plan)
    return EXIT_INTERRUPTED if walked.interrupted else code


def _staff(plan: Plan, mode: Mode) -> Staff | None:
    """Who attends; None, and nothing loaded for it, where the plan needs nobody."""
    if plan.vsphere is None and not plan.clear_cache:
        return None
    from orchestrator.cli.attending import Staff

    return Staff(plan, mode)


@dataclass(frozen=True)
class Walked:
    """The plan as it stands after a walk, and the result; None when it was left running."""

    plan: Plan
    result: RunResult | None
    interrupted: bool = False


def walk(plan: Plan, folder: RunFolder, mode: Mode, *, poll: float | None, forks: int) -> Walked:
    """Walk a run to its end, or until Ctrl-C; a SIGTERM is taken for one."""
    signal.signal(signal.SIGTERM, _interrupt)
    staff = _staff(plan, mode)
    with open_display() as display:
        fleet, lab = open_fleet(plan, display, forks), make_lab(display, poll)
        attendants = staff.attendants(fleet, lab) if staff is not None else ()
        conductor = Conductor(plan, folder, fleet, lab, mode, attendants)
        try:
            result = conductor.conduct()
            return Walked(conductor.plan, result)
        except Interrupted as stop:
            return Walked(conductor.plan, stop.result, interrupted=True)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt

"""What can be done with a run that exists: list, status, resume, collect, stop, clean, report."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from orchestrator.assessment import assess_run
from orchestrator.cli.conducting import (
    conduct,
    open_fleet,
    read_plan,
)
from orchestrator.cli.display import open_display
from orchestrator.cli.options import baseline_option, options_of_a_walk, runs_option
from orchestrator.cli.presenting import exit_code, present
from orchestrator.cli.sides import load_baseline, load_run
from orchestrator.engine import AT_ONCE, Fleet
from orchestrator.errors import EXIT_BROKEN, EXIT_GOOD, EXIT_UNKNOWN, HcioError, StoreError
from orchestrator.journal import CASE_ARMING, finished_cases
from orchestrator.plan import Plan, assignments
from orchestrator.report.hcibench import render_hcibench
from orchestrator.report.imported import render_imported
from orchestrator.report.text import render_text
from orchestrator.results import RunResult, read_result, write_result
from orchestrator.store import RESULT, Event, RunFolder, RunStore
from orchestrator.turn import Mode

F = TypeVar("F", bound=Callable[..., Any])


def _run_argument(function: F) -> F:
    """RUN: an id (or its beginning), a path, or `latest`; and `--runs`."""
    return runs_option(click.argument("run", default="latest")(function))


_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command("resume")
@_run_argument
@options_of_a_walk
@click.option("--keep", is_flag=True, help="Leave files and targets on the workers.")
@baseline_option
@_json_option
def resume_command(
    run: str,
    runs: Path,
    poll: float | None,
    forks: int,
    keep: bool,
    baseline: str | None,
    as_json: bool,
) -> int:
    """Take RUN up where it stands: join what runs on the workers, do the cases that are left.

    No case is run twice. A case that Ctrl-C stopped stays stopped.
    """
    folder = RunStore(runs).find(run)
    return conduct(
        read_plan(folder),
        folder,
        Mode(keep=keep),
        poll=poll,
        forks=forks,
        as_json=as_json,
        baseline=load_baseline(baseline, runs, folder.path),
    )


@click.command("collect")
@_run_argument
@options_of_a_walk
@click.option("--wait/--no-wait", default=True, help="Wait for cases that still run.")
@click.option("--keep", is_flag=True, help="Leave files and targets on the workers.")
@baseline_option
@_json_option
def collect_command(
    run: str,
    runs: Path,
    poll: float | None,
    forks: int,
    wait: bool,
    keep: bool,
    baseline: str | None,
    as_json: bool,
) -> int:
    """Fetch what RUN left on its workers and report it; starts nothing.

    For a run that was left (--detach, a lost controller). Exits with 3 when cases still run, or
    were never started.
    """
    folder = RunStore(runs).find(run)
    mode = Mode(start=False, wait=wait, keep=keep)
    return conduct(
        read_plan(folder),
        folder,
        mode,
        poll=poll,
        forks=forks,
        as_json=as_json,
        baseline=load_baseline(baseline, runs, folder.path),
    )


@click.command("report")
@_run_argument
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "hcibench"]),
    default="text",
    show_default=True,
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@baseline_option
def report_command(run: str, runs: Path, form: str, as_json: bool, baseline: str | None) -> int:
    """Report RUN from its folder alone; result.json is made anew from raw/."""
    folder = RunStore(runs).find(run)
    result, data, _ = load_run(run, runs) if folder.read_result() else (None, {}, None)
    if result is not None and "imported" in data:
        click.echo(_rendered(result, "json" if as_json else form), nl=False)
        return exit_code(result)
    plan = read_plan(folder)
    result = assess_run(plan, folder)
    folder.write(RESULT, write_result(result).decode())
    if not result.cases:
        click.echo(f"run {plan.run}: no case is over yet", err=True)
        return EXIT_UNKNOWN
    if form == "hcibench" and not as_json:
        click.echo(render_hcibench(result), nl=False)
        return exit_code(result)
    base = load_baseline(baseline, runs, folder.path)
    return present(plan, folder, result, baseline=base, as_json=as_json or form == "json")


def _rendered(result: RunResult, form: str) -> str:
    if form == "json":
        return write_result(result).decode()
    if form == "hcibench":
        return render_hcibench(result)
    return render_text(result) + render_imported(result)


@click.command("list")
@runs_option
@_json_option
def list_command(runs: Path, as_json: bool) -> int:
    """List the runs there are, the newest last, with how far each came."""
    rows = [_row(RunFolder(path)) for path in RunStore(runs).runs()]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return EXIT_GOOD
    if not rows:
        click.echo(f"no runs below {runs}", err=True)
    for row in rows:
        outcomes = ", ".join(f"{count} {word}" for word, count in row["outcomes"].items())
        click.echo(f"{row['run']}  {row['suite']}  {row['state']}  {outcomes or 'no case over'}")
    return EXIT_GOOD


def _row(folder: RunFolder) -> dict[str, Any]:
    """One run: its suite, the state that its journal ends in, its cases by outcome."""
    try:
        plan, events = read_plan(folder), folder.events()
    except StoreError as error:
        if (row := _imported_row(folder)) is not None:
            return row
        why = error.what.removeprefix(f"{folder.path}: ")
        return {"run": folder.id, "suite": "?", "state": why, "outcomes": {}}
    outcomes = Counter(finished_cases(events).values())
    return {
        "run": folder.id,
        "suite": plan.suite,
        "state": journal_state(events),
        "cases": len(plan.cases),
        "outcomes": outcomes,
    }


def _imported_row(folder: RunFolder) -> dict[str, Any] | None:
    """An imported run by its result; None for any other."""
    text = folder.read_result()
    try:
        result = None if text is None else read_result(text.encode(), folder.id)
    except HcioError:
        return None
    if result is None or "imported" not in result.provenance:
        return None
    return {
        "run": folder.id,
        "suite": f"imported from {result.provenance['imported']}",
        "state": "finished",
        "cases": len(result.cases),
        "outcomes": Counter(case.outcome for case in result.cases),
    }


def journal_state(events: list[Event]) -> str:
    """One word for where a run stands, by its journal."""
    words = {
        "run.finished": "finished",
        "run.cleaned": "finished",
        "run.interrupted": "interrupted",
        "run.detached": "left running",
        "run.broken": "broken",
    }
    if not events:
        return "not started"
    return words.get(events[-1].name, "open")


@click.command("status")
@_run_argument
@_json_option
def status_command(run: str, runs: Path, as_json: bool) -> int:
    """How RUN stands: each case by the journal, and what its workers say of those not over."""
    folder = RunStore(runs).find(run)
    plan, events = read_plan(folder), folder.events()
    over = finished_cases(events)
    open_cases = [c.id for c in plan.cases if c.id not in over and _was_armed(events, c.id)]
    states = _ask(plan, open_cases) if open_cases else {}
    document = {
        "run": plan.run,
        "state": journal_state(events),
        "cases": {
            case.id: {
                "outcome": over.get(case.id),
                "workers": states.get(case.id, {}),
            }
            for case in plan.cases
        },
    }
    click.echo(json.dumps(document, indent=1) if as_json else _status_text(document))
    return EXIT_GOOD


def _was_armed(events: list[Event], case: str) -> bool:
    return any(e.name == CASE_ARMING and e.fields["case"] == case for e in events)


def _ask(plan: Plan, cases: list[str]) -> dict[str, dict[str, str]]:
    """The state of cases on their workers, in one word each; errors are answers too."""
    with open_display() as display:
        fleet = open_fleet(plan, display)
        try:
            fleet.mark_broken(fleet.connect().errors)
            return {case: _case_states(plan, fleet, case) for case in cases}
        finally:
            fleet.close()


def _case_states(plan: Plan, fleet: Fleet, case: str) -> dict[str, str]:
    names = [part.worker.name for part in assignments(plan, plan.case(case))]
    answers = fleet.poll(fleet.alive(names), case)
    found = {name: state.state for name, state in answers.results.items()}
    found |= {name: f"no answer: {error.what}" for name, error in answers.errors.items()}
    return found | {name: f"no answer: {why}" for name, why in fleet.broken(names).items()}


def _status_text(document: dict[str, Any]) -> str:
    lines = [f"run {document['run']}: {document['state']}"]
    for case, row in document["cases"].items():
        counts: dict[str, list[str]] = {}
        for name, state in row["workers"].items():
            counts.setdefault(state, []).append(name)
        said = "; ".join(f"{len(names)} {state}" for state, names in counts.items())
        lines.append(f"  {case}: {row['outcome'] or said or 'waiting'}")
    return "\n".join(lines)


@click.command("stop")
@_run_argument
def stop_command(run: str, runs: Path) -> int:
    """End every case of RUN on its workers; fio writes what it has. `hcio collect` fetches it."""
    folder = RunStore(runs).find(run)
    plan, events = read_plan(folder), folder.events()
    over = finished_cases(events)
    cases = [c.id for c in plan.cases if c.id not in over and _was_armed(events, c.id)]
    return _on_all(plan, lambda fleet: _stop(fleet, cases))


def _stop(fleet: Fleet, cases: list[str]) -> dict[str, str]:
    errors: dict[str, str] = {}
    for case in cases:
        answers = fleet.stop(fleet.alive(), case)
        states = sorted({state.state for state in answers.results.values()})
        click.echo(f"{case}: {', '.join(states) or 'nobody answered'}")
        errors |= {name: error.what for name, error in answers.errors.items()}
    if not cases:
        click.echo("nothing to stop")
    return errors


@click.command("clean")
@_run_argument
@click.option("--force", is_flag=True, help="Stop what still runs, and drop what isn't collected.")
def clean_command(run: str, runs: Path, force: bool) -> int:
    """Remove what RUN left on its workers: its folder, and the files that hcio made as targets.

    The run's own folder here stays. Refused while results are not collected, unless --force.
    """
    folder = RunStore(runs).find(run)
    plan, events = read_plan(folder), folder.events()
    over = finished_cases(events)
    left = [c.id for c in plan.cases if c.id not in over and _was_armed(events, c.id)]
    if left and not force:
        raise StoreError(
            folder.path,
            f"not collected yet: {', '.join(left)}",
            next_step="`hcio collect` fetches it; --force throws it away",
        )

    def clean(fleet: Fleet) -> dict[str, str]:
        if left:
            _stop(fleet, left)
        answers = fleet.clean(fleet.alive())
        removed = sum(answers.results.values())
        click.echo(f"cleaned {len(answers.results)} workers, {removed} target files removed")
        return {name: error.what for name, error in answers.errors.items()}

    restored = _restore_caches(plan, folder)
    code = _on_all(plan, clean)
    code = code or restored
    if code == EXIT_GOOD:
        with folder.conducting():
            folder.record("run.cleaned", left=[], at_s=time.time())
    return code


def _restore_caches(plan: Plan, folder: RunFolder) -> int:
    """Put back the cache settings that a crashed clearing left changed."""
    if not plan.clear_cache:
        return EXIT_GOOD
    from orchestrator.cli.attending import restore_caches

    with folder.conducting():
        restored = restore_caches(plan, folder)
    if restored is None:
        return EXIT_GOOD
    click.echo(f"cache settings: {restored.why}", err=not restored.done)
    return EXIT_GOOD if restored.done else EXIT_BROKEN


def _on_all(plan: Plan, action: Callable[[Fleet], dict[str, str]]) -> int:
    """Do something on every worker; what fails is named, and makes the exit code 4."""
    with open_display() as display:
        fleet = open_fleet(plan, display, AT_ONCE)
        try:
            fleet.mark_broken(fleet.connect().errors)
            errors = action(fleet) | fleet.broken()
        finally:
            fleet.close()
    for name, error in sorted(errors.items()):
        click.echo(f"{name}: {error}", err=True)
    return EXIT_BROKEN if errors else EXIT_GOOD

"""`hcio campaign`: the same suites over several configurations, resumable, ending in a matrix."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from orchestrator.acceptance import acceptance_exit_code
from orchestrator.campaign import (
    Campaign,
    Record,
    Step,
    matrix_rows,
    next_step,
    plan_steps,
    runs_of,
)
from orchestrator.catalog import read_document
from orchestrator.cli.conducting import read_plan
from orchestrator.cli.options import options_of_a_walk, runs_option
from orchestrator.cli.presenting import worst
from orchestrator.cli.standing import Standing, existing, renewed, standing
from orchestrator.cli.steps import Place, Steps, step_plan
from orchestrator.errors import EXIT_BROKEN, EXIT_GOOD, EXIT_INTERRUPTED, EXIT_UNKNOWN
from orchestrator.logbook import Logbook
from orchestrator.matrix import build_matrix
from orchestrator.plan import Plan, expected_seconds
from orchestrator.report.acceptance import findings_document, render_findings
from orchestrator.report.matrix import matrix_document, render_matrix, render_matrix_markdown
from orchestrator.store import RunStore
from orchestrator.units import format_duration

_file = click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
_form = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
)
_json = click.option("--json", "as_json", is_flag=True, help="The same as --format json.")


@click.group("campaign")
def campaign_command() -> None:
    """Run the same suites over several configurations, and print the matrix of them.

    A configuration is a number of workers or targets, an inventory of its own, or fields of the
    profiles. What was done is kept in runs/campaigns/NAME: run it again and it goes on.
    """


@campaign_command.command("run")
@_file
@click.option(
    "-i",
    "--inventory",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The workers, where a configuration names none of its own.",
)
@click.option("--local", is_flag=True, help="fio on this machine, on a scratch file of its own.")
@click.option("--target", "targets", multiple=True, help="With --local: a file or device to use.")
@click.option("--size", help="With --local: the target's size, like 256MiB.")
@click.option("--profiles", type=click.Path(path_type=Path), help="A folder of your own profiles.")
@click.option("--dry-run", is_flag=True, help="Print the steps that are left; touch nothing.")
@click.option("--retry", is_flag=True, help="Carry out failed and broken steps once more.")
@_form
@_json
@runs_option
@options_of_a_walk
def run_campaign(
    file: Path,
    inventory: Path | None,
    local: bool,
    targets: tuple[str, ...],
    size: str | None,
    profiles: Path | None,
    dry_run: bool,
    retry: bool,
    form: str,
    as_json: bool,
    runs: Path,
    poll: float | None,
    forks: int,
) -> int:
    """Carry out the steps of FILE that are left, each a run of its own, and print the matrix.

    Every step is planned before the first one runs. A step that was left in the middle, or that
    the lab broke, is resumed; cases that Ctrl-C ended are measured again. A failed step has had
    its turn: --retry measures what failed again. Workers that vSphere makes are changed between
    steps as their configurations say, and removed at the end where the inventory says so. Exits
    with the worst of the steps' codes.
    """
    campaign = read_document(file).validate(Campaign)
    place = Place(inventory, local, targets, size, profiles)
    book, store = Logbook(runs, campaign.name), RunStore(runs)
    plans = {step.key: step_plan(step, place) for step in plan_steps(campaign)}
    if dry_run:
        click.echo(_steps_text(campaign, settled(campaign, book.records(), store), plans), nl=False)
        return EXIT_GOOD
    with book.held():
        for record in _renewed(campaign, book.records(), store):
            book.add(record)
        if not _carry_out(campaign, Steps(place, book, store, poll, forks), retry=retry):
            click.echo("interrupted; the same command goes on where this stopped", err=True)
            return EXIT_INTERRUPTED
    _end_deployments(book.records(), store)
    return show(campaign, book.records(), store, "json" if as_json else form)


def _carry_out(campaign: Campaign, steps: Steps, *, retry: bool) -> bool:
    """Carry out what is left; False when the user interrupted it."""
    last = {record.step: record for record in steps.book.records()}
    bad = [record for record in last.values() if record.outcome in ("failed", "broken")]
    once_more = {record.step for record in bad if retry or record.run is None}
    while True:
        records = [r for r in steps.book.records() if r.step not in once_more]
        following = next_step(campaign, records)
        if following is None:
            return True
        step, run = following
        once_more.discard(step.key)
        if not steps.carry_out(step, run):
            return False


def _end_deployments(records: Sequence[Record], store: RunStore) -> None:
    """Remove, or say that they are kept, the workers that the steps' runs were deployed with."""
    ends: dict[str, Plan] = {}
    for record in records:
        folder = existing(store, record.run)
        plan = read_plan(folder) if folder is not None else None
        if plan is not None and plan.deployment is not None:
            ends[plan.deployment.folder] = plan
    for plan in ends.values():
        from orchestrator.cli.deploying import end_deployment  # loads the vSphere library

        end_deployment(plan)


@campaign_command.command("status")
@_file
@_form
@_json
@runs_option
def status_of_campaign(file: Path, form: str, as_json: bool, runs: Path) -> int:
    """How far FILE's campaign is, step by step, and its matrix so far."""
    campaign = read_document(file).validate(Campaign)
    store = RunStore(runs)
    records = settled(campaign, Logbook(runs, campaign.name).records(), store)
    if form == "text" and not as_json:
        click.echo(_steps_text(campaign, records, {}))
    return show(campaign, records, store, "json" if as_json else form)


def settled(campaign: Campaign, records: Sequence[Record], store: RunStore) -> list[Record]:
    """The records, with those of broken steps whose runs `hcio resume` ended since."""
    ended = [r for r in _renewed(campaign, records, store) if r.outcome != "running"]
    return [*records, *ended]


def _renewed(campaign: Campaign, records: Sequence[Record], store: RunStore) -> list[Record]:
    found = (renewed(step, records, store) for step in plan_steps(campaign))
    return [record for record in found if record is not None]


def show(campaign: Campaign, records: Sequence[Record], store: RunStore, form: str) -> int:
    """Print the matrix, and rules that didn't hold; the worst code of the steps, 3 for one that
    isn't carried out yet."""
    last = {record.step: record for record in records}
    stands = {step.key: standing(step, records, store) for step in plan_steps(campaign)}
    rows = {key: found.cases for key, found in stands.items()}
    matrix = build_matrix(matrix_rows(campaign, rows))
    code = worst(_step_code(stands[step.key], last.get(step.key)) for step in plan_steps(campaign))
    if form == "json":
        steps = [_step_document(step, records, stands[step.key]) for step in plan_steps(campaign)]
        document = {**matrix_document(matrix), "campaign": campaign.name, "exit_code": code}
        click.echo(json.dumps({**document, "steps": steps}, indent=1, allow_nan=False))
    elif form == "markdown":
        click.echo(render_matrix_markdown(matrix), nl=False)
    else:
        click.echo(render_matrix(matrix) + _rules_text(campaign, stands), nl=False)
    _say_bad(campaign, last)
    return code


def _step_code(found: Standing, record: Record | None) -> int:
    if record is None or record.outcome == "running":
        return EXIT_UNKNOWN
    return EXIT_BROKEN if record.outcome == "broken" else found.exit_code


def _say_bad(campaign: Campaign, last: Mapping[str, Record]) -> None:
    """Name the steps that ended badly, and what to do about them."""
    for step in plan_steps(campaign):
        record = last.get(step.key)
        if record is not None and record.outcome in ("failed", "broken"):
            why = f"`hcio report {record.run}` says why, " if record.run else ""
            again = "`hcio campaign run --retry` measures it again"
            if record.run is None:
                again = "the same command tries again"
            click.echo(f"step {step.title}: {record.outcome}; {why}{again}", err=True)


def _rules_text(campaign: Campaign, stands: Mapping[str, Standing]) -> str:
    """The steps' acceptance rules, where one of a step's didn't pass."""
    texts = [
        f"\nacceptance of {step.title}:\n{render_findings(stands[step.key].findings)}"
        for step in plan_steps(campaign)
        if acceptance_exit_code(stands[step.key].findings) != EXIT_GOOD
    ]
    return "".join(texts)


def _step_document(step: Step, records: Sequence[Record], found: Standing) -> dict[str, object]:
    last = next((record for record in reversed(records) if record.step == step.key), None)
    document: dict[str, object] = {
        "step": step.title,
        "run": last.run if last else None,
        "runs": runs_of(step, records),
        "outcome": last.outcome if last else None,
    }
    if found.findings:
        document["acceptance"] = findings_document(found.findings)
    return document


def _steps_text(campaign: Campaign, records: Sequence[Record], plans: Mapping[str, Plan]) -> str:
    """One line a step: what it is, how it stands, how long it takes."""
    last = {record.step: record for record in records}
    lines = [f"campaign {campaign.name}: {len(plan_steps(campaign))} steps"]
    for step in plan_steps(campaign):
        record, plan = last.get(step.key), plans.get(step.key)
        said = f"{record.outcome}, {record.run or 'no run yet'}" if record else "waiting"
        if plan is not None and record is None:
            said += f", {len(plan.cases)} cases on {len(plan.workers)} workers, "
            said += format_duration(round(expected_seconds(plan)))
        lines.append(f"  {step.title}: {said}")
    return "\n".join(lines) + "\n"

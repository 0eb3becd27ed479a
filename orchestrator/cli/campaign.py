"""`hcio campaign`: the same suites over several configurations, resumable, ending in a matrix."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from orchestrator.campaign import (
    Campaign,
    Configuration,
    Outcome,
    Record,
    Step,
    configured_inventory,
    matrix_rows,
    next_step,
    plan_steps,
)
from orchestrator.catalog import dump_yaml, read_document
from orchestrator.cli.conducting import read_plan, walk
from orchestrator.cli.options import options_of_a_walk, runs_option
from orchestrator.cli.presenting import exit_code, worst
from orchestrator.cli.run import deployed, lab_of, plan_suite
from orchestrator.cli.sides import load_run
from orchestrator.errors import (
    EXIT_BROKEN,
    EXIT_GOOD,
    EXIT_INTERRUPTED,
    EXIT_NO,
    EXIT_UNKNOWN,
    BrokenError,
    ConfigError,
    IncompatibleResults,
    StoreError,
)
from orchestrator.inventory import Inventory
from orchestrator.logbook import Logbook
from orchestrator.matrix import build_matrix
from orchestrator.plan import Plan, expected_seconds
from orchestrator.report.matrix import matrix_document, render_matrix, render_matrix_markdown
from orchestrator.results import RunResult
from orchestrator.spec import NotEnoughWorkers
from orchestrator.store import RunFolder, RunStore
from orchestrator.turn import Mode
from orchestrator.units import format_duration

_CODES: Mapping[str, int] = {
    "done": EXIT_GOOD,
    "failed": EXIT_NO,
    "broken": EXIT_BROKEN,
    "running": EXIT_UNKNOWN,
}
_file = click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
_form = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
)


@click.group("campaign")
def campaign_command() -> None:
    """Run the same suites over several configurations, and print the matrix of them.

    A configuration is a number of workers or targets, an inventory of its own, or fields of the
    profiles. What was done is kept in runs/campaigns/NAME: run it again and it goes on.
    """


@dataclass(frozen=True)
class Place:
    """Where a campaign's workers are: the command line's options."""

    inventory: Path | None
    local: bool
    targets: tuple[str, ...]
    size: str | None
    profiles: Path | None

    def of(self, configuration: Configuration, run: str) -> Inventory:
        """The workers and targets of a configuration. ConfigError when there are too few."""
        own = configuration.inventory
        if own is not None:
            found = lab_of(Path(own), False, (), None, run)
        else:
            found = lab_of(self.inventory, self.local, self.targets, self.size, run)
        return configured_inventory(configuration, found)


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
@_form
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
    form: str,
    runs: Path,
    poll: float | None,
    forks: int,
) -> int:
    """Carry out the steps of FILE that are left, each a run of its own, and print the matrix.

    Every step is planned before the first one runs. A step that was left in the middle is
    resumed. Workers that vSphere makes are changed between steps as their configurations say, and
    removed at the end where the inventory says so. Exits with the worst of the steps' codes.
    """
    campaign = read_document(file).validate(Campaign)
    place = Place(inventory, local, targets, size, profiles)
    book, store = Logbook(runs, campaign.name), RunStore(runs)
    plans = {step.key: step_plan(step, place) for step in plan_steps(campaign)}
    if dry_run:
        click.echo(_steps_text(campaign, settled(book.records(), store), plans), nl=False)
        return EXIT_GOOD
    with book.held():
        for record in _changed(book.records(), store):
            book.add(record)
        while (following := next_step(campaign, book.records())) is not None:
            step, run = following
            if not _carry_out(step, run, place, book, store, poll=poll, forks=forks):
                return EXIT_INTERRUPTED
    _end_deployments(book.records(), store)
    return show(campaign, book.records(), runs, form)


def _end_deployments(records: Sequence[Record], store: RunStore) -> None:
    """Remove, or say that they are kept, the workers that the steps' runs were deployed with."""
    ends: dict[str, Plan] = {}
    for record in records:
        folder = _existing(store, record.run)
        plan = read_plan(folder) if folder is not None else None
        if plan is not None and plan.deployment is not None:
            ends[plan.deployment.folder] = plan
    for plan in ends.values():
        from orchestrator.cli.deploying import end_deployment  # loads the vSphere library

        end_deployment(plan)


@campaign_command.command("status")
@_file
@_form
@runs_option
def status_of_campaign(file: Path, form: str, runs: Path) -> int:
    """How far FILE's campaign is, step by step, and its matrix so far."""
    campaign = read_document(file).validate(Campaign)
    records = settled(Logbook(runs, campaign.name).records(), RunStore(runs))
    if form == "text":
        click.echo(_steps_text(campaign, records, {}))
    return show(campaign, records, runs, form)


def step_plan(step: Step, place: Place) -> Plan:
    """The plan of one step: its suite on its configuration's workers, fields replaced."""
    configuration = step.configuration
    changes = {
        name: list(value) if isinstance(value, list | tuple) else [value]
        for name, value in configuration.set.items()
    }
    plan = plan_suite(
        step.suite,
        lambda run: place.of(configuration, run),
        changes,
        profiles=place.profiles,
        local=place.local and configuration.inventory is None,
    )
    policy = configuration.storage_policy
    if policy is not None and configuration.inventory is None and plan.deployment is None:
        raise ConfigError(
            f"configuration {configuration.name!r}: nothing is deployed with policy {policy!r}",
            means="the policy would only be said, not used",
            next_step="give an inventory with a vsphere section; or name the inventory of workers "
            "that have this policy in the configuration",
        )
    return plan.model_copy(update={"stated": configuration.stated()})


def _carry_out(
    step: Step,
    run: str | None,
    place: Place,
    book: Logbook,
    store: RunStore,
    *,
    poll: float | None,
    forks: int,
) -> bool:
    """Run or resume one step and record how it ended; False when the user interrupted it."""
    folder = None if run is None else _existing(store, run)
    click.echo(f"step {step.title}{': resumed' if folder else ''}", err=True)
    if folder is None:
        plan = deployed(step_plan(step, place))
        folder = store.create(plan.run, dump_yaml(plan.model_dump(mode="json")))
        book.add(Record(step=step.key, run=plan.run, outcome="running"))
    plan = read_plan(folder)
    try:
        walked = walk(plan, folder, Mode(), poll=poll, forks=forks)
    except (BrokenError, NotEnoughWorkers) as error:
        click.echo(f"step {step.title}: broken: {error}", err=True)
        book.add(Record(step=step.key, run=plan.run, outcome="broken"))
        return True
    if walked.interrupted or walked.result is None:
        return False
    book.add(Record(step=step.key, run=plan.run, outcome=outcome_of(walked.result)))
    return True


def _existing(store: RunStore, run: str) -> RunFolder | None:
    """A run's folder; None when it was taken away, so that its step is carried out anew."""
    try:
        return store.find(run)
    except StoreError:
        return None


def outcome_of(result: RunResult) -> Outcome:
    """A run's outcome as a step's; figures that are only unknown don't fail it."""
    code = exit_code(result)
    return "broken" if code == EXIT_BROKEN else "failed" if code == EXIT_NO else "done"


def settled(records: Sequence[Record], store: RunStore) -> list[Record]:
    """The records, with those of broken steps whose runs `hcio resume` ended since."""
    return [*records, *_changed(records, store)]


def _changed(records: Sequence[Record], store: RunStore) -> list[Record]:
    found: list[Record] = []
    for record in {record.step: record for record in records}.values():
        folder = _existing(store, record.run) if record.outcome == "broken" else None
        if folder is None or not any(e.name == "run.finished" for e in folder.events()):
            continue
        outcome = outcome_of(load_run(record.run, store.path)[0])
        if outcome != "broken":
            found.append(record.model_copy(update={"outcome": outcome}))
    return found


def show(campaign: Campaign, records: Sequence[Record], runs: Path, form: str) -> int:
    """Print the matrix; the worst code of the steps, 3 for one that isn't carried out yet."""
    last = {record.step: record for record in records}
    results = {}
    for record in last.values():
        try:
            results[record.run] = load_run(record.run, runs)[0]
        except (IncompatibleResults, StoreError) as error:
            click.echo(f"no figures: {error}", err=True)
    matrix = build_matrix(matrix_rows(campaign, records, results))
    if form == "json":
        steps = [_step_document(step, last.get(step.key)) for step in plan_steps(campaign)]
        document = {**matrix_document(matrix), "campaign": campaign.name, "steps": steps}
        click.echo(json.dumps(document, indent=1, allow_nan=False))
    else:
        render = render_matrix_markdown if form == "markdown" else render_matrix
        click.echo(render(matrix), nl=False)
    ended = [last[s.key].outcome if s.key in last else "running" for s in plan_steps(campaign)]
    return worst(_CODES[outcome] for outcome in ended)


def _step_document(step: Step, record: Record | None) -> dict[str, object]:
    return {
        "step": step.title,
        "run": record.run if record else None,
        "outcome": record.outcome if record else None,
    }


def _steps_text(campaign: Campaign, records: Sequence[Record], plans: Mapping[str, Plan]) -> str:
    """One line a step: what it is, how it stands, how long it takes."""
    last = {record.step: record for record in records}
    lines = [f"campaign {campaign.name}: {len(plan_steps(campaign))} steps"]
    for step in plan_steps(campaign):
        record, plan = last.get(step.key), plans.get(step.key)
        said = f"{record.outcome}, {record.run}" if record else "waiting"
        if plan is not None and record is None:
            said += f", {len(plan.cases)} cases on {len(plan.workers)} workers, "
            said += format_duration(round(expected_seconds(plan)))
        lines.append(f"  {step.title}: {said}")
    return "\n".join(lines) + "\n"

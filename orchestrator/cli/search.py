"""`hcio search`: the most I/O within an objective, by probes that are cases of one run."""

from __future__ import annotations

from pathlib import Path

import click

from orchestrator.catalog import dump_yaml
from orchestrator.cli.options import options_of_a_walk, runs_option
from orchestrator.cli.run import deployed, make_plan
from orchestrator.demand import SYNCHRONOUS
from orchestrator.errors import EXIT_GOOD, ConfigError
from orchestrator.plan import Plan
from orchestrator.profiles import Profile
from orchestrator.report.dryrun import dryrun_document, render_dryrun
from orchestrator.search import Settings
from orchestrator.sought import Sought, least_rate, probe_case
from orchestrator.suites import ALL
from orchestrator.units import parse_duration


class Seconds(click.ParamType[float]):
    """A time as fio's users write it: `10`, `10s`, `2m`."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command("search")
@click.argument("profile")
@click.option(
    "--slo",
    "slo",
    multiple=True,
    required=True,
    metavar="RULE",
    help="What must hold, like 'read.p99 <= 1ms'; repeatable.",
)
@click.option(
    "--axis",
    type=click.Choice(["iodepth", "rate"]),
    default="iodepth",
    show_default=True,
    help="What is varied: queue depth, or IOPS of all workers.",
)
@click.option(
    "-i",
    "--inventory",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The workers, as YAML.",
)
@click.option("--local", is_flag=True, help="fio on this machine, on a scratch file of its own.")
@click.option("--target", "targets", multiple=True, help="With --local: a file or device to use.")
@click.option("--size", help="With --local: the target's size, like 256MiB.")
@click.option("--set", "changes", multiple=True, metavar="FIELD=VALUE", help="Replace a field.")
@click.option("--profiles", type=click.Path(path_type=Path), help="A folder of your own profiles.")
@click.option("--least", type=click.IntRange(1), default=1, show_default=True)
@click.option(
    "--most",
    type=click.IntRange(2, 65536),
    default=256,
    show_default=True,
    help="Lowest and highest queue depth.",
)
@click.option(
    "--resolution",
    type=click.FloatRange(0, 100, min_open=True),
    default=5.0,
    show_default=True,
    help="Percent between the answer and the load that failed.",
)
@click.option("--probe", type=Seconds(), default="10s", show_default=True, help="A short probe.")
@click.option("--probe-ramp", type=Seconds(), default="2s", show_default=True)
@click.option("--probes", type=click.IntRange(1, 1000), default=24, show_default=True)
@click.option(
    "--points", type=click.IntRange(1, 100), default=6, show_default=True, help="Of the curve."
)
@click.option("--dry-run", is_flag=True, help="Print the first probe and a confirmation.")
@click.option("--keep", is_flag=True, help="Leave files and targets on the workers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@runs_option
@options_of_a_walk
def search_command(
    profile: str,
    slo: tuple[str, ...],
    axis: str,
    inventory: Path | None,
    local: bool,
    targets: tuple[str, ...],
    size: str | None,
    changes: tuple[str, ...],
    profiles: Path | None,
    least: int,
    most: int,
    resolution: float,
    probe: float,
    probe_ramp: float,
    probes: int,
    points: int,
    dry_run: bool,
    keep: bool,
    as_json: bool,
    runs: Path,
    poll: float | None,
    forks: int,
) -> int:
    """Find the most I/O that PROFILE does within an objective.

    Short probes find the load, a run of the profile's full length confirms it; the whole curve is
    kept in search.json. `hcio resume` goes on with a search that was left in the middle. Exits
    with 1 when no load keeps the objective, with 3 when it could not be told.
    """
    made = make_plan(profile, inventory, local, targets, size, changes, (), profiles)
    words: dict[str, object] = {
        "slo": slo,
        "axis": axis,
        "probe_runtime": probe,
        "probe_ramp": probe_ramp,
        "least": least,
        "most": most,
        "resolution": resolution / 100,
        "most_probes": probes,
        "curve_points": points,
    }
    plan = search_plan(made, words)
    from orchestrator.agenda import search_settings

    if plan.sought is not None:
        # a wrong objective is said before anything is made
        _refuse_objectives(search_settings(plan.sought), plan.sought.profile)
    if dry_run:
        shown = _shown(plan)
        click.echo(dryrun_document(shown) if as_json else render_dryrun(shown), nl=False)
        return EXIT_GOOD
    from orchestrator.cli.conducting import conduct
    from orchestrator.store import RunStore
    from orchestrator.turn import Mode

    if made.deployment is not None:
        plan = search_plan(deployed(made), words)  # how many workers there are is known only now
    folder = RunStore(runs).create(plan.run, dump_yaml(plan.model_dump(mode="json")))
    click.echo(f"run {plan.run}: {folder.path}", err=True)
    return conduct(plan, folder, Mode(keep=keep), poll=poll, forks=forks, as_json=as_json)


def search_plan(plan: Plan, words: dict[str, object]) -> Plan:
    """A plan of one case as a search over its load. ConfigError where it can't be searched."""
    _refuse(plan)
    case = plan.cases[0]
    profile = case.groups[ALL]
    targets = tuple(len(worker.targets) for worker in plan.workers)
    if words["axis"] == "rate":
        words = words | {"least": least_rate(profile, targets)}
    elif profile.engine in SYNCHRONOUS:
        raise ConfigError(
            f"engine {profile.engine} keeps one I/O in flight whatever the depth",
            next_step="search over --axis rate, or --set engine=libaio",
        )
    sought = Sought.model_validate({**words, "case": case, "targets": targets})
    if not sought.probe_runtime:
        raise ConfigError("--probe is 0: nothing is measured", next_step="take a second or more")
    if sought.most < sought.least and sought.axis == "iodepth":
        raise ConfigError("--most is below --least", next_step="swap them")
    return plan.model_copy(update={"cases": (), "sought": sought})


def _refuse(plan: Plan) -> None:
    """What has no place in a search, by name."""
    if len(plan.cases) != 1 or list(plan.cases[0].groups) != [ALL]:
        raise ConfigError(
            f"{plan.suite} is {len(plan.cases)} cases, a search is over the load of one profile",
            next_step="name a profile: `hcio profiles` lists them",
        )
    if plan.cases[0].groups[ALL].fio is not None:
        raise ConfigError(
            f"{plan.suite} is a job file of your own: its load can't be varied",
            next_step="write it as a profile",
        )
    if plan.until is not None:
        raise ConfigError(
            "until has no place in a search: its probes have their own length",
            next_step="leave it out",
        )


def _refuse_objectives(settings: Settings, profile: Profile) -> None:
    """An objective on a direction that the profile doesn't have is never known."""
    shares = {shape.read_percent for shape in profile.shapes}
    absent = {"trim"} | ({"read"} if shares == {0} else {"write"} if shares == {100} else set())
    for objective in settings.objectives:
        if objective.metric.scope in absent:
            raise ConfigError(
                f"{objective.metric.name}: {profile.name} has no {objective.metric.scope}s",
                means="no probe could tell whether the objective holds",
                next_step="take an objective on what the profile does",
            )


def _shown(plan: Plan) -> Plan:
    """The plan with the first probe, and a confirmation of the same load."""
    sought = plan.sought
    if sought is None:
        return plan
    load = None if sought.axis == "rate" else float(sought.most)
    cases = tuple(probe_case(sought, n, load, full=n == 2) for n in (1, 2))
    return plan.model_copy(update={"cases": cases})

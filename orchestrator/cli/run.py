"""`hcio run`: a suite on workers or on this machine; `--dry-run` shows all and touches nothing."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from orchestrator import __version__
from orchestrator.catalog import Catalog, dump_yaml, load_inventory
from orchestrator.cli.options import baseline_option, options_of_a_walk, runs_option
from orchestrator.errors import EXIT_GOOD, ConfigError
from orchestrator.expansion import expand_suite, override_suite, parse_overrides
from orchestrator.inventory import BlockTarget, FileTarget, Inventory, Target, Worker
from orchestrator.jobfile import FILL_TEMPLATE, JOB_TEMPLATE
from orchestrator.plan import Deployed, Plan, build_plan
from orchestrator.report.dryrun import dryrun_document, render_dryrun
from orchestrator.units import parse_size

#: A scratch file's default size: enough to be more than a drive's fastest cache in a smoke test.
SCRATCH_BYTES = 256 * 2**20


@click.command("run")
@click.argument("suite")
@click.option(
    "-i",
    "--inventory",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The workers, as YAML.",
)
@click.option("--local", is_flag=True, help="fio on this machine, on a scratch file of its own.")
@click.option("--target", "targets", multiple=True, help="With --local: a file or device to use.")
@click.option("--size", help="With --local: the target's size, like 256MiB.")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Replace a field; lists make a matrix.",
)
@click.option("--only", multiple=True, metavar="CASE", help="Only these cases (names or globs).")
@click.option("--profiles", type=click.Path(path_type=Path), help="A folder of your own profiles.")
@click.option("--dry-run", is_flag=True, help="Print everything that would happen; touch nothing.")
@click.option("--all-workers", is_flag=True, help="With --dry-run: every worker's job file.")
@click.option("--detach", is_flag=True, help="Arm every case on the workers, then leave.")
@click.option("--keep", is_flag=True, help="Leave files and targets on the workers.")
@click.option("--destroy", is_flag=True, help="vSphere: remove the workers after the run.")
@click.option("--json", "as_json", is_flag=True, help="Print the result (or the plan) as JSON.")
@baseline_option
@runs_option
@options_of_a_walk
def run_command(
    suite: str,
    inventory: Path | None,
    local: bool,
    targets: tuple[str, ...],
    size: str | None,
    changes: tuple[str, ...],
    only: tuple[str, ...],
    profiles: Path | None,
    dry_run: bool,
    all_workers: bool,
    detach: bool,
    keep: bool,
    destroy: bool,
    as_json: bool,
    baseline: str | None,
    runs: Path,
    poll: float | None,
    forks: int,
) -> int:
    """Run SUITE (a suite, or a single profile) and print its report.

    Where the inventory has a vsphere section and no workers, they are made first.
    Ctrl-C ends the case at work on the workers and keeps what is there. If this process dies
    instead, the case goes on: `hcio resume` takes the run up again.
    """
    plan = make_plan(suite, inventory, local, targets, size, changes, only, profiles)
    if destroy:
        plan = destroyed_after(plan)
    if dry_run:
        text = dryrun_document(plan) if as_json else render_dryrun(plan, every_worker=all_workers)
        click.echo(text, nl=False)
        return EXIT_GOOD
    # The walk brings SSH and the numbers with it, which a dry run doesn't need.
    from orchestrator.cli.conducting import conduct
    from orchestrator.cli.sides import load_baseline
    from orchestrator.store import RunStore
    from orchestrator.turn import Mode

    # Before this run has a folder, and before workers are made for it.
    base = load_baseline(baseline, runs)
    plan = deployed(plan)
    folder = RunStore(runs).create(plan.run, dump_yaml(plan.model_dump(mode="json")))
    click.echo(f"run {plan.run}: {folder.path}", err=True)
    mode = Mode(detach=detach, keep=keep)
    return conduct(plan, folder, mode, poll=poll, forks=forks, as_json=as_json, baseline=base)


def make_plan(
    suite_name: str,
    inventory: Path | None,
    local: bool,
    targets: Sequence[str],
    size: str | None,
    changes: Sequence[str],
    only: Sequence[str],
    profiles: Path | None,
) -> Plan:
    """The plan of a command line: suite, overrides, workers. InputError or ConfigError."""
    return plan_suite(
        suite_name,
        lambda run: lab_of(inventory, local, targets, size, run),
        parse_overrides(changes),
        only=only,
        profiles=profiles,
        local=local,
    )


def plan_suite(
    suite_name: str,
    lab: Callable[[str], Inventory],
    changes: Mapping[str, Sequence[Any]],
    *,
    only: Sequence[str] = (),
    profiles: Path | None = None,
    local: bool = False,
) -> Plan:
    """A suite's plan on the workers that `lab` gives for the run's id, fields replaced."""
    catalog = Catalog.of(profiles, here=Path())
    suite, overrides = override_suite(catalog.find_suite(suite_name), changes)
    if suite.accept:
        from orchestrator.acceptance import parse_rules  # loads the numerics

        parse_rules(suite.accept, f"suite {suite.name}")
    cases = expand_suite(suite, catalog.find_profile, overrides=overrides, only=only)
    run = run_id(suite.name, time.time(), secrets.token_hex(2))
    templates = {name: catalog.template(name).text for name in (JOB_TEMPLATE, FILL_TEMPLATE)}
    inventory = lab(run)
    sketch = inventory.vsphere is not None and not inventory.workers
    if sketch:
        from orchestrator.cli.sketching import sketch_inventory  # loads the vSphere library

        inventory = sketch_inventory(inventory)
    plan = build_plan(
        suite, cases, inventory, run=run, version=__version__, templates=templates, local=local
    )
    # Without an id: the deployment is still to be made.
    return plan.model_copy(update={"deployment": Deployed()}) if sketch else plan


def deployed(plan: Plan) -> Plan:
    """The plan with its workers made where vSphere makes them; any other plan as it is."""
    if plan.deployment is None:
        return plan
    from orchestrator.cli.deploying import deploy_plan  # loads the vSphere library

    return deploy_plan(plan)


def destroyed_after(plan: Plan) -> Plan:
    """The plan, with its workers removed after the run. ConfigError when they are static."""
    if plan.vsphere is None or plan.deployment is None:
        raise ConfigError(
            "--destroy removes workers that hcio made, and this inventory's are static",
            next_step="leave --destroy out",
        )
    cluster = plan.vsphere.model_copy(update={"after_run": "destroy"})
    return plan.model_copy(update={"vsphere": cluster})


def run_id(suite: str, now: float, tail: str) -> str:
    """`20261130-214512-easy-run-3fa2`: sorts by time, and two never meet on a worker."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{suite}-{tail}"


def lab_of(
    inventory: Path | None, local: bool, targets: Sequence[str], size: str | None, run: str
) -> Inventory:
    """The workers that a command line names."""
    if local and inventory is not None:
        raise ConfigError(
            "--local and --inventory exclude each other", next_step="give one of them"
        )
    if local:
        return local_inventory(targets, size, run)
    if targets or size:
        raise ConfigError(
            "--target and --size belong to --local",
            next_step="the inventory names its workers' targets itself",
        )
    if inventory is None:
        raise ConfigError(
            "no workers",
            next_step="give an inventory with -i inventory.yaml, or --local for this machine",
        )
    return load_inventory(inventory)


def local_inventory(targets: Sequence[str], size: str | None, run: str) -> Inventory:
    """This machine as the only worker, with the targets named, or a scratch file of its own."""
    bytes_ = _size(size)
    base = Path(os.environ.get("HCIO_WORK_DIR", f"/var/tmp/hcio-{os.getuid()}"))  # noqa: S108 - made mode 0700, its owner is checked
    found: list[Target] = [_local_target(Path(path), bytes_, n) for n, path in enumerate(targets)]
    if not found:
        wanted = bytes_ or SCRATCH_BYTES
        _require_space(base, wanted)
        scratch = base.parent / f"hcio-{run}.scratch"
        found = [FileTarget(file=str(scratch), size=wanted, label="disk0")]
    worker = Worker(name="local", host="localhost", targets=tuple(found), work_dir=str(base))
    return Inventory(workers=(worker,))


def _size(size: str | None) -> int | None:
    if size is None:
        return None
    try:
        return parse_size(size)
    except ValueError as error:
        raise ConfigError(f"--size {size}: {error}", next_step="write it like 256MiB") from None


def _local_target(path: Path, size: int | None, number: int) -> Target:
    """A device by its path, checked by its size; anything else is a file that hcio makes."""
    path = path.absolute()
    label = f"disk{number}"
    if path.exists() and stat.S_ISBLK(path.stat().st_mode):
        return BlockTarget(path=str(path), size=size or _device_size(path), label=label)
    return FileTarget(file=str(path), size=size or SCRATCH_BYTES, label=label)


def _device_size(path: Path) -> int:
    try:
        with path.open("rb") as device:
            return device.seek(0, os.SEEK_END)
    except OSError as error:
        raise ConfigError(f"--target {path}: {error.strerror}", next_step="run as root") from None


def _require_space(base: Path, wanted: int) -> None:
    place = next(folder for folder in (base, *base.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    if free < wanted * 1.1:
        raise ConfigError(
            f"{place} has {free / 2**20:.0f} MiB free, the scratch file needs {wanted / 2**20:.0f}",
            next_step="give --target PATH on another disk, or a smaller --size",
        )

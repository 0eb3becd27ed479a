"""A campaign's steps on real runs: planned, begun, gone on with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from orchestrator.campaign import (
    Configuration,
    Record,
    Step,
    configured_inventory,
    stopped_cases,
    unmeasured,
)
from orchestrator.catalog import dump_yaml
from orchestrator.cli.conducting import read_plan, walk
from orchestrator.cli.run import deployed, lab_of, plan_suite
from orchestrator.cli.standing import existing, standing
from orchestrator.errors import BrokenError, ConfigError, HcioError
from orchestrator.inventory import Inventory
from orchestrator.logbook import Logbook
from orchestrator.plan import Plan
from orchestrator.spec import NotEnoughWorkers
from orchestrator.store import RunFolder, RunStore
from orchestrator.turn import Mode


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


@dataclass(frozen=True)
class Steps:
    """Carries steps out, each as a run of its own, and keeps in the logbook what became of it."""

    place: Place
    book: Logbook
    store: RunStore
    poll: float | None
    forks: int

    def carry_out(self, step: Step, run: str | None) -> bool:
        """Run a step, or go on with its `run`; False when the user interrupted it.

        Cases that an earlier Ctrl-C ended are measured again, in a run of their own.
        """
        folder = None if run is None else existing(self.store, run)
        click.echo(f"step {step.title}{': resumed' if folder else ''}", err=True)
        if folder is None:
            return self._anew(step)
        if not self._walk(step, folder, resumed=True):
            return False
        stopped = stopped_cases(standing(step, self.book.records(), self.store).cases)
        if not stopped:
            return True
        click.echo(f"again, as Ctrl-C ended it: {', '.join(sorted(stopped))}", err=True)
        return self._anew(step)

    def _anew(self, step: Step) -> bool:
        """Begin a new run for a step and walk it. Workers that can't be made break this step and
        no other."""
        try:
            folder = self._begin(step)
        except BrokenError as error:
            self._broken(step, None, error)
            return True
        return self._walk(step, folder)

    def _broken(self, step: Step, run: str | None, error: HcioError) -> None:
        click.echo(f"step {step.title}: broken: {error}", err=True)
        self.book.add(Record(step=step.key, run=run, outcome="broken"))

    def _begin(self, step: Step) -> RunFolder:
        """A new run for a step; of the cases that are left, where earlier runs measured some."""
        plan = deployed(step_plan(step, self.place))
        cases = standing(step, self.book.records(), self.store).cases
        gated = plan.repeats.gate is not None
        left = unmeasured([case.id for case in plan.cases], cases, gated=gated)
        chosen = tuple(case for case in plan.cases if case.id in left) or plan.cases
        plan = plan.model_copy(update={"cases": chosen})
        folder = self.store.create(plan.run, dump_yaml(plan.model_dump(mode="json")))
        self.book.add(Record(step=step.key, run=plan.run, outcome="running"))
        return folder

    def _walk(self, step: Step, folder: RunFolder, *, resumed: bool = False) -> bool:
        """Walk a run and record how it ended; False when the user interrupted it.

        A resumed one that Ctrl-C has left without a case isn't at its end yet: no record.
        """
        plan = read_plan(folder)
        try:
            walked = walk(plan, folder, Mode(), poll=self.poll, forks=self.forks)
        except (BrokenError, NotEnoughWorkers) as error:
            self._broken(step, plan.run, error)
            return True
        if walked.interrupted or walked.result is None:
            return False
        found = standing(step, self.book.records(), self.store)
        if not (resumed and stopped_cases(found.cases)):
            self.book.add(Record(step=step.key, run=plan.run, outcome=found.outcome))
            click.echo(f"step {step.title}: {found.outcome}", err=True)
        return True

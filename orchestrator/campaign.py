"""A campaign: the same suites over several configurations, resumable, ending in a matrix.

    name: raid-and-disks
    suites: [easy-run]
    configurations:
      - {name: "8 disks, RAID-1", storage_policy: RAID-1}
      - {name: "8 disks, RAID-5", storage_policy: RAID-5}
      - {name: "4 disks, RAID-5", storage_policy: RAID-5, targets: 4}

A step is one suite on one configuration. What has been done is known from the records of steps
alone, so a campaign goes on wherever it was stopped; a step whose words in the file changed is
another step. This module says what to do; it runs nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from orchestrator.cluster import Cluster
from orchestrator.errors import ConfigError
from orchestrator.inventory import Inventory
from orchestrator.matrix import Row
from orchestrator.results import CaseResult, RunResult
from orchestrator.shapes import Name
from orchestrator.suites import Values

Outcome = Literal["running", "done", "failed", "broken"]
Positive = Annotated[int, Field(ge=1)]


class Configuration(BaseModel):
    """One row of the matrix: what is different about the lab, the workers or the profiles."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    name: Annotated[str, Field(min_length=1, max_length=80)]
    inventory: Annotated[str | None, Field(description="an inventory of its own")] = None
    workers: Annotated[Positive | None, Field(description="only so many workers")] = None
    targets: Annotated[Positive | None, Field(description="only so many targets a worker")] = None
    storage_policy: Annotated[str | None, Field(description="workers are deployed with it")] = None
    set: Annotated[Values, Field(description="fields of the profiles replaced")] = {}
    conditions: Annotated[
        dict[str, str | int | float | bool], Field(description="stated beside the figures")
    ] = {}

    def stated(self) -> dict[str, Any]:
        """What stands beside the figures of this configuration's runs."""
        own = {"configuration": self.name, "storage policy": self.storage_policy}
        return {name: value for name, value in own.items() if value is not None} | self.conditions


class Campaign(BaseModel):
    """Suites, configurations and the order of the steps."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    name: Name
    description: str = ""
    suites: Annotated[tuple[Name, ...], Field(min_length=1)]
    configurations: Annotated[tuple[Configuration, ...], Field(min_length=1)]
    order: Annotated[
        Literal["configuration-first", "suite-first"],
        Field(description="all suites of a configuration, or one suite on all of them"),
    ] = "configuration-first"
    repeats: Annotated[Positive, Field(description="of the campaign as a whole")] = 1
    on_failure: Literal["go-on", "stop"] = "go-on"

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [configuration.name.casefold() for configuration in self.configurations]
        if len(set(names)) != len(names):
            raise ValueError("two configurations have the same name")
        if len(set(self.suites)) != len(self.suites):
            raise ValueError("a suite is named twice; use repeats to run it again")
        return self


class Step(BaseModel):
    """One suite on one configuration. `key` changes with the words that describe it."""

    model_config = ConfigDict(frozen=True)
    key: str
    suite: str
    configuration: Configuration
    repeat: int = 1

    @property
    def title(self) -> str:
        """For people: `easy-run on 8 disks, RAID-1`."""
        again = f", repeat {self.repeat}" if self.repeat > 1 else ""
        return f"{self.suite} on {self.configuration.name}{again}"


class Record(BaseModel):
    """What became of a step: the run that carries it out, and how that ended.

    A step may have several runs: one that Ctrl-C cut is followed by one of the cases it lost.
    `run` is None when the lab broke before there was one: its workers couldn't be made.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
    step: str
    run: str | None = None
    outcome: Outcome


def plan_steps(campaign: Campaign) -> tuple[Step, ...]:
    """All steps in the order they run; repeats come as whole rounds."""
    steps = []
    for repeat in range(1, campaign.repeats + 1):
        pairs = [(c, suite) for c in campaign.configurations for suite in campaign.suites]
        if campaign.order == "suite-first":
            pairs = [(c, suite) for suite in campaign.suites for c in campaign.configurations]
        steps += [
            Step(
                key=_key(suite, configuration, repeat),
                suite=suite,
                configuration=configuration,
                repeat=repeat,
            )
            for configuration, suite in pairs
        ]
    return tuple(steps)


def _key(suite: str, configuration: Configuration, repeat: int) -> str:
    words = {"suite": suite, "repeat": repeat, **configuration.model_dump(mode="json")}
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:16]


def next_step(campaign: Campaign, records: Sequence[Record]) -> tuple[Step, str | None] | None:
    """The step to carry out now, with the run to resume (None: a new run); None at the end.

    The last record of a step counts. A failed step has had its turn: with `on_failure: stop` the
    campaign ends there, else the next one follows; so has a broken one (the lab's fault).
    """
    last = {record.step: record for record in records}
    for step in plan_steps(campaign):
        record = last.get(step.key)
        if record is None:
            return step, None
        if record.outcome == "running":
            return step, record.run
        if record.outcome != "done" and campaign.on_failure == "stop":
            return None
    return None


def configured_inventory(configuration: Configuration, inventory: Inventory) -> Inventory:
    """The inventory cut to the configuration's workers and targets.

    Raises ConfigError when it has fewer than asked for: a smaller lab isn't what was meant. Where
    vSphere makes the workers, the section is told what to make instead.
    """
    if inventory.vsphere is not None and not inventory.workers:
        made = _configured_cluster(configuration, inventory.vsphere)
        return inventory.model_copy(update={"vsphere": made})
    workers = inventory.workers
    if configuration.workers is not None:
        if len(workers) < configuration.workers:
            raise _too_few(configuration, "workers", configuration.workers, len(workers))
        workers = workers[: configuration.workers]
    if configuration.targets is not None:
        fewest = min(len(worker.targets) for worker in workers)
        if fewest < configuration.targets:
            raise _too_few(configuration, "targets a worker", configuration.targets, fewest)
        kept = configuration.targets
        workers = tuple(w.model_copy(update={"targets": w.targets[:kept]}) for w in workers)
    return inventory.model_copy(update={"workers": workers})


def _configured_cluster(configuration: Configuration, cluster: Cluster) -> Cluster:
    """The section with the configuration's policy, number of workers, and disks of each."""
    shape = cluster.workers
    if configuration.workers is not None:
        shape = shape.model_copy(update={"count": configuration.workers})
    if configuration.targets is not None:
        disks = shape.disks.model_copy(update={"count": configuration.targets})
        shape = shape.model_copy(update={"disks": disks})
    policy = configuration.storage_policy or cluster.storage_policy
    return cluster.model_copy(update={"workers": shape, "storage_policy": policy})


def _too_few(configuration: Configuration, what: str, asked: int, there: int) -> ConfigError:
    return ConfigError(
        f"configuration {configuration.name!r} asks for {asked} {what}, the inventory has {there}",
        next_step="name another inventory in the configuration, or ask for fewer",
    )


def matrix_rows(campaign: Campaign, cases: Mapping[str, Sequence[CaseResult]]) -> list[Row]:
    """The matrix's rows: one a configuration, its cases those of all its suites and repeats.

    `cases` holds the steps' cases by their keys. A configuration without any has a row, empty.
    """
    rows = []
    for configuration in campaign.configurations:
        steps = [step for step in plan_steps(campaign) if step.configuration == configuration]
        found = [case for step in steps for case in cases.get(step.key, ())]
        rows.append(Row(configuration.name, tuple(found)))
    return rows


def runs_of(step: Step, records: Sequence[Record]) -> tuple[str, ...]:
    """The runs that carry out a step, in the order in which they were begun."""
    own = [record.run for record in records if record.step == step.key]
    return tuple(dict.fromkeys(run for run in own if run is not None))


def step_cases(
    step: Step, records: Sequence[Record], results: Mapping[str, RunResult]
) -> tuple[CaseResult, ...]:
    """A step's cases over all its runs; of one that ran again the last time counts."""
    found: dict[str, CaseResult] = {}
    for run in runs_of(step, records):
        if run in results:
            found |= {case.case: case for case in results[run].cases}
    return tuple(found.values())


def stopped_cases(cases: Sequence[CaseResult]) -> frozenset[str]:
    """The ids of those that Ctrl-C ended: the campaign that goes on measures them again."""
    return frozenset(case.case for case in cases if case.outcome == "skipped")


def unmeasured(
    planned: Sequence[str], cases: Sequence[CaseResult], *, gated: bool
) -> frozenset[str]:
    """The ids of planned cases that have no end yet, or a bad one. Of repeats behind a gate, those
    that never began were not needed."""
    absent = "done" if gated else "skipped"
    ended = {case.case: case.outcome for case in cases}
    return frozenset(name for name in planned if ended.get(name, absent) != "done")

"""The plan of a run: everything that will happen, resolved, printable, hashable, free of secrets.

A plan is all that `resume` needs. It holds references to secrets (`env:NAME`), never their values.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from orchestrator import demand
from orchestrator.cachehosts import ClearCache
from orchestrator.cluster import Cluster
from orchestrator.errors import InputError, Problem
from orchestrator.fio_logs import log_options
from orchestrator.inventory import BlockTarget, FileTarget, Inventory, Ssh, Target, Worker
from orchestrator.prepare import Prepare
from orchestrator.problems import nearest
from orchestrator.profiles import Profile, override_profile
from orchestrator.sections import JobTarget
from orchestrator.sought import Sought
from orchestrator.steady import longest_s
from orchestrator.suites import ALL, Case, Policy, Repeats, Suite, Thresholds, Until
from orchestrator.surroundings import StatedCache, StatedLimit
from orchestrator.targets import Wanted

SCHEMA: Final = 1
#: The case id of the fill that comes before the first case.
PREPARE: Final = "prepare"
#: What a fill is taken to reach on each worker when a deadline or a duration is computed.
FILL_SLOWEST_BYTES_PER_S: Final = 20e6
FILL_GRACE_S: Final = 60.0
FILL_USUAL_BYTES_PER_S: Final = 200e6

FillMethod = Literal["zero", "random", "compressible"]


class Deployed(BaseModel):
    """The deployment that a plan's workers are of: its folder, and the mark that its VMs carry.
    Both are empty while it is still to be made."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    folder: str = ""
    id: str = ""


class Plan(BaseModel):
    """One run, resolved: which cases, on which workers and targets, by which rules."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    schema_version: int = SCHEMA
    run: str
    hcio: str
    suite: str
    description: str = ""
    local: bool = False
    seed: int
    prepare: Prepare
    #: whether the cache is cleared before every case, and where and how
    clear_cache: bool = False
    cache: ClearCache | None = None
    #: what the inventory states of the storage around the workers
    caches: tuple[StatedCache, ...] = ()
    limits: tuple[StatedLimit, ...] = ()
    vsphere: Cluster | None = None
    deployment: Deployed | None = None
    fast_fail: float
    pause: float
    grace: float = 60.0
    series: bool = True
    until: Until | None = None
    warm_up: Until | None = None
    policy: Policy
    thresholds: Thresholds
    repeats: Repeats = Repeats()
    accept: tuple[str, ...] = ()
    #: of a search: those decided so far
    cases: tuple[Case, ...]
    sought: Sought | None = None
    #: what stands beside the figures because someone says so: a campaign's configuration
    stated: dict[str, Any] = {}
    workers: tuple[Worker, ...]
    ssh: Ssh = Ssh()
    #: the job file templates, by name
    templates: dict[str, str]

    def case(self, case_id: str) -> Case:
        """The case by its id; KeyError when the plan has none."""
        return next(case for case in self.cases if case.id == case_id)

    def digest(self) -> str:
        """SHA-256 over what will be done: the same plan at another time has the same digest."""
        left_out = {"run", "hcio", "deployment"}
        if self.sought is not None:
            left_out |= {"cases"}
        content = self.model_dump(mode="json", exclude=left_out)
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def build_plan(
    suite: Suite,
    cases: Sequence[Case],
    inventory: Inventory,
    *,
    run: str,
    version: str,
    templates: Mapping[str, str],
    local: bool = False,
) -> Plan:
    """Put a suite's cases on an inventory's workers.

    Raises InputError with every problem: a group that the inventory lacks, a profile that lint
    refuses, a rate that can't be split over a worker's targets.
    """
    problems = [*_group_problems(cases, inventory), *_profile_problems(cases)]
    problems += _cache_problems(suite, inventory)
    if problems:
        raise InputError(problems)
    return Plan(
        run=run,
        hcio=version,
        suite=suite.name,
        description=suite.description,
        local=local,
        seed=suite.seed,
        prepare=suite.prepare,
        clear_cache=suite.clear_cache,
        cache=inventory.clear_cache,
        caches=inventory.caches,
        limits=inventory.limits,
        vsphere=inventory.vsphere,
        fast_fail=suite.fast_fail,
        pause=suite.pause,
        grace=suite.grace,
        series=suite.series,
        until=suite.until,
        warm_up=suite.warm_up,
        policy=suite.policy,
        thresholds=suite.thresholds,
        repeats=suite.repeats,
        accept=suite.accept,
        cases=tuple(_lengthened(case, suite.until) for case in cases),
        workers=inventory.workers,
        ssh=inventory.ssh,
        templates=dict(templates),
    )


def _lengthened(case: Case, until: Until | None) -> Case:
    """A case that measures until it is steady is given the longest time that this may take."""
    if until is None:
        return case
    longest = {"runtime": longest_s(until.rule, until.cap)}
    groups = {name: override_profile(profile, longest) for name, profile in case.groups.items()}
    return case.model_copy(update={"groups": groups})


def _group_problems(cases: Sequence[Case], inventory: Inventory) -> Iterator[Problem]:
    groups = inventory.groups()
    for case in cases:
        for group in case.groups:
            if group != ALL and group not in groups:
                text = f"no worker of the inventory is in group {group!r}"
                yield Problem("inventory", None, f"case {case.id}", text, nearest(group, groups))
        if ALL in case.groups and len(case.groups) > 1:
            text = "the group 'all' can't stand beside others: a worker would run two profiles"
            yield Problem("suite", None, f"case {case.id}", text)


def _profile_problems(cases: Sequence[Case]) -> Iterator[Problem]:
    for case in cases:
        for group, profile in case.groups.items():
            for finding in demand.lint_profile(profile):
                if finding.level == "error":
                    place = f"case {case.id}" + (f", group {group}" if group != ALL else "")
                    yield Problem(f"profile {profile.name}", None, place, finding.text)


def _cache_problems(suite: Suite, inventory: Inventory) -> Iterator[Problem]:
    if suite.clear_cache and inventory.clear_cache is None and inventory.vsphere is None:
        text = (
            f"the suite {suite.name} clears the cache, and nothing says where and how: "
            "give hosts or a command, or --set clear_cache=false"
        )
        yield Problem("inventory", None, "clear_cache", text)


def case_warnings(plan: Plan, case: Case) -> tuple[str, ...]:
    """What lint says of a case that doesn't forbid it, each once."""
    found = [
        (f"{finding.section}: " if finding.section else "") + finding.text
        for part in assignments(plan, case)
        for finding in (
            *demand.lint_profile(part.profile),
            *demand.lint_depth(part.profile, len(part.worker.targets)),
        )
        if finding.level == "warning"
    ]
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Assigned:
    """One worker's part in a case: its group and profile, and the seed of its random numbers."""

    worker: Worker
    group: str
    profile: Profile
    seed: int


def assignments(plan: Plan, case: Case) -> tuple[Assigned, ...]:
    """Which workers take part in a case and with which profile, in the inventory's order."""
    found = []
    for worker in plan.workers:
        group = ALL if ALL in case.groups else worker.group
        if group in case.groups:
            seed = demand.worker_seed(plan.seed, worker.name)
            found.append(Assigned(worker, group, case.groups[group], seed))
    return tuple(found)


def fill_method(plan: Plan, target: Target) -> FillMethod | None:
    """How a target is filled before the first case; None when it is left as it is.

    `auto` fills files (a sparse file answers reads from nothing) and leaves devices alone.
    """
    method = plan.prepare.method
    if method == "auto":
        return "random" if isinstance(target, FileTarget) else None
    return None if method == "none" else method


def filled(plan: Plan, worker: Worker) -> dict[str, FillMethod]:
    """The worker's targets that are filled, by label."""
    methods = {str(t.label): fill_method(plan, t) for t in worker.targets}
    return {label: method for label, method in methods.items() if method is not None}


def wanted_targets(plan: Plan, worker: Worker) -> tuple[Wanted, ...]:
    """The worker's targets as its machine is asked for them."""
    writes = _writes(plan, worker)
    return tuple(wanted_target(target, writes=writes) for target in worker.targets)


def _writes(plan: Plan, worker: Worker) -> bool:
    """Whether anything of the plan writes on this worker. A file has to be made to be read."""
    if filled(plan, worker):
        return True
    cases = [*plan.cases, *([plan.sought.case] if plan.sought is not None else [])]
    parts = [part for case in cases for part in assignments(plan, case)]
    return any(demand.does_write(p.profile) for p in parts if p.worker.name == worker.name)


def wanted_target(target: Target, *, writes: bool = True) -> Wanted:
    """A target as a worker's machine is asked for it."""
    label = str(target.label)
    if isinstance(target, FileTarget):
        return Wanted(label, file=target.file, size=target.size, writes=True)
    return Wanted(
        label,
        path=target.path,
        serial=target.serial,
        wwn=target.wwn,
        hctl=target.hctl,
        size=target.size,
        allow=frozenset(target.allow),
        writes=writes,
    )


#: Where a device's size isn't given, a dry run shows its job file as for a target of this size.
ASSUMED_BYTES: Final = 100 * 2**30


@dataclass(frozen=True)
class Planned:
    """A target before its worker was asked: `sized` is False when its size is assumed."""

    target: JobTarget
    sized: bool


def planned_targets(worker: Worker) -> tuple[Planned, ...]:
    """The targets as far as they are known without asking the worker, for a dry run.

    A device named by serial, wwn or bus path gets that name as its path.
    """
    return tuple(_planned(target) for target in worker.targets)


def _planned(target: Target) -> Planned:
    label = str(target.label)
    if isinstance(target, FileTarget):
        return Planned(JobTarget(label, target.file, target.size, "file"), True)
    path = target.path or device_name(target)
    size = target.size or ASSUMED_BYTES
    return Planned(JobTarget(label, path, size, "block"), target.size is not None)


def device_name(target: BlockTarget) -> str:
    """How a device without a path is called: by what stays with it."""
    for word in ("serial", "wwn", "hctl"):
        value = getattr(target, word)
        if value:
            return f"{word}={value}"
    return target.path or "?"


def warm_up_id(case_id: str) -> str:
    """The id of a case's warm-up on the workers."""
    return f"{case_id}.warm-up"


def warming(plan: Plan, profile: Profile) -> Profile | None:
    """A profile as its warm-up runs it: unmeasured, as long as it may take; None without one."""
    if plan.warm_up is None:
        return None
    longest = longest_s(plan.warm_up.rule, plan.warm_up.cap)
    return override_profile(profile, {"runtime": longest, "ramp": 0})


def job_logs(plan: Plan, profile: Profile) -> dict[str, str]:
    """The options that make fio log a profile's series; none when the plan wants no series."""
    return log_options(demand.measured_seconds(profile)) if plan.series else {}


# -- times ----------------------------------------------------------------------------------------


def wall_seconds(case: Case) -> float:
    """Ramp and runtime of a case: the longest of its groups."""
    return max(demand.wall_seconds(profile) for profile in case.groups.values())


def measured_seconds(case: Case) -> float:
    """The time that a case is asked to measure: the longest of its groups."""
    return max(demand.measured_seconds(profile) for profile in case.groups.values())


def ramp_seconds(case: Case) -> float:
    """The part of a case before the measured time."""
    return wall_seconds(case) - measured_seconds(case)


def deadline_seconds(plan: Plan, case: Case) -> float:
    """After T0, when the worker itself ends the case."""
    return wall_seconds(case) + plan.grace


def fill_bytes(plan: Plan, worker: Worker) -> int | None:
    """Bytes that the fill writes on a worker; None when a target's size isn't known yet."""
    methods = filled(plan, worker)
    sizes = [target.size for target in worker.targets if str(target.label) in methods]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def fill_deadline_seconds(plan: Plan, size: int) -> float:
    """After its start, when the worker ends a fill of so many bytes: the slowest rate accepted."""
    return size / FILL_SLOWEST_BYTES_PER_S + max(plan.grace, FILL_GRACE_S)


def expected_seconds(plan: Plan) -> float:
    """How long the whole plan takes, without staging: fills at a usual rate, cases, pauses."""
    fills = [fill_bytes(plan, worker) or 0 for worker in plan.workers]
    warm_ups = plan.warm_up.cap if plan.warm_up is not None else 0.0
    cases = sum(warm_ups + wall_seconds(case) for case in plan.cases)
    pauses = plan.pause * max(0, len(plan.cases) - 1)
    return max(fills, default=0) / FILL_USUAL_BYTES_PER_S + cases + pauses

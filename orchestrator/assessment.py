"""A run's result from its folder alone: plan, journal and raw/ are enough, no worker needed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from orchestrator import __version__, demand
from orchestrator.analysis import analyse_case
from orchestrator.attendance import read_attendance
from orchestrator.caseload import case_facts
from orchestrator.checks import verdict_of
from orchestrator.collected import read_ended, read_evidence
from orchestrator.course import case_course
from orchestrator.evidence import CaseExpectation, Thresholds, WorkerEvidence
from orchestrator.hostcounters import host_counters
from orchestrator.journal import (
    PREPARED,
    agreed_start,
    decided,
    decided_seconds,
    finished_cases,
    skipped_cases,
    warmed_up,
)
from orchestrator.plan import (
    Plan,
    assignments,
    filled,
    measured_seconds,
    ramp_seconds,
)
from orchestrator.plausibility import judged
from orchestrator.profiles import Profile
from orchestrator.results import CaseResult, Reason, RunResult
from orchestrator.store import PLATFORM, Event, RunFolder
from orchestrator.suites import Case

#: Of vSAN's configuration, what changes figures.
_VSAN_CONDITIONS: Final = (
    *("architecture", "hosts", "disk_groups", "dedupe", "compression"),
    *("encryption_at_rest", "encryption_in_transit"),
)


def expectation(plan: Plan, case: Case, *, prepared: bool) -> CaseExpectation:
    """What a case was meant to be, for its checks. `prepared`: the plan's fill was finished."""
    parts = assignments(plan, case)
    groups: dict[str, list[str]] = {}
    for part in parts:
        groups.setdefault(part.group, []).append(part.worker.name)
    limits = plan.thresholds
    whole = all(len(filled(plan, p.worker)) == len(p.worker.targets) for p in parts)
    return CaseExpectation(
        case=case.id,
        workers=tuple(part.worker.name for part in parts),
        groups={name: tuple(workers) for name, workers in groups.items()},
        runtime_s=measured_seconds(case) or None,
        ramp_s=ramp_seconds(case),
        times={part.worker.name: _times(part.profile) for part in parts},
        own_files=frozenset(part.worker.name for part in parts if part.profile.fio is not None),
        reads=any(demand.does_read(part.profile) for part in parts),
        preconditioned=whole and prepared,
        thresholds=Thresholds(
            runtime_share=limits.min_runtime / 100,
            skew_s=limits.max_skew,
            overlap=limits.min_overlap / 100,
        ),
    )


def _times(profile: Profile) -> tuple[float, float | None]:
    measured = demand.measured_seconds(profile)
    return demand.wall_seconds(profile) - measured, measured or None


def assess_case(plan: Plan, case: Case, folder: RunFolder, events: Sequence[Event]) -> CaseResult:
    """Parse, merge and judge one case from what was collected of it."""
    expected = expectation(plan, case, prepared=any(e.name == PREPARED for e in events))
    ended_by = decided(case.id, events) or "time"
    if ended_by == "steady":
        expected = dataclasses.replace(
            expected, runtime_s=decided_seconds(case.id, events), times={}
        )

    def evidence() -> Iterator[WorkerEvidence]:
        for name in expected.workers:
            yield read_evidence(name, folder.raw(case.id, name))

    result = analyse_case(
        expected,
        evidence(),
        policy_satisfied=lambda received, workers: received >= plan.policy.needed(workers),
        t0=agreed_start(case.id, events),
    )
    course = case_course(
        folder.path / "raw" / case.id,
        folder.series(case.id),
        _counted(result, folder),
        ramp_s=expected.ramp_s,
        rule=plan.until.rule if plan.until is not None else None,
    )
    attended = read_attendance(folder, case.id)
    result = replace(
        result,
        course=course,
        ended_by=ended_by,
        warm_up=warmed_up(case.id, events),
        platform={name: said.document for name, said in attended.items()},
    )
    facts = case_facts(
        plan,
        case,
        prepared=bool(expected.preconditioned),
        host_counters=host_counters(result.platform),
        steady_asked=plan.until is not None,
    )
    reasons = [reason for said in attended.values() for reason in said.reasons]
    return with_reasons(judged(result, facts), reasons)


def with_reasons(result: CaseResult, reasons: Sequence[Reason]) -> CaseResult:
    """The case with more reasons, and the verdict that all of them make."""
    if not reasons:
        return result
    return replace(result, verdict=verdict_of([*result.verdict.reasons, *reasons]))


def _counted(result: CaseResult, folder: RunFolder) -> Iterator[WorkerEvidence]:
    """The workers that the totals hold, without their outputs."""
    for name, worker in result.workers.items():
        ended = read_ended(folder.raw(result.case, name) or {})
        if worker.counted and ended is not None:
            yield WorkerEvidence(
                name,
                group=ended.group,
                host=ended.host,
                started=ended.started,
                clock_offset_s=ended.clock_offset_s,
            )


def assess_run(plan: Plan, folder: RunFolder) -> RunResult:
    """The whole result: every finished case of the plan, and where the figures come from."""
    events = folder.events()
    over = finished_cases(events)
    skipped = skipped_cases(events)
    done = [case for case in plan.cases if case.id in over and case.id not in skipped]
    cases = [assess_case(plan, case, folder, events) for case in done]
    return RunResult(cases=tuple(cases), provenance=provenance(plan, folder, events))


def provenance(plan: Plan, folder: RunFolder, events: Sequence[Event]) -> dict[str, Any]:
    """Where a run's figures come from: plan, versions as the workers said them, targets, seeds."""
    over = finished_cases(events)
    platform = _platform(folder)
    return {
        "run": plan.run,
        "suite": plan.suite,
        "hcio": plan.hcio,
        "assessed_by": __version__,
        "plan_sha256": plan.digest(),
        "started": events[0].at if events else None,
        "ended": events[-1].at if events else None,
        "cases_planned": [case.id for case in plan.cases],
        "cases_missing": [case.id for case in plan.cases if case.id not in over],
        "cases_skipped": skipped_cases(events),
        "seed": plan.seed,
        **platform,
        "conditions": {**plan.stated, **platform.get("conditions", {})},
        "workers": {
            worker.name: {
                "address": "this machine" if plan.local else worker.host,
                "group": worker.group,
                "host": worker.host_label,
                "datastore": worker.datastore,
                "seed": demand.worker_seed(plan.seed, worker.name),
                **_placed(platform, worker.name),
                **_seen(folder, over, worker.name),
            }
            for worker in plan.workers
        },
    }


def _platform(folder: RunFolder) -> dict[str, Any]:
    """What the run stood on, and of it what a comparison must not mix; nothing without vSphere."""
    text = folder.read(PLATFORM)
    if text is None:
        return {}
    facts = msgspec.json.decode(text)
    vsan = facts.get("vsan") or {}
    conditions = {f"vsan.{name}": vsan.get(name) for name in _VSAN_CONDITIONS if vsan}
    policies = {
        disk.get("policy") or "none"
        for worker in facts.get("workers", {}).values()
        for disk in worker.get("disks", ())
    }
    if policies:
        conditions["storage policy"] = ", ".join(sorted(policies))
    return {"platform": facts, "conditions": conditions}


def _placed(platform: Mapping[str, Any], worker: str) -> dict[str, Any]:
    """A worker's hosts at the run's start and end, as vCenter named them (null: not known)."""
    if not platform:
        return {}
    known = platform["platform"]["workers"].get(worker, {})
    return {name: known.get(name) for name in ("host_start", "host_end")}


def _seen(folder: RunFolder, cases: Sequence[str] | dict[str, str], worker: str) -> dict[str, Any]:
    """What the worker itself said, from the last case in which it said something."""
    for case in reversed(list(cases)):
        ended = read_ended(folder.raw(case, worker) or {})
        if ended is not None and ended.fio_version:
            return {"fio_version": ended.fio_version, "targets": dict(ended.targets or {})}
    return {"fio_version": None, "targets": {}}

"""What is staged on a worker: each case's job file, its warm-up's, and the fill's."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from orchestrator.demand import worker_seed
from orchestrator.engine import Member
from orchestrator.jobfile import (
    FILL_TEMPLATE,
    JOB_TEMPLATE,
    TemplateSource,
    render_fill,
    render_job,
)
from orchestrator.plan import (
    PREPARE,
    Assigned,
    Plan,
    assignments,
    filled,
    job_logs,
    warm_up_id,
    warming,
)
from orchestrator.sections import JobTarget
from orchestrator.suites import Case
from orchestrator.worker.stream import CheckedDevice, StagedCase


def staged_cases(
    plan: Plan, member: Member, cases: Sequence[Case], *, fill: Collection[str]
) -> list[StagedCase]:
    """Everything that a worker needs for these cases, and for the fill of targets (labels)."""
    staged = []
    text = fill_text(plan, member, fill)
    if text is not None:
        staged.append(_staged(member, PREPARE, text))
    for case in cases:
        for part in assignments(plan, case):
            if part.worker.name == member.name:
                staged += _of_case(plan, member, case, part)
    return staged


def _of_case(plan: Plan, member: Member, case: Case, part: Assigned) -> list[StagedCase]:
    targets = job_targets(member)
    template = TemplateSource(JOB_TEMPLATE, plan.templates[JOB_TEMPLATE])
    logs = job_logs(plan, part.profile)
    text = render_job(part.profile, targets, seed=part.seed, template=template, logs=logs)
    staged = [_staged(member, case.id, text)]
    warm = warming(plan, part.profile)
    if warm is not None:
        text = render_job(warm, targets, seed=part.seed, template=template)
        staged.append(_staged(member, warm_up_id(case.id), text))
    return staged


def _staged(member: Member, case: str, text: str) -> StagedCase:
    devices = [
        CheckedDevice(target.path, target.size or 0, target.number or "")
        for target in member.targets
        if target.kind == "device"
    ]
    files = [target.path for target in member.targets if target.kind == "file"]
    return StagedCase(case, text.encode(), tuple(devices), tuple(files))


def job_targets(member: Member) -> list[JobTarget]:
    """A worker's targets as fio is given them: where they are now, and how large."""
    return [
        JobTarget(
            target.label,
            target.path,
            target.size or 0,
            "file" if target.kind == "file" else "block",
        )
        for target in member.targets
    ]


def fill_text(plan: Plan, member: Member, labels: Collection[str]) -> str | None:
    """The fill's job file for these targets; None when there are none of them."""
    methods = filled(plan, member.worker)
    targets = [target for target in job_targets(member) if target.label in labels]
    if not targets:
        return None
    return render_fill(
        methods[targets[0].label],
        targets,
        seed=worker_seed(plan.seed, member.name),
        template=TemplateSource(FILL_TEMPLATE, plan.templates[FILL_TEMPLATE]),
        compress=plan.prepare.compress,
        dedupe=plan.prepare.dedupe,
    )

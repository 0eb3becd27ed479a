"""The plan as people and programs read it before anything happens: job files, commands, targets,
what is written where, and how long it takes. Made from the plan alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from orchestrator import demand
from orchestrator.inventory import FileTarget, Worker
from orchestrator.jobfile import (
    FILL_TEMPLATE,
    JOB_TEMPLATE,
    TemplateSource,
    render_fill,
    render_job,
)
from orchestrator.plan import (
    ASSUMED_BYTES,
    FILL_USUAL_BYTES_PER_S,
    PREPARE,
    Assigned,
    Plan,
    assignments,
    case_warnings,
    deadline_seconds,
    expected_seconds,
    fill_bytes,
    filled,
    job_logs,
    planned_targets,
    ramp_seconds,
    wall_seconds,
)
from orchestrator.suites import Case
from orchestrator.units import format_duration, show_size

#: What a worker is told, in the order of a case.
COMMANDS = (
    "sh {dir}/program.sh stage   # files by rename, SHA-256 checked, fio --parse-only",
    "sh {dir}/program.sh clock   # the clock's offset, several round trips",
    "sh {dir}/program.sh arm {case} T0 {deadline}s",
    "fio --output=fio.json --output-format=json+ --eta=always --eta-newline=1 ../job.fio   # at T0",
    "sh {dir}/program.sh poll {case}   # until it is done",
    "sh {dir}/program.sh fetch {case}",
)


def render_dryrun(plan: Plan, *, every_worker: bool = False) -> str:
    """The dry run as text. Job files that differ only by worker are shown once a group, unless
    `every_worker`."""
    lines = [f"suite {plan.suite}: {len(plan.cases)} cases on {len(plan.workers)} workers"]
    lines += [f"plan {plan.digest()[:16]}, seed {plan.seed}", ""]
    lines += _deployment_lines(plan)
    lines += _target_lines(plan)
    lines += _fill_lines(plan)
    for number, case in enumerate(plan.cases, start=1):
        lines += _case_lines(plan, case, number, every_worker)
    lines += [
        "",
        f"expected duration: {format_duration(round(expected_seconds(plan)))}, and staging",
    ]
    lines.append("dry run: no host was contacted and no disk was touched")
    return "\n".join(lines) + "\n"


def _deployment_lines(plan: Plan) -> Iterator[str]:
    """What would be deployed, from the inventory alone, and the clearing before each case."""
    cluster = plan.vsphere
    if cluster is not None and plan.deployment is not None:
        shape = cluster.workers
        unknown = "one stands for all: how many is worked out from vCenter (hcio size)"
        auto = f"; {unknown}" if shape.count == "auto" else ""
        yield f"vsphere: {cluster.deployment} on {cluster.datacenter}/{cluster.cluster}"
        memory = show_size(shape.memory)
        yield f"  {len(plan.workers)} workers with {shape.cpus} vCPU, {memory}{auto}"
        kind = "thin" if shape.disks.thin else "thick"
        yield (
            f"  each {shape.disks.count} disks of {show_size(shape.disks.size)} "
            f"({shape.disks.controller}, {kind}) on {', '.join(cluster.datastores)}, "
            f"policy {cluster.storage_policy or 'of the datastore'}"
        )
        yield f"  after the run: {cluster.after_run}"
        yield "  what is there already is not looked at: hcio workers deploy --dry-run asks vCenter"
        yield ""
    if plan.clear_cache:
        where = ", ".join(plan.cache.hosts) if plan.cache and plan.cache.hosts else "the cluster's"
        yield f"clear cache: before every case, on the hosts {where}"
        yield ""


def _target_lines(plan: Plan) -> Iterator[str]:
    yield "targets:"
    for worker in plan.workers:
        for planned in planned_targets(worker):
            target = planned.target
            size = show_size(target.size) if planned.sized else "size read on the worker"
            fill = filled(plan, worker).get(target.label)
            what = f"filled ({fill})" if fill else "left as it is"
            yield f"  {worker.name} {target.label}: {target.path} ({target.kind}, {size}), {what}"


def _fill_lines(plan: Plan) -> Iterator[str]:
    sizes = [fill_bytes(plan, w) for w in plan.workers if filled(plan, w)]
    if not sizes:
        return
    known = [size for size in sizes if size is not None]
    each = max(known, default=0)
    seconds = format_duration(max(1, round(each / FILL_USUAL_BYTES_PER_S)))
    more = "" if len(known) == len(sizes) else ", and the devices whose size isn't given"
    yield ""
    yield f"prepare: writes {show_size(sum(known))} in all{more}"
    yield f"  about {seconds} at {FILL_USUAL_BYTES_PER_S / 1e6:g} MB/s a worker (assumed)"


def _case_lines(plan: Plan, case: Case, number: int, every_worker: bool) -> Iterator[str]:
    parts = assignments(plan, case)
    totals = case_totals(plan, case)
    wall = format_duration(round(wall_seconds(case)))
    ramp = format_duration(round(ramp_seconds(case)))
    yield ""
    yield f"case {number}: {case.id}"
    yield f"  duration {wall} (ramp {ramp}), deadline {deadline_seconds(plan, case):g} s after T0"
    yield f"  {len(parts)} workers, {totals.jobs} jobs, {totals.outstanding_ios} outstanding I/Os"
    caps = [
        f"{word} at most {cap} {unit}"
        for word, cap, unit in (
            ("reads", totals.read_iops_cap, "IOPS"),
            ("writes", totals.write_iops_cap, "IOPS"),
            ("reads", totals.read_bytes_per_s_cap, "B/s"),
            ("writes", totals.write_bytes_per_s_cap, "B/s"),
        )
        if cap
    ]
    if caps:
        yield f"  limits: {', '.join(caps)}"
    yield f"  {written(plan, case)}"
    yield from (f"  warning: {text}" for text in case_warnings(plan, case))
    yield "  on each worker:"
    folder = f"{plan.workers[0].work_dir}/{plan.run}"
    deadline = f"{deadline_seconds(plan, case):g}"
    for command in COMMANDS:
        yield "    " + command.format(dir=folder, case=case.id, deadline=deadline)
    yield from _job_lines(plan, parts, every_worker)


def _job_lines(plan: Plan, parts: tuple[Assigned, ...], every_worker: bool) -> Iterator[str]:
    shown: set[str] = set()
    for part in parts:
        if not every_worker and part.group in shown:
            continue
        shown.add(part.group)
        others = sum(1 for other in parts if other.group == part.group) - 1
        also = f" (and {others} more in group {part.group}, other seeds)" if others else ""
        yield f"  job file for {part.worker.name}{'' if every_worker else also}:"
        for line in job_text(plan, part).splitlines():
            yield f"    {line}".rstrip()


def job_text(plan: Plan, part: Assigned) -> str:
    """The job file of one worker in a case, as far as its targets are known."""
    return render_job(
        part.profile,
        [planned.target for planned in planned_targets(part.worker)],
        seed=part.seed,
        template=TemplateSource(JOB_TEMPLATE, plan.templates[JOB_TEMPLATE]),
        logs=job_logs(plan, part.profile),
    )


def case_totals(plan: Plan, case: Case) -> demand.Totals:
    """What a case asks of the whole fleet: jobs, outstanding I/Os, limits (case 32)."""
    parts = [demand.totals(p.profile, len(p.worker.targets)) for p in assignments(plan, case)]
    result = parts[0]
    for part in parts[1:]:
        result = result + part
    return result


def written(plan: Plan, case: Case) -> str:
    """What a case writes, in words: its area, and how much at most where a rate limits it."""
    parts = [p for p in assignments(plan, case) if demand.does_write(p.profile)]
    if not parts:
        return "writes nothing"
    area = sum(planned.target.size for p in parts for planned in planned_targets(p.worker))
    totals = case_totals(plan, case)
    limit = ", as fast as it can"
    if totals.write_bytes_per_s_cap:
        most = int(totals.write_bytes_per_s_cap * wall_seconds(case))
        limit = f", {show_size(most)} at most"
    return f"writes over up to {show_size(area)} on {len(parts)} workers{limit}"


def dryrun_document(plan: Plan) -> str:
    """The dry run as JSON: every case with every worker's job file, targets, times in seconds and
    sizes in bytes."""
    document = {
        "schema": 1,
        "suite": plan.suite,
        "plan_sha256": plan.digest(),
        "seed": plan.seed,
        "expected_s": expected_seconds(plan),
        "prepare": _prepare_document(plan),
        "cases": [_case_document(plan, case) for case in plan.cases],
    }
    return json.dumps(document, indent=1) + "\n"


def _prepare_document(plan: Plan) -> dict[str, Any] | None:
    workers = {w.name: _fill_document(plan, w) for w in plan.workers if filled(plan, w)}
    return {"case": PREPARE, "workers": workers} if workers else None


def _fill_document(plan: Plan, worker: Worker) -> dict[str, Any]:
    methods = filled(plan, worker)
    targets = [p.target for p in planned_targets(worker) if p.target.label in methods]
    method = methods[targets[0].label]
    template = TemplateSource(FILL_TEMPLATE, plan.templates[FILL_TEMPLATE])
    return {
        "bytes": fill_bytes(plan, worker),
        "job": render_fill(
            method,
            targets,
            seed=demand.worker_seed(plan.seed, worker.name),
            template=template,
            compress=plan.prepare.compress,
            dedupe=plan.prepare.dedupe,
        ),
    }


def _case_document(plan: Plan, case: Case) -> dict[str, Any]:
    totals = case_totals(plan, case)
    return {
        "case": case.id,
        "expected_s": wall_seconds(case),
        "ramp_s": ramp_seconds(case),
        "deadline_s": deadline_seconds(plan, case),
        "jobs": totals.jobs,
        "outstanding_ios": totals.outstanding_ios,
        "read_iops_cap": totals.read_iops_cap,
        "write_iops_cap": totals.write_iops_cap,
        "writes": written(plan, case),
        "warnings": list(case_warnings(plan, case)),
        "commands": [
            command.format(
                dir=f"{plan.workers[0].work_dir}/{plan.run}",
                case=case.id,
                deadline=f"{deadline_seconds(plan, case):g}",
            )
            for command in COMMANDS
        ],
        "workers": {
            part.worker.name: {
                "group": part.group,
                "profile": part.profile.name,
                "seed": part.seed,
                "targets": _targets_document(part.worker),
                "job": job_text(plan, part),
            }
            for part in assignments(plan, case)
        },
    }


def _targets_document(worker: Worker) -> list[dict[str, Any]]:
    return [
        {
            "label": planned.target.label,
            "kind": "file" if isinstance(target, FileTarget) else "block",
            "path": planned.target.path,
            "bytes": planned.target.size if planned.sized else None,
            "assumed_bytes": None if planned.sized else ASSUMED_BYTES,
        }
        for planned, target in zip(planned_targets(worker), worker.targets, strict=True)
    ]

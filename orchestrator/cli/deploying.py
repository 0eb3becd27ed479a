"""The deployment of a run's workers: made before it, kept or removed after it."""

from __future__ import annotations

import json
from pathlib import Path

from orchestrator.cli.sketching import expected_workers
from orchestrator.cli.workers import (
    default_folder,
    open_vsphere,
    readier,
    say,
    with_workers,
)
from orchestrator.cluster import Cluster
from orchestrator.conditions import sizing_conditions
from orchestrator.inventory import Inventory
from orchestrator.plan import Deployed, Plan
from orchestrator.report.sizing import render_sizing
from orchestrator.sizing import DEFAULT_FORMULA, size_easy_run
from orchestrator.sizing_inputs import resolve_inputs
from orchestrator.vsphere.deploy import Tools, deploy, destroy
from orchestrator.vsphere.observer import Observer
from orchestrator.vsphere.sizing_facts import apply_sizing, read_sizing_inputs
from orchestrator.vsphere.state import open_state, read_state
from orchestrator.vsphere.vcenter import VCenter


def deploy_plan(plan: Plan) -> Plan:
    """Make or bring up to date the workers of a plan: the plan with them in it.

    What fits stays, so a second run finds its workers there. ConfigError and VSphereError branches
    as `hcio workers deploy` has them.
    """
    cluster = plan.vsphere
    if cluster is None:
        return plan
    folder = default_folder(cluster)
    with open_vsphere(cluster) as vsphere:
        state = open_state(folder, cluster.deployment)
        sized = sized_cluster(vsphere, cluster, folder)
        count = expected_workers(sized)
        say(f"deploying {count or 'the'} workers of {cluster.deployment}")
        tools = Tools(vsphere, say=say, ready=readier(cluster, state))
        done = deploy(tools, sized, state)
    for name, error in done.errors.items():
        say(f"warning: {name} is left out: {error}")
    found = with_workers(Inventory(workers=(), vsphere=cluster))
    deployed = Deployed(folder=str(folder.absolute()), id=state.id)
    stated = plan.stated
    if cluster.workers.count == "auto":
        stated = {**sizing_conditions(sized.workers, DEFAULT_FORMULA), **stated}
    made = {"workers": found.workers, "ssh": found.ssh, "deployment": deployed}
    return plan.model_copy(update={**made, "stated": stated})


def sized_cluster(
    vsphere: VCenter, cluster: Cluster, folder: Path, *, keep: bool = True
) -> Cluster:
    """The section with what `count: auto` comes to, each step said; else as it is.

    A deployment keeps its sizing: its own workers take the space that the formula starts from.
    """
    if cluster.workers.count != "auto":
        return cluster
    path = folder / "sizing.json"
    if path.exists():
        sized = _with_sizing(cluster, json.loads(path.read_text()))
        say(f"count: auto: {sized.workers.count} workers, as this deployment was sized ({path})")
        return sized
    observer = Observer(vsphere.session)
    try:
        sizing = size_easy_run(resolve_inputs({}, read_sizing_inputs(vsphere, observer, cluster)))
    finally:
        observer.close()
    say(render_sizing(sizing).rstrip())
    sized = apply_sizing(cluster, sizing)
    state = read_state(folder)
    if keep and state is not None:
        shape = sized.workers
        state.write_sizing(
            {
                "count": sizing.workers,
                "cpus": shape.cpus,
                "memory": shape.memory,
                "disks": shape.disks.count,
                "disk_size": shape.disks.size,
            }
        )
    return sized


def _with_sizing(cluster: Cluster, kept: dict[str, int]) -> Cluster:
    shape = cluster.workers
    disks = shape.disks.model_copy(update={"count": kept["disks"], "size": kept["disk_size"]})
    wanted = {"count": kept["count"], "cpus": kept["cpus"], "memory": kept["memory"]}
    workers = shape.model_copy(update=wanted | {"disks": disks})
    return cluster.model_copy(update={"workers": workers})


def end_deployment(plan: Plan) -> None:
    """After a run: remove its workers where the plan says so, else say that they are kept."""
    cluster, deployed = plan.vsphere, plan.deployment
    if cluster is None or deployed is None:
        return
    if cluster.after_run == "keep":
        say(
            f"the workers of {cluster.deployment} are kept ({deployed.folder}); "
            "hcio workers destroy removes them"
        )
        return
    with open_vsphere(cluster) as vsphere:
        gone = destroy(Tools(vsphere, say=say), cluster, deployed.id)
    state = read_state(Path(deployed.folder))
    if state is not None and state.id == deployed.id:
        state.remove()
    say(f"{len(gone)} VMs of {cluster.deployment} removed")

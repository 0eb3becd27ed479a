"""From an inventory's section to ready workers, and back to nothing: made idempotent by marks.

Only VMs with this deployment's mark are ever changed or removed, whatever their names.
"""

from __future__ import annotations

from dataclasses import replace

from orchestrator.cluster import Cluster
from orchestrator.errors import (
    ConfigError,
    DeploymentFailed,
)
from orchestrator.vsphere.base import (
    Machine,
    Rule,
    VSphere,
)
from orchestrator.vsphere.bringup import Deployment, Work
from orchestrator.vsphere.keys import KeyPair
from orchestrator.vsphere.layout import (
    Ground,
    Layout,
    plan_layout,
    with_source,
)
from orchestrator.vsphere.means import (
    PARALLEL,
    Patience,
    Tools,
    remove_machine,
    rule_name,
    together,
    unpin,
)
from orchestrator.vsphere.state import DeploymentState
from orchestrator.vsphere.survey import survey


def plan(
    vsphere: VSphere,
    cluster: Cluster,
    state: DeploymentState | None,
    *,
    count: int | None = None,
) -> Layout:
    """What a deploy would do now, without doing or writing anything (`--dry-run`)."""
    deployment = state.id if state is not None else ""
    ground = survey(vsphere, cluster, deployment)
    if state is None:
        return plan_layout(cluster, ground, deployment="", login_key=KeyPair("", ""), count=count)
    keys = {
        machine.mark.worker: state.host_key(machine.mark.worker)
        for machine in ground.machines
        if machine.mark is not None and machine.belongs_to(deployment)
    }
    return plan_layout(
        cluster,
        ground,
        deployment=deployment,
        login_key=state.login_key(),
        host_keys=keys,
        count=count,
    )


def deploy(
    tools: Tools,
    cluster: Cluster,
    state: DeploymentState,
    *,
    count: int | None = None,
    force: bool = False,
) -> Deployment:
    """Bring the deployment to what the inventory says.

    Problems of the plan refuse it before anything is made, unless `force`. Raises
    DeploymentFailed when fewer workers than `at_least` (all, where not given) became ready.
    """
    ground = survey(tools.vsphere, cluster, state.id)
    layout = _laid_out(cluster, ground, state, count)
    if layout.problems and not force:
        lines = "\n".join(f"  {problem}" for problem in layout.problems)
        raise ConfigError(
            f"deployment {cluster.deployment}: this can't become what is asked\n{lines}",
            next_step="change the inventory or the cluster; --force goes as far as it can",
        )
    state.write_plan(layout.as_json())
    for remark in layout.remarks:
        tools.say(f"note: {remark}")
    work = Work(tools, cluster, state, ground.site)
    removed = work.clear(layout, ground)
    if ground.source.machine is None:
        ground = with_source(ground, work.image(ground))
        layout = replace(layout, image=ground.source)
    return work.bring_up(layout, removed)


def _laid_out(
    cluster: Cluster, ground: Ground, state: DeploymentState, count: int | None
) -> Layout:
    """The plan with a host key for every worker; the first pass only finds the names."""
    key = state.login_key()
    first = plan_layout(cluster, ground, deployment=state.id, login_key=key, count=count)
    keys = {worker.name: state.host_key(worker.name) for worker in first.workers}
    return plan_layout(
        cluster, ground, deployment=state.id, login_key=key, host_keys=keys, count=count
    )


def destroy(tools: Tools, cluster: Cluster, deployment: str) -> tuple[str, ...]:
    """Remove every VM of the deployment, and its rules: the names of what was removed.

    Raises DeploymentFailed when some could not be removed; running it again goes on.
    """
    vsphere = tools.vsphere
    site = vsphere.site(cluster.datacenter, cluster.cluster, pool=None, folder=None)
    ours = {
        machine.ref: machine
        for machine in vsphere.machines(site, policies=False)
        if machine.belongs_to(deployment)
    }
    timeout = tools.patience.change
    name = rule_name(cluster.deployment, deployment)
    if any(rule.name == name for rule in vsphere.rules(site)):
        vsphere.set_rule(site, Rule(name, frozenset()), timeout=timeout)
    unpin(vsphere, site, set(ours), tools.patience)

    def remove(machine: Machine) -> str:
        remove_machine(vsphere, machine, tools.patience)
        tools.say(f"{machine.name}: removed")
        return machine.name

    gone = together(tools, ours, remove)
    if gone.errors:
        raise DeploymentFailed(
            cluster.deployment,
            {ours[ref].name: error for ref, error in gone.errors.items()},
            sorted(gone.results.values()),
            next_step="run destroy again: it goes on with what is left",
        )
    return tuple(sorted(gone.results.values()))


__all__ = ["PARALLEL", "Deployment", "Patience", "Tools", "deploy", "destroy", "plan", "survey"]

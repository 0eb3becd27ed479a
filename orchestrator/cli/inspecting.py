"""The vSphere side of `hcio check`: the real session, network and probe behind an inspection."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from orchestrator.cli.lab import Opener
from orchestrator.cli.workers import SSH_PATIENCE_S, default_folder, login_of
from orchestrator.cluster import Cluster
from orchestrator.inspection import Inspection, Intent
from orchestrator.inventory import Inventory, Ssh, Worker
from orchestrator.preflight import Check, Finding, run_checks
from orchestrator.progress import say_nothing
from orchestrator.transport.base import Command
from orchestrator.vsphere.base import VSphere
from orchestrator.vsphere.deploy import Tools
from orchestrator.vsphere.observer import Observer
from orchestrator.vsphere.observing import Observes
from orchestrator.vsphere.probe import check_every_host, probe_cluster
from orchestrator.vsphere.reaching import Network
from orchestrator.vsphere.state import DeploymentState, open_state, read_state
from orchestrator.vsphere.vcenter import VCenter

#: Seconds for the one command that a probe is asked to run.
PROBE_LIMIT_S = 30.0


def inspect_cluster(
    cluster: Cluster, intent: Intent, *, folder: Path | None = None, deep: bool = False
) -> list[Check]:
    """Run every check of a vSphere cluster. `folder` is the deployment's own; it is not made."""
    login = login_of(cluster)
    folder = folder or default_folder(cluster)
    known = read_state(folder)
    with ExitStack() as stack:

        def connect() -> tuple[VSphere, Observes]:
            client = VCenter(login)
            stack.callback(client.close)
            observer = Observer(client.session)
            stack.callback(observer.close)
            return client, observer

        inspection = Inspection(
            cluster,
            login,
            connect,
            Network(),
            intent,
            deployment=known.id if known is not None else "",
            deep=_prober(cluster, folder) if deep else None,
        )
        return run_checks(inspection.checks(), started=lambda name: _say(f"checking {name}"))


def _prober(cluster: Cluster, folder: Path) -> Callable[[VSphere, frozenset[str]], Finding]:
    """What puts a probe on every host; its keys lie beside the deployment's folder."""
    place = folder.with_name(f"{folder.name}-probe")

    def probe(vsphere: VSphere, taken: frozenset[str]) -> Finding:
        state = open_state(place, probe_cluster(cluster).deployment)
        return check_every_host(
            Tools(vsphere, say=_say, ready=_reacher(state)), cluster, state, taken
        )

    return probe


def _reacher(state: DeploymentState) -> Callable[[Worker], None]:
    """What reaches a probe by SSH, with its pinned key, and has it run nothing."""
    ssh = Ssh(known_hosts=str(state.known_hosts), policy="strict", config=None, agent=False)

    def reach(probe: Worker) -> None:
        worker = probe.model_copy(update={"sudo": False})  # the network is asked, not the image
        opener = Opener(
            Inventory(workers=(worker,), ssh=ssh),
            local=False,
            report=say_nothing,
            patience_s=SSH_PATIENCE_S,
        )
        with opener(worker) as transport:
            transport.run(Command.of("reach the probe", "true"), timeout=PROBE_LIMIT_S).check()

    return reach


def _say(line: str) -> None:
    # One write, so that lines of several threads don't run into each other.
    sys.stderr.write(f"{line}\n")

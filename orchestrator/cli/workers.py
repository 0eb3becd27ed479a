"""`hcio workers`: deploy, list and destroy the workers of an inventory's vsphere section."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from orchestrator.catalog import load_inventory
from orchestrator.cli.lab import Opener, ask_secret
from orchestrator.cluster import Cluster, PushedFio
from orchestrator.errors import EXIT_GOOD, ConfigError
from orchestrator.inventory import Inventory, Ssh, Worker
from orchestrator.progress import Notice
from orchestrator.readiness import make_ready
from orchestrator.secrets import SecretRef, machine_readers, resolve
from orchestrator.vsphere.base import Machine
from orchestrator.vsphere.deploy import PARALLEL, Tools, deploy, destroy, plan
from orchestrator.vsphere.layout import Layout
from orchestrator.vsphere.session import CALL_TIMEOUT, Login
from orchestrator.vsphere.state import DeploymentState, open_state, read_state
from orchestrator.vsphere.vcenter import VCenter

#: How long a worker with an address may take to answer by SSH, in seconds.
SSH_PATIENCE_S = 300.0

_inventory = click.option(
    "-i", "--inventory", type=click.Path(path_type=Path, dir_okay=False), required=True
)
_state = click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    help="The deployment's folder: its keys and plan.  [default: deployments/NAME]",
)
_dry = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_parallel = click.option(
    "--parallel", type=click.IntRange(1, 64), default=PARALLEL, show_default=True
)


@click.group("workers")
def workers_command() -> None:
    """Make workers on a vSphere cluster, list them, remove them."""


@workers_command.command("deploy")
@_inventory
@_state
@_dry
@_json
@_parallel
@click.option("--force", is_flag=True, help="Go on in spite of the plan's problems.")
@click.option("--count", type=click.IntRange(1), help="Workers, whatever the inventory says.")
def deploy_workers(
    inventory: Path,
    state: Path | None,
    dry_run: bool,
    as_json: bool,
    parallel: int,
    force: bool,
    count: int | None,
) -> int:
    """Bring the workers to what the inventory says: what fits stays, what differs is changed."""
    cluster = _cluster(inventory)
    folder = state or default_folder(cluster)
    with open_vsphere(cluster) as vsphere:
        if not dry_run:
            opened = open_state(folder, cluster.deployment)
        if count is None:
            from orchestrator.cli.deploying import sized_cluster

            cluster = sized_cluster(vsphere, cluster, folder, keep=not dry_run)
        if dry_run:
            layout = plan(vsphere, cluster, read_state(folder), count=count)
            click.echo(_text(layout.as_json()) if as_json else render_layout(layout))
            return EXIT_GOOD
        tools = Tools(vsphere, say=say, ready=readier(cluster, opened), parallel=parallel)
        done = deploy(tools, cluster, opened, count=count, force=force)
    document = {
        "deployment": cluster.deployment,
        "id": opened.id,
        "inventory": str(folder / "workers.json"),
        "workers": [worker.model_dump(mode="json", exclude_none=True) for worker in done.workers],
        "failed": {name: str(error) for name, error in done.errors.items()},
        "removed": list(done.removed),
    }
    click.echo(_text(document) if as_json else render_workers(done.workers, folder))
    return EXIT_GOOD


@workers_command.command("list")
@_inventory
@_state
@_json
def list_workers(inventory: Path, state: Path | None, as_json: bool) -> int:
    """List the VMs that hcio made in the datacenter, of this deployment and of others."""
    cluster = _cluster(inventory)
    known = read_state(state or default_folder(cluster))
    with open_vsphere(cluster) as vsphere:
        site = vsphere.site(cluster.datacenter, cluster.cluster, pool=None, folder=None)
        machines = vsphere.machines(site, policies=False)
        hosts = {host.ref: host.name for host in site.hosts}
    rows = [_row(machine, hosts, known.id if known else "") for machine in machines]
    click.echo(_text(rows) if as_json else render_rows(rows))
    return EXIT_GOOD


@workers_command.command("destroy")
@_inventory
@_state
@_dry
@_json
@_parallel
@click.option("--id", "identity", help="The deployment's id, where its folder is lost (see list).")
def destroy_workers(
    inventory: Path,
    state: Path | None,
    dry_run: bool,
    as_json: bool,
    parallel: int,
    identity: str | None,
) -> int:
    """Remove every VM with this deployment's mark, its rules, and its folder; nothing else."""
    cluster = _cluster(inventory)
    folder = state or default_folder(cluster)
    known = read_state(folder)
    deployment = identity or (known.id if known is not None else None)
    if deployment is None:
        raise ConfigError(
            f"{folder} holds no deployment, so what is ours is not known",
            next_step="give its folder (--state DIR), or its id from hcio workers list (--id ID)",
        )
    with open_vsphere(cluster) as vsphere:
        if dry_run:
            site = vsphere.site(cluster.datacenter, cluster.cluster, pool=None, folder=None)
            machines = vsphere.machines(site, policies=False)
            names = sorted(m.name for m in machines if m.belongs_to(deployment))
        else:
            names = list(destroy(Tools(vsphere, say=say, parallel=parallel), cluster, deployment))
    if not dry_run and known is not None and known.id == deployment:
        known.remove()
    word = "would be removed" if dry_run else "removed"
    text = "\n".join(f"{name}  {word}" for name in names) or f"nothing {word}"
    click.echo(_text({"removed": names, "dry_run": dry_run}) if as_json else text)
    return EXIT_GOOD


def _cluster(inventory: Path) -> Cluster:
    found = load_inventory(inventory)
    if found.vsphere is None:
        raise ConfigError(
            f"{inventory} has no vsphere section: its workers are static",
            next_step="nothing is to be deployed for them; run a suite on them as they are",
        )
    return found.vsphere


def default_folder(cluster: Cluster) -> Path:
    """Where a deployment is kept unless the user says otherwise."""
    return Path("deployments") / cluster.deployment


def login_of(cluster: Cluster) -> Login:
    """How to log in; secrets are fetched here, and `insecure` is said out loud."""
    vcenter = cluster.vcenter
    readers = machine_readers(os.environ, ask_secret)
    if vcenter.insecure:
        say(f"warning: the certificate of {vcenter.host} is not checked (insecure: true)")
    user = vcenter.user
    return Login(
        host=vcenter.host,
        port=vcenter.port,
        user=resolve(user, readers, purpose=f"user of {vcenter.host}")
        if isinstance(user, SecretRef)
        else user,
        password=resolve(vcenter.password, readers, purpose=f"password of {vcenter.host}"),
        ca_file=str(Path(vcenter.ca_file).expanduser()) if vcenter.ca_file else None,
        thumbprint=vcenter.thumbprint,
        insecure=vcenter.insecure,
    )


def with_workers(inventory: Inventory, state: Path | None = None) -> Inventory:
    """The inventory with the workers that were deployed for it; static workers stay as they are.

    ConfigError says to deploy first, where nothing is deployed.
    """
    if inventory.vsphere is None or inventory.workers:
        return inventory
    path = (state or default_folder(inventory.vsphere)) / "workers.json"
    if not path.exists():
        raise ConfigError(
            f"no workers are deployed for {inventory.vsphere.deployment!r}: {path} is not there",
            next_step="run hcio workers deploy with this inventory first, or give --state DIR",
        )
    deployed = load_inventory(path)
    return Inventory(workers=deployed.workers, ssh=deployed.ssh, vsphere=inventory.vsphere)


@contextmanager
def open_vsphere(cluster: Cluster, *, call_timeout: float = CALL_TIMEOUT) -> Iterator[VCenter]:
    """A logged-in vCenter."""
    login = login_of(cluster)
    client = VCenter(login, call_timeout=call_timeout)
    try:
        yield client
    finally:
        client.close()


def readier(cluster: Cluster, state: DeploymentState) -> Callable[[Worker], None]:
    """What makes sure that a new worker answers and has fio."""
    fio = cluster.workers.fio
    content = _read(fio.push) if isinstance(fio, PushedFio) else None
    ssh = Ssh(known_hosts=str(state.known_hosts), policy="strict", config=None, agent=False)

    def ready(worker: Worker) -> None:
        opener = Opener(
            Inventory(workers=(worker,), ssh=ssh),
            local=False,
            report=_report,
            patience_s=SSH_PATIENCE_S,
        )
        make_ready(worker, opener, fio=content)

    return ready


def _read(path: str) -> bytes:
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the fio to be pushed, {path}: {error.strerror}",
            next_step="give the path of a static fio binary (vsphere.workers.fio.push)",
        ) from error


def say(line: str) -> None:
    """One line of progress."""
    # One write, so that lines of several threads don't run into each other.
    sys.stderr.write(f"{line}\n")


def _report(update: Any) -> None:
    if isinstance(update, Notice):
        say(update.text)


def _text(document: Any) -> str:
    return json.dumps(document, indent=1)


def render_layout(layout: Layout) -> str:
    """A plan for people: a line a worker, then what goes, then what can't be."""
    data = layout.as_json()
    lines = [
        f"{worker['name']}  {worker['action']:<7} {worker['host'] or '?'}  "
        f"{worker['datastore'] or '?'}  {worker['address'] or 'dhcp'}"
        + (f"  ({'; '.join(worker['reasons'])})" if worker["reasons"] else "")
        for worker in data["workers"]
    ]
    lines += [f"{item['name']}  remove  ({item['reason']})" for item in data["remove"]]
    lines += [f"host {name}: not used ({why})" for name, why in data["excluded_hosts"].items()]
    lines += [f"note: {remark}" for remark in data["remarks"]]
    lines += [f"problem: {problem}" for problem in data["problems"]]
    return "\n".join(lines)


def render_workers(workers: tuple[Worker, ...], folder: Path) -> str:
    """The ready workers for people, and the next step."""
    lines = [f"{w.name}  {w.host}  {w.host_label}  {len(w.targets)} disks" for w in workers]
    return "\n".join([*lines, f"{len(workers)} workers ready: {folder / 'workers.json'}"])


def _row(machine: Machine, hosts: dict[str, str], ours: str) -> dict[str, Any]:
    mark = machine.mark
    return {
        "name": machine.name,
        "deployment": mark.name if mark else None,
        "id": mark.deployment if mark else None,
        "role": mark.role if mark else None,
        "ours": machine.belongs_to(ours),
        "power": machine.power,
        "host": hosts.get(machine.host or ""),
        "address": machine.guest.ip_address,
    }


def render_rows(rows: list[dict[str, Any]]) -> str:
    """The list for people."""
    lines = [
        f"{row['name']}  {row['role']}  {row['power']}  {row['host'] or '-'}  "
        f"{row['address'] or '-'}  {row['deployment']} {row['id']}"
        + ("" if row["ours"] else "  (not this folder's)")
        for row in rows
    ]
    return "\n".join(lines) or "no VM of hcio's here"

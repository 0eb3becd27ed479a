"""The plan of a deployment: every worker, where it goes, what it differs in, and what can't be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from orchestrator.cluster import Cluster, Ovf, PerHost, Pool, Template, WorkerShape
from orchestrator.errors import NotFoundInVCenter
from orchestrator.problems import nearest
from orchestrator.vsphere.base import Datastore, Host, Machine, Mark, Network, Site
from orchestrator.vsphere.cloudinit import Seed, StaticAddress
from orchestrator.vsphere.keys import KeyPair
from orchestrator.vsphere.placement import Spot, apart, eligible_hosts, spread
from orchestrator.vsphere.wanted import DataDisks, Difference, Wanted, compare

#: Kinds of datastore that decide by themselves how a disk is provisioned.
OWN_PROVISIONING: Final = ("vsan", "NFS", "VVOL")

Action = Literal["keep", "change", "renew", "make"]


@dataclass(frozen=True)
class Source:
    """What is cloned, and how: the VM, the snapshot of a linked clone, and the image's identity."""

    image: str
    machine: Machine | None
    kind: Literal["full", "linked", "instant"] = "full"
    snapshot: str | None = None


@dataclass(frozen=True)
class WorkerPlan:
    """One worker: what there is, what it is to be, and what is done about the difference."""

    wanted: Wanted
    spot: Spot
    action: Action
    reasons: tuple[str, ...] = ()
    machine: Machine | None = None

    @property
    def name(self) -> str:
        """The worker's and the VM's name."""
        return self.wanted.name


@dataclass(frozen=True)
class Layout:
    """Everything that a deploy will do. `surplus` are VMs of ours that are no longer wanted."""

    deployment: str
    workers: tuple[WorkerPlan, ...]
    surplus: tuple[tuple[Machine, str], ...] = ()
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    excluded: Mapping[str, str] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)
    datastores: Mapping[str, str] = field(default_factory=dict)
    image: Source | None = None

    def as_json(self) -> dict[str, Any]:
        """The plan as data, for `--json`."""
        return {
            "deployment": self.deployment,
            "workers": [
                {
                    "name": plan.name,
                    "action": plan.action,
                    "reasons": list(plan.reasons),
                    "host": self.hosts.get(plan.spot.host),
                    "datastore": self.datastores.get(plan.spot.datastore),
                    "address": plan.wanted.seed.static.address if plan.wanted.seed.static else None,
                }
                for plan in self.workers
            ],
            "remove": [{"name": m.name, "reason": reason} for m, reason in self.surplus],
            "problems": list(self.problems),
            "remarks": list(self.remarks),
            "excluded_hosts": dict(self.excluded),
        }


@dataclass(frozen=True)
class Ground:
    """What was found in vCenter before planning: all that a plan depends on.

    `names` is what lies in the folder, `policy` the id of the policy asked for.
    """

    site: Site
    machines: Sequence[Machine]
    names: Mapping[str, str]
    source: Source
    policy: str | None


def plan_layout(
    cluster: Cluster,
    ground: Ground,
    *,
    deployment: str,
    login_key: KeyPair,
    host_keys: Mapping[str, KeyPair] | None = None,
    count: int | None = None,
) -> Layout:
    """Plan. `count` is the number of workers where the inventory says `auto`.

    `host_keys` may be missing for workers that don't exist yet; NotFoundInVCenter names networks
    and datastores that aren't there.
    """
    site, shape = ground.site, cluster.workers
    networks = [_named(site, "network", name, site.networks) for name in cluster.networks]
    stores = [_named(site, "datastore", name, site.datastores) for name in cluster.datastores]
    eligible = eligible_hosts(
        site.hosts,
        names=cluster.hosts,
        datastores={store.ref: store.name for store in stores},
        networks={network.ref: network.name for network in networks},
    )
    if not eligible.hosts:
        why = "; ".join(f"{name}: {reason}" for name, reason in eligible.excluded.items())
        raise NotFoundInVCenter(site.vcenter, "planning", f"no host can take a worker: {why}")
    number = _number(shape, len(eligible.hosts), count)
    names = worker_names(cluster.deployment, number)
    ours, surplus = _ours(ground.machines, deployment, names)
    keys = host_keys or {}
    wanted = {
        name: _wanted(cluster, ground, networks, stores, deployment, login_key, keys.get(name), i)
        for i, name in enumerate(names)
    }
    compared = {name: compare(wanted[name], ours[name]) for name in ours}
    placed = {
        name: Spot(machine.host or "", _datastore_of(machine, stores))
        for name, machine in ours.items()
        if not compared[name].renew
    }
    placement = spread(names, eligible.hosts, stores, placed=placed, each=_each(shape, ground))
    plans = tuple(_plan(wanted[n], placement.spots[n], ours.get(n), compared.get(n)) for n in names)
    new = [plan.name for plan in plans if plan.action in ("make", "renew")]
    remarks = [apart(number, len(eligible.hosts))] if shape.anti_affinity else []
    return Layout(
        deployment=cluster.deployment,
        workers=plans,
        surplus=tuple(surplus),
        problems=(
            *_clashes(ground, new, ours),
            *placement.problems,
            *_pool_problems(shape, number),
        ),
        remarks=tuple(remark for remark in remarks if remark),
        excluded=eligible.excluded,
        hosts={host.ref: host.name for host in site.hosts},
        datastores={store.ref: store.name for store in site.datastores},
        image=ground.source,
    )


def worker_names(deployment: str, number: int) -> list[str]:
    """`bench-001` and so on; three digits at least."""
    width = max(3, len(str(number)))
    return [f"{deployment}-{index:0{width}d}" for index in range(1, number + 1)]


_Thing = Network | Datastore | Host


def _named(site: Site, what: str, name: str, things: Sequence[Any]) -> Any:
    found = [thing for thing in things if thing.name == name]
    if len(found) == 1:
        return found[0]
    names = sorted({thing.name for thing in things})
    close = nearest(name, names)
    text = f"{len(found)} {what}s are named {name!r}" if found else f"no {what} {name!r}"
    hint = f"; did you mean {close!r}?" if close and not found else ""
    raise NotFoundInVCenter(
        site.vcenter,
        "planning",
        f"{text} in the cluster {site.cluster_name}{hint}",
        next_step=f"there are: {', '.join(names) or 'none'}",
    )


def _number(shape: WorkerShape, hosts: int, count: int | None) -> int:
    if isinstance(shape.count, PerHost):
        return shape.count.per_host * hosts
    if shape.count == "auto":
        if count is None:
            raise ValueError("count: auto needs the number that the sizing gave")
        return count
    return shape.count


def _ours(
    machines: Sequence[Machine], deployment: str, names: Sequence[str]
) -> tuple[dict[str, Machine], list[tuple[Machine, str]]]:
    """Our workers by name, and the VMs of ours that have no place. Copies are nobody's."""
    ours: dict[str, Machine] = {}
    surplus: list[tuple[Machine, str]] = []
    for machine in machines:
        if not machine.belongs_to(deployment) or machine.mark is None:
            continue
        if machine.mark.role == "image":
            continue
        if machine.mark.worker not in names:
            surplus.append((machine, "no longer wanted"))
        elif machine.mark.worker in ours:
            surplus.append((machine, f"a second {machine.mark.worker}"))
        else:
            ours[machine.mark.worker] = machine
    return ours, surplus


def _wanted(
    cluster: Cluster,
    ground: Ground,
    networks: Sequence[Network],
    stores: Sequence[Datastore],
    deployment: str,
    login_key: KeyPair,
    host_key: KeyPair | None,
    index: int,
) -> Wanted:
    shape = cluster.workers
    name = worker_names(cluster.deployment, index + 1)[-1]
    own = all(store.kind.startswith(OWN_PROVISIONING) for store in stores)
    disks = shape.disks
    return Wanted(
        name=name,
        mark=Mark(deployment, cluster.deployment, "worker", name),
        cpus=shape.cpus,
        memory=shape.memory,
        disks=DataDisks(disks.count, disks.size, disks.controller, disks.thin, not own),
        networks=tuple((network.identity, network) for network in networks),
        image=ground.source.image,
        seed=Seed(
            instance_id=f"{deployment}-{name}",
            hostname=name,
            user=shape.ssh_user,
            authorized_key=login_key.public,
            host_key_private=host_key.private if host_key else "",
            host_key_public=host_key.public if host_key else "",
            static=_static(shape, index),
            packages=("fio",) if shape.fio == "cloud-init" else (),
            extra=shape.cloud_init,
        ),
        policy=ground.policy,
    )


def _static(shape: WorkerShape, index: int) -> StaticAddress | None:
    pool = shape.addresses
    if not isinstance(pool, Pool):
        return None
    addresses = pool.all()
    if index >= len(addresses):
        return None
    return StaticAddress(addresses[index], pool.prefix, pool.gateway, pool.dns)


def _datastore_of(machine: Machine, stores: Sequence[Datastore]) -> str:
    there = [disk.datastore for disk in machine.disks if disk.datastore]
    return there[0] if there else stores[0].ref


def _each(shape: WorkerShape, ground: Ground) -> int:
    """Bytes that a new worker may come to use: data disks, the image's disks, its swap file."""
    source = ground.source.machine
    image = sum(disk.size for disk in source.disks) if source is not None else 0
    return shape.disks.count * shape.disks.size + image + shape.memory


def _plan(
    wanted: Wanted, spot: Spot, machine: Machine | None, difference: Difference | None
) -> WorkerPlan:
    if machine is None or difference is None:
        return WorkerPlan(wanted, spot, "make")
    if difference.renew:
        return WorkerPlan(wanted, spot, "renew", difference.renew, machine)
    if difference.change is not None:
        return WorkerPlan(wanted, spot, "change", difference.reasons, machine)
    if machine.power != "on":
        return WorkerPlan(wanted, spot, "change", (f"switched {machine.power} -> on",), machine)
    return WorkerPlan(wanted, spot, "keep", (), machine)


def _clashes(ground: Ground, new: Sequence[str], ours: Mapping[str, Machine]) -> tuple[str, ...]:
    mine = {machine.ref for machine in ours.values()}
    return tuple(
        f"{name} already exists and was not made by this deployment"
        for name in new
        if name in ground.names and ground.names[name] not in mine
    )


def _pool_problems(shape: WorkerShape, number: int) -> tuple[str, ...]:
    if not isinstance(shape.addresses, Pool):
        return ()
    size = len(shape.addresses.all())
    return (f"the pool has {size} addresses for {number} workers",) if size < number else ()


def source_identity(shape: WorkerShape, machine: Machine | None, snapshot: str | None) -> str:
    """What a worker's image is known by: it differs when the source is another one."""
    source = shape.source
    if isinstance(source, Template):
        instance = machine.instance if machine is not None else ""
        parts = ["template", source.template, source.clone, instance, snapshot or ""]
    elif isinstance(source, Ovf):
        parts = ["ovf", source.ovf]
    else:
        parts = ["library", source.library, source.item]
    return ":".join(parts)


def with_source(ground: Ground, machine: Machine) -> Ground:
    """The ground once the image's VM is there."""
    return replace(ground, source=replace(ground.source, machine=machine))

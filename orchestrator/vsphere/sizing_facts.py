"""A cluster's facts as inputs of a sizing formula, and what a deployment then asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from orchestrator.cluster import Cluster
from orchestrator.errors import NotFoundInVCenter
from orchestrator.sizing import Sizing
from orchestrator.sizing_inputs import Value
from orchestrator.vsphere.base import Datastore, Host, Machine, VSphere
from orchestrator.vsphere.facts import Demand, Policy, Vsan
from orchestrator.vsphere.observing import Observes

GIB: Final = 2**30


def sizing_inputs(
    stores: Sequence[Datastore], hosts: Sequence[Host], vsan: Vsan | None, policy: Policy | None
) -> dict[str, Value]:
    """Inputs by name, whole GiB. Only what vCenter said; the rest is left to the user or defaults.

    The first datastore is sized for; `policy` is the one in force, None where nobody knows it
    (then failures to tolerate and the like are left open).
    """
    store = stores[0]
    on_vsan = store.kind.startswith("vsan") and vsan is not None
    inputs: dict[str, Value] = {
        "storage": vsan.architecture if vsan is not None and on_vsan else "plain",
        "datastores": len(stores),
        "capacity_gib": store.capacity // GIB,
        "free_gib": store.free // GIB,
        "hosts": sum(store.ref in host.datastores for host in hosts),
    }
    if vsan is not None and on_vsan:
        inputs |= _vsan_inputs(vsan)
        inputs |= _policy_inputs(policy)
    return inputs


def _vsan_inputs(vsan: Vsan) -> dict[str, Value]:
    known: dict[str, Value | None] = {
        "hosts": vsan.hosts,
        "disk_groups": vsan.disk_groups,
        "cache_gib": None if vsan.cache is None else vsan.cache // GIB,
        "all_flash": vsan.all_flash,
        # The witness's disk group is not among those that were counted.
        "witness": False if vsan.disk_groups is not None else None,
        "dedupe": vsan.dedupe,
    }
    return {name: value for name, value in known.items() if value is not None}


def _policy_inputs(policy: Policy | None) -> dict[str, Value]:
    if policy is None or not policy.vsan:
        return {}
    return {
        "failures_to_tolerate": policy.failures_to_tolerate,
        "site_failures_to_tolerate": policy.site_failures_to_tolerate,
        "erasure_coding": policy.erasure_coding,
        "checksum": policy.checksum,
    }


def read_sizing_inputs(vsphere: VSphere, observer: Observes, cluster: Cluster) -> dict[str, Value]:
    """Ask a vCenter for what sizing needs of the inventory's cluster. VSphereError branches."""
    site = vsphere.site(
        cluster.datacenter, cluster.cluster, pool=cluster.resource_pool, folder=cluster.folder
    )
    stores = [store for store in site.datastores if store.name in cluster.datastores]
    if not stores:
        raise NotFoundInVCenter(
            vsphere.host,
            "sizing",
            f"the cluster has none of {', '.join(cluster.datastores)}",
            next_step=f"there are: {', '.join(store.name for store in site.datastores)}",
        )
    asked, policy = cluster.storage_policy, None
    if asked is not None:
        policy = observer.policies(site, asked).get(asked)
    elif stores[0].kind.startswith("vsan"):
        policy = observer.default_policy(stores[0])
    return sizing_inputs(stores, site.hosts, observer.vsan(site), policy)


def demand_of(
    cluster: Cluster,
    source: Machine | None,
    ours: Sequence[Machine],
    stores: Sequence[Datastore],
) -> Demand:
    """What a deployment of this section asks; a count that isn't a number yet is none."""
    shape = cluster.workers
    names = {store.ref: store.name for store in stores}
    existing: dict[str, int] = {}
    for disk in (disk for machine in ours for disk in machine.disks):
        name = names.get(disk.datastore or "")
        if name is not None:
            existing[name] = existing.get(name, 0) + disk.size
    return Demand(
        workers=shape.count if isinstance(shape.count, int) else 0,
        cpus=shape.cpus,
        memory=shape.memory,
        disks=shape.disks.count,
        disk_size=shape.disks.size,
        system_disk=sum(disk.size for disk in source.disks) if source else 0,
        existing=existing,
    )


def apply_sizing(cluster: Cluster, sizing: Sizing) -> Cluster:
    """The section with what a sizing came to, where it says `count: auto`; else as it is."""
    if cluster.workers.count != "auto":
        return cluster
    disks = cluster.workers.disks.model_copy(
        update={"count": sizing.disks_per_worker, "size": sizing.disk_gib * GIB}
    )
    shape = cluster.workers.model_copy(
        update={
            "count": sizing.workers,
            "cpus": sizing.cpus,
            "memory": sizing.memory_gib * GIB,
            "disks": disks,
        }
    )
    return cluster.model_copy(update={"workers": shape})

"""A cluster's facts as inputs of a sizing formula. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from orchestrator.cluster import Cluster
from orchestrator.sizing import Sizing
from orchestrator.sizing_inputs import Value
from orchestrator.vsphere.base import Datastore, Host
from orchestrator.vsphere.facts import Policy, Vsan

GIB: Final = 2**30


def sizing_inputs(
    stores: Sequence[Datastore], hosts: Sequence[Host], vsan: Vsan | None, policy: Policy | None
) -> dict[str, Value]:
    """Inputs by name, whole GiB. Only what vCenter said; the rest is left to the user or defaults.

    The first datastore is sized for; `policy` is the one asked for, None where the datastore's
    default applies (then failures to tolerate and the like are left open).
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

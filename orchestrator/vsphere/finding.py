"""Finding the place that an inventory names: datacenter, cluster, pool, folder, networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import unquote

from pyVmomi import vim

from orchestrator.errors import NotFoundInVCenter
from orchestrator.problems import nearest
from orchestrator.vsphere.base import Datastore, Host, Network, Site
from orchestrator.vsphere.collector import Found, read, traversal
from orchestrator.vsphere.session import Session

_CLUSTER_PATHS: Final = (
    "name",
    "host",
    "datastore",
    "network",
    "resourcePool",
    "configurationEx",
)
_HOST_PATHS: Final = (
    "name",
    "runtime.connectionState",
    "runtime.inMaintenanceMode",
    "datastore",
    "network",
    "summary.hardware.numCpuThreads",
    "summary.hardware.numCpuCores",
    "summary.hardware.memorySize",
)
_STORE_PATHS: Final = (
    "name",
    "summary.type",
    "summary.capacity",
    "summary.freeSpace",
    "summary.accessible",
    "summary.maintenanceMode",
)


def name_of(found: Found) -> str:
    """An object's name, its escaped characters (%2f for a slash) put back."""
    return unquote(str(found.get("name", "")))


def pick(session: Session, step: str, what: str, wanted: str, found: Sequence[Found]) -> Found:
    """The one object of that name; NotFoundInVCenter says what there is instead."""
    same = [item for item in found if name_of(item) == wanted]
    if len(same) == 1:
        return same[0]
    if same:
        raise NotFoundInVCenter(
            session.host,
            step,
            f"{len(same)} {what}s are named {wanted!r}",
            next_step="name it by its path, or rename one of them",
        )
    names = sorted({name_of(item) for item in found})
    close = nearest(wanted, names)
    hint = f"; did you mean {close!r}?" if close else ""
    there = ", ".join(names[:20]) or "none"
    raise NotFoundInVCenter(
        session.host,
        step,
        f"no {what} {wanted!r}{hint}",
        next_step=f"there are: {there}" + (" ..." if len(names) > 20 else ""),
    )


def find_site(
    session: Session, datacenter: str, cluster: str, *, pool: str | None, folder: str | None
) -> Site:
    """Find the place; about ten reads, whatever the size of the cluster."""
    center = _datacenter(session, datacenter)
    place = _cluster(session, center, cluster)
    config = place.get("configurationEx")
    return Site(
        vcenter=session.host,
        datacenter=center.ref,
        cluster=place.ref,
        cluster_name=name_of(place),
        pool=_pool(session, place, pool),
        folder=_folder(session, center, folder),
        hosts=_hosts(session, place.get("host") or ()),
        datastores=_datastores(session, place.get("datastore") or ()),
        networks=_networks(session, place.get("network") or ()),
        drs=_drs(config),
        vsan=bool(getattr(getattr(config, "vsanConfigInfo", None), "enabled", False)),
    )


def _drs(config: Any) -> str | None:
    drs = getattr(config, "drsConfig", None)
    if drs is None or not drs.enabled:
        return None
    return str(drs.defaultVmBehavior or "unknown")


def _datacenter(session: Session, wanted: str) -> Found:
    steps = [traversal(vim.Folder, "childEntity", name="folder", then=("folder",))]
    step = "finding the datacenter"
    paths = {vim.Datacenter: ["name", "vmFolder", "hostFolder"]}
    found = read(session, step, [session.content.rootFolder], paths, steps)
    return pick(session, step, "datacenter", wanted, found)


def _cluster(session: Session, center: Found, wanted: str) -> Found:
    steps = [traversal(vim.Folder, "childEntity", name="folder", then=("folder",))]
    step = "finding the cluster"
    names = read(
        session, step, [center.get("hostFolder")], {vim.ClusterComputeResource: ["name"]}, steps
    )
    chosen = pick(session, step, "cluster", wanted, names)
    return read(session, step, [chosen.obj], {vim.ClusterComputeResource: _CLUSTER_PATHS})[0]


def _pool(session: Session, place: Found, wanted: str | None) -> str:
    root = place.get("resourcePool")
    if wanted is None:
        return str(root._moId)
    steps = [traversal(vim.ResourcePool, "resourcePool", name="pool", then=("pool",))]
    step = "finding the resource pool"
    found = read(session, step, [root], {vim.ResourcePool: ["name", "parent"]}, steps)
    below = [item for item in found if item.ref != root._moId]
    return _by_path(session, step, "resource pool", wanted, below, root._moId)


def _folder(session: Session, center: Found, wanted: str | None) -> str:
    root = center.get("vmFolder")
    if wanted is None:
        return str(root._moId)
    steps = [traversal(vim.Folder, "childEntity", name="folder", then=("folder",))]
    step = "finding the folder"
    found = read(session, step, [root], {vim.Folder: ["name", "parent"]}, steps)
    below = [item for item in found if item.ref != root._moId]
    return _by_path(session, step, "folder", wanted, below, root._moId)


def _by_path(
    session: Session, step: str, what: str, wanted: str, found: Sequence[Found], root: str
) -> str:
    """By name, or by the path below the root (`lab/bench`)."""
    parts = [part for part in wanted.split("/") if part]
    if len(parts) <= 1:
        return pick(session, step, what, parts[0] if parts else wanted, found).ref
    parent = root
    for part in parts:
        level = [item for item in found if getattr(item.get("parent"), "_moId", None) == parent]
        parent = pick(session, step, what, part, level).ref
    return parent


def _hosts(session: Session, refs: Sequence[Any]) -> tuple[Host, ...]:
    if not refs:
        return ()
    found = read(session, "reading the hosts", refs, {vim.HostSystem: _HOST_PATHS})
    return tuple(
        Host(
            ref=item.ref,
            name=name_of(item),
            connected=item.get("runtime.connectionState") == "connected",
            maintenance=bool(item.get("runtime.inMaintenanceMode", False)),
            datastores=frozenset(store._moId for store in item.get("datastore") or ()),
            networks=frozenset(network._moId for network in item.get("network") or ()),
            cpus=int(item.get("summary.hardware.numCpuThreads", 0)),
            cores=int(item.get("summary.hardware.numCpuCores", 0)),
            memory=int(item.get("summary.hardware.memorySize", 0)),
        )
        for item in sorted(found, key=name_of)
    )


def _datastores(session: Session, refs: Sequence[Any]) -> tuple[Datastore, ...]:
    if not refs:
        return ()
    found = read(session, "reading the datastores", refs, {vim.Datastore: _STORE_PATHS})
    return tuple(
        Datastore(
            ref=item.ref,
            name=name_of(item),
            kind=str(item.get("summary.type", "")),
            capacity=int(item.get("summary.capacity", 0)),
            free=int(item.get("summary.freeSpace", 0)),
            accessible=bool(item.get("summary.accessible", False))
            and item.get("summary.maintenanceMode", "normal") == "normal",
        )
        for item in sorted(found, key=name_of)
    )


_KINDS: Final[Mapping[str, Literal["standard", "distributed", "opaque"]]] = {
    "DistributedVirtualPortgroup": "distributed",
    "OpaqueNetwork": "opaque",
}


def _networks(session: Session, refs: Sequence[Any]) -> tuple[Network, ...]:
    if not refs:
        return ()
    step = "reading the networks"
    found = read(
        session,
        step,
        refs,
        {
            vim.Network: ["name"],
            vim.OpaqueNetwork: ["name", "summary"],
            vim.dvs.DistributedVirtualPortgroup: [
                "name",
                "config.key",
                "config.distributedVirtualSwitch",
            ],
        },
    )
    switches = {
        switch._moId: switch
        for item in found
        if (switch := item.get("config.distributedVirtualSwitch")) is not None
    }
    uuids: dict[str, str] = {}
    if switches:
        kind = vim.DistributedVirtualSwitch
        uuids = {
            item.ref: str(item.get("uuid", ""))
            for item in read(session, step, list(switches.values()), {kind: ["uuid"]})
        }
    return tuple(_network(item, uuids) for item in sorted(found, key=name_of))


def _network(item: Found, uuids: Mapping[str, str]) -> Network:
    kind = _KINDS.get(type(item.obj).__name__.rpartition(".")[2], "standard")
    if kind == "distributed":
        switch = getattr(item.get("config.distributedVirtualSwitch"), "_moId", "")
        key = item.get("config.key")
        return Network(item.ref, name_of(item), kind, uuids.get(switch), key)
    summary = item.get("summary")
    if kind == "opaque" and summary is not None:
        return Network(
            item.ref, name_of(item), kind, summary.opaqueNetworkType, summary.opaqueNetworkId
        )
    return Network(item.ref, name_of(item), kind)

"""Whether a deployment has room: space, processors, memory, addresses and names. Pure findings."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping, Sequence
from typing import Final

from orchestrator.cluster import Pool
from orchestrator.preflight import Finding, green, red, worst, yellow
from orchestrator.units import show_size
from orchestrator.vsphere.base import Datastore, Host
from orchestrator.vsphere.facts import Demand, HostState

#: Fill of a datastore that is warned about and refused, percent (HCIBench's limits, inclusive
#: here: above 80 % vSAN moves data by itself, above 90 % it may stop writes).
WARN_PERCENT: Final = 80.0
REFUSE_PERCENT: Final = 90.0
#: How many names or addresses an evidence text lists.
SHOWN: Final = 8


def check_datastores(wanted: Sequence[str], stores: Sequence[Datastore]) -> Finding:
    """Whether each datastore is there, once, and can be used."""
    return worst([_datastore(name, stores) for name in wanted], nothing="no datastore asked")


def _datastore(name: str, stores: Sequence[Datastore]) -> Finding:
    same = [store for store in stores if store.name == name]
    if len(same) != 1:
        known = ", ".join(sorted(store.name for store in stores)) or "none"
        what = f"{len(same)} datastores are named" if same else "there is no datastore"
        return red(f"{what} {name!r}; the cluster has: {known}", "correct datastores")
    if not same[0].accessible:
        return red(f"{name!r} can't be reached", "bring it back, or leave it out of the inventory")
    free, capacity = show_size(same[0].free), show_size(same[0].capacity)
    return green(f"{name} ({same[0].kind}): {free} of {capacity} free")


def check_capacity(
    stores: Sequence[Datastore], demand: Demand, factors: Mapping[str, float]
) -> Finding:
    """The fill of each datastore after the deployment, workers spread over them in turn.

    `factors` maps a datastore's name to its policy's bytes on disk for each byte (1.0 outside
    vSAN). Outside vSAN a worker's memory is added: its swap file is written in full at power-on.
    """
    share = math.ceil(demand.workers / len(stores)) if stores else 0
    return worst(
        [_fill(store, share, demand, factors[store.name]) for store in stores],
        nothing="no datastore to fill",
    )


def _fill(store: Datastore, workers: int, demand: Demand, factor: float) -> Finding:
    swap = 0 if store.kind.startswith("vsan") else demand.memory
    each = demand.data + demand.system_disk + swap
    added = max(0, workers * each - demand.existing.get(store.name, 0)) * factor
    used = store.capacity - store.free
    percent = 100 * (used + added) / store.capacity if store.capacity else math.inf
    evidence = (
        f"{store.name}: {percent:.1f} % full after {workers} workers of {show_size(each)} "
        f"x {factor:.3g} ({show_size(used)} of {show_size(store.capacity)} used now)"
    )
    if percent >= REFUSE_PERCENT:
        return red(evidence, f"stay below {REFUSE_PERCENT:g} %: fewer or smaller disks")
    if percent >= WARN_PERCENT:
        return yellow(evidence, f"vSAN rebalances above {WARN_PERCENT:g} %: use smaller disks")
    return green(evidence)


def check_compute(
    placed: Mapping[str, int],
    hosts: Sequence[Host],
    states: Mapping[str, HostState],
    demand: Demand,
) -> Finding:
    """Processors and memory of each host against what its workers and other machines were given.

    `placed` maps a host's name to how many workers are to run there.
    """
    by_name = {host.name: host for host in hosts}
    return worst(
        [
            finding
            for name, count in placed.items()
            for finding in _host_compute(by_name[name], count, states.get(name), demand)
        ],
        nothing="no worker is placed",
    )


def _host_compute(
    host: Host, workers: int, state: HostState | None, demand: Demand
) -> tuple[Finding, Finding]:
    others_cpus = state.vcpus if state and state.vcpus is not None else 0
    others_memory = state.vm_memory if state and state.vm_memory is not None else 0
    cpus = workers * demand.cpus + others_cpus
    memory = workers * demand.memory + others_memory
    cpu_text = f"{host.name}: {cpus} vCPUs on {host.cpus} threads ({host.cores} cores)"
    memory_text = f"{host.name}: {show_size(memory)} of {show_size(host.memory)} memory"
    cpu = green(cpu_text)
    if cpus > host.cpus:
        cpu = yellow(cpu_text, "workers wait for processors: fewer workers or vCPUs each")
    ram = green(memory_text)
    if memory > host.memory:
        ram = red(memory_text, "workers would swap or not start: fewer workers or less memory")
    return cpu, ram


def check_addresses(
    pool: Pool | None, needed: int, taken: Mapping[str, str], answering: frozenset[str]
) -> Finding:
    """Whether the pool has enough free addresses, in one subnet with its gateway.

    `taken` maps an address to the machine (none of ours) that reports it; `answering` are pool
    addresses that answered on the network though no machine of ours should have them.
    """
    if pool is None:
        return green(f"DHCP hands out the addresses; it must have {needed} to give")
    addresses = pool.all()
    conflicts = {
        a: taken.get(a, "something that answers") for a in addresses if a in taken or a in answering
    }
    free = len(addresses) - len(conflicts)
    findings = [_pool_size(len(addresses), free, needed), *_pool_shape(pool, addresses)]
    if conflicts:
        shown = ", ".join(f"{a} ({who})" for a, who in list(conflicts.items())[:SHOWN])
        findings.append(
            red(
                f"{len(conflicts)} addresses of the pool are in use: {shown}",
                "take them out of the pool, or free them",
            )
        )
    return worst(findings, nothing="no pool")


def _pool_size(size: int, free: int, needed: int) -> Finding:
    text = f"{free} of {size} pool addresses are free, {needed} are needed"
    if free < needed:
        return red(text, "give the pool more addresses, or make fewer workers")
    return green(text)


def _pool_shape(pool: Pool, addresses: Sequence[str]) -> list[Finding]:
    subnet = ipaddress.ip_network(f"{addresses[0]}/{pool.prefix}", strict=False)
    reserved = {str(subnet.network_address), str(subnet.broadcast_address)}
    if subnet.num_addresses <= 2:
        reserved = set()
    findings = []
    outside = [a for a in addresses if ipaddress.ip_address(a) not in subnet]
    if outside:
        findings.append(_shape_red(outside, f"outside {subnet}, the first one's subnet"))
    bad = [a for a in addresses if a in reserved or a in (*pool.dns, pool.gateway)]
    if bad:
        findings.append(_shape_red(bad, "the subnet's own, the gateway or a DNS server"))
    if pool.gateway and ipaddress.ip_address(pool.gateway) not in subnet:
        findings.append(_shape_red([pool.gateway], f"the gateway, outside {subnet}"))
    return findings


def _shape_red(addresses: Sequence[str], what: str) -> Finding:
    return red(f"{', '.join(addresses[:SHOWN])}: {what}", "correct workers.addresses")


def check_names(wanted: Sequence[str], existing: Mapping[str, bool]) -> Finding:
    """Whether names are free; `existing` says of each name in the folder whether it is ours."""
    foreign = [name for name in wanted if existing.get(name) is False]
    if foreign:
        return red(
            f"{len(foreign)} names are taken by objects that hcio did not make: "
            + ", ".join(foreign[:SHOWN]),
            "use another deployment name or folder; hcio touches nothing that it did not make",
        )
    ours = sum(existing.get(name) is True for name in wanted)
    kept = f", {ours} of them by this deployment's own workers" if ours else ""
    return green(f"{len(wanted)} names can be used{kept}")

"""Reading the hosts' state: load, services, clocks, and what others' machines were given."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pyVmomi import vim

from orchestrator.errors import VSphereError
from orchestrator.vsphere.base import Site
from orchestrator.vsphere.collector import Found, read, traversal
from orchestrator.vsphere.facts import HostState
from orchestrator.vsphere.session import Session

_HOST_PATHS: Final = (
    "name",
    "summary.quickStats.overallCpuUsage",
    "summary.quickStats.overallMemoryUsage",
    "summary.hardware.cpuMhz",
    "summary.hardware.numCpuCores",
    "config.service",
    "configManager.dateTimeSystem",
)
_MACHINE_PATHS: Final = (
    "runtime.powerState",
    "runtime.host",
    "config.hardware.numCPU",
    "config.hardware.memoryMB",
)
#: ESXi's key of its SSH service.
SSH_SERVICE: Final = "TSM-SSH"


def vcenter_offset(session: Session, clock: Callable[[], float] = time.time) -> float:
    """The vCenter's clock minus ours, in seconds: its answer against the middle of the call."""

    def ask() -> float:
        before = clock()
        said = session.instance.CurrentTime().timestamp()
        return float(said - (before + clock()) / 2)

    return session.call("reading the vCenter's clock", ask, reads=True)


def read_host_states(
    session: Session, site: Site, ours: Sequence[str], clock: Callable[[], float] = time.time
) -> list[HostState]:
    """Every host of the site: two reads for all, and one call a host for its clock."""
    roots = [vim.HostSystem(host.ref, session.stub) for host in site.hosts]
    hosts = read(session, "reading the hosts' state", roots, {vim.HostSystem: _HOST_PATHS})
    others = _others(session, roots, frozenset(ours))
    return [_state(session, host, others[host.ref], clock) for host in hosts]


def read_placement(
    session: Session, site: Site, machines: Mapping[str, str]
) -> dict[str, str | None]:
    """The host's name of each machine, by worker; None when it is gone or nowhere."""
    names = {host.ref: host.name for host in site.hosts}
    roots = [vim.VirtualMachine(ref, session.stub) for ref in machines.values()]
    if not roots:
        return {}
    paths = {vim.VirtualMachine: ["runtime.host"]}
    found = read(session, "reading where the workers are", roots, paths)
    hosts = {item.ref: _ref(item.get("runtime.host")) for item in found}
    return {
        worker: names.get(host, host) if (host := hosts.get(ref)) else None
        for worker, ref in machines.items()
    }


def _ref(obj: Any) -> str | None:
    return None if obj is None else str(obj._moId)


def _others(
    session: Session, hosts: Sequence[Any], ours: frozenset[str]
) -> Mapping[str, list[Found]]:
    steps = [traversal(vim.HostSystem, "vm", name="vm")]
    wanted = {vim.VirtualMachine: _MACHINE_PATHS}
    by_host: dict[str, list[Found]] = defaultdict(list)
    for machine in read(session, "reading the hosts' machines", hosts, wanted, steps):
        host = _ref(machine.get("runtime.host"))
        if host and machine.get("runtime.powerState") == "poweredOn" and machine.ref not in ours:
            by_host[host].append(machine)
    return by_host


def _state(
    session: Session, host: Found, others: Sequence[Found], clock: Callable[[], float]
) -> HostState:
    mhz, cores = host.get("summary.hardware.cpuMhz"), host.get("summary.hardware.numCpuCores")
    memory = host.get("summary.quickStats.overallMemoryUsage")
    return HostState(
        name=str(host.get("name")),
        ssh=_ssh(host.get("config.service")),
        clock_offset=_clock(session, host, clock),
        cpu_used=host.get("summary.quickStats.overallCpuUsage"),
        cpu_total=mhz * cores if mhz and cores else None,
        memory_used=None if memory is None else memory * 2**20,
        vcpus=sum(machine.get("config.hardware.numCPU", 0) for machine in others),
        vm_memory=sum(machine.get("config.hardware.memoryMB", 0) for machine in others) * 2**20,
        machines=len(others),
    )


def _ssh(services: Any) -> bool | None:
    for service in getattr(services, "service", None) or ():
        if service.key == SSH_SERVICE:
            return bool(service.running)
    return None


def _clock(session: Session, host: Found, clock: Callable[[], float]) -> float | None:
    system = host.get("configManager.dateTimeSystem")
    if system is None:
        return None

    def ask() -> float:
        before = clock()
        said = system.QueryDateTime().timestamp()
        return float(said - (before + clock()) / 2)

    try:
        return session.call(f"reading the clock of {host.get('name')}", ask, reads=True)
    except VSphereError:
        return None  # the check says that it could not be read

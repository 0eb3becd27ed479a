"""Whether a cluster is fit to be measured: hosts, networks, DRS, clocks, load, privileges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from orchestrator.preflight import Finding, green, red, worst, yellow
from orchestrator.units import show_size
from orchestrator.vsphere.base import Host, Network
from orchestrator.vsphere.facts import HostState
from orchestrator.vsphere.placement import Eligible

#: Seconds a host's clock may be off: counters come every 20 s, and vSAN itself objects from 60 s.
CLOCK_WARN: Final = 5.0
CLOCK_REFUSE: Final = 60.0
#: Percent of a host's processors used by others from which figures are known to suffer.
LOAD_WARN_PERCENT: Final = 10.0


def check_hosts(eligible: Eligible, wanted: Sequence[str]) -> Finding:
    """Whether the wanted hosts (none named: all of the cluster) can take a worker."""
    out = {
        name: reason for name, reason in eligible.excluded.items() if not wanted or name in wanted
    }
    shown = "; ".join(f"{name}: {reason}" for name, reason in out.items())
    if not eligible.hosts:
        return red(
            f"no host can be used ({shown or 'the cluster is empty'})",
            "bring hosts out of maintenance, connect them, or give them the datastore and network",
        )
    if wanted and out:
        return red(
            f"hosts that the inventory names can't be used: {shown}",
            "repair them, correct their names, or leave them out",
        )
    names = ", ".join(host.name for host in eligible.hosts)
    if out:
        count = len(eligible.hosts)
        return yellow(
            f"{count} of {count + len(out)} hosts get workers ({shown})",
            "vSAN data still lies on every host; bring the others back unless this is meant",
        )
    return green(f"{len(eligible.hosts)} hosts: {names}")


def check_networks(
    wanted: Sequence[str], networks: Sequence[Network], hosts: Sequence[Host]
) -> Finding:
    """Whether each network exists once and every connected host has it."""
    return worst([_network(name, networks, hosts) for name in wanted], nothing="no network asked")


def _network(name: str, networks: Sequence[Network], hosts: Sequence[Host]) -> Finding:
    same = [network for network in networks if network.name == name]
    if not same:
        known = ", ".join(sorted({network.name for network in networks}))
        return red(f"there is no network {name!r}; the cluster has: {known}", "correct networks")
    switches = {network.switch for network in same}
    if len(same) > 1 and len(switches) > 1:
        return red(
            f"{len(same)} networks are named {name!r}, on different switches",
            "rename one, so that no worker gets on the wrong one",
        )
    up = [host for host in hosts if host.connected and not host.maintenance]
    lacking = [host.name for host in up if not {network.ref for network in same} & host.networks]
    if lacking:
        return red(
            f"{name!r} is missing on {', '.join(lacking)}",
            "add the port group or switch there, or leave these hosts out",
        )
    return green(f"{name!r} is on {len(up)} hosts ({same[0].kind})")


def check_drs(automation: str | None, pinned: bool) -> Finding:
    """Whether DRS may move a worker in the middle of a case."""
    if automation != "fullyAutomated" or pinned:
        how = "workers are pinned" if pinned else f"DRS is {automation or 'off'}"
        return green(f"{how}: no worker is moved by itself")
    return yellow(
        "DRS is fully automated: it may move a worker during a case, whose verdict is then unknown",
        "set workers.pin_hosts: true, or DRS to partially automated while measuring",
    )


def check_clocks(states: Sequence[HostState]) -> Finding:
    """Whether the hosts' clocks agree with this machine's; counters are read by them."""
    return worst([_clock(state) for state in states], nothing="no host")


def _clock(state: HostState) -> Finding:
    if state.clock_offset is None:
        return red(f"{state.name}: its clock could not be read", "see whether the host answers")
    text = f"{state.name}: {state.clock_offset:+.1f} s"
    if abs(state.clock_offset) >= CLOCK_REFUSE:
        return red(text, "set NTP on this host, or on this machine: vSAN itself objects from 60 s")
    if abs(state.clock_offset) >= CLOCK_WARN:
        return yellow(text, "set NTP; until then the counters' window is shifted by this much")
    return green(text)


def check_ssh(states: Sequence[HostState], needed: bool) -> Finding:
    """Whether ESXi's SSH service runs where clearing the cache needs it."""
    if not needed:
        return green("not needed: nothing is cleared over SSH")
    off = [state.name for state in states if state.ssh is not True]
    if off:
        return red(
            f"SSH does not run on {', '.join(off)}",
            "start TSM-SSH on these hosts (Host, Configure, Services); then try by address, by "
            "name, and the firewall's port 22",
        )
    return green(f"SSH runs on {len(states)} hosts")


def check_load(states: Sequence[HostState]) -> Finding:
    """How much the cluster does already for others: it takes part in every figure."""
    return worst([_load(state) for state in states], nothing="no host")


def _load(state: HostState) -> Finding:
    if state.cpu_used is None or not state.cpu_total:
        return red(f"{state.name}: its load could not be read", "see whether the host answers")
    percent = 100 * state.cpu_used / state.cpu_total
    text = f"{state.name}: {percent:.0f} % processor"
    if state.memory_used is not None:
        text += f", {show_size(state.memory_used)} memory"
    if state.machines:
        text += f", {state.machines} other machines on"
    if percent >= LOAD_WARN_PERCENT:
        return yellow(text, "stop other work, or know that it is part of every figure")
    return green(text)


def check_privileges(missing: Mapping[str, Sequence[str]]) -> Finding:
    """Whether the user may do what a deployment needs; `missing` is by the object's name."""
    lacking = {place: rights for place, rights in missing.items() if rights}
    if not lacking:
        return green("the user has every privilege that a deployment needs")
    text = "; ".join(f"{place}: {', '.join(rights)}" for place, rights in lacking.items())
    return red(f"the user lacks {text}", "give the user a role with these privileges there")


def check_resolution(answers: Mapping[str, Sequence[str] | None]) -> Finding:
    """Whether each name leads to an address here; None or empty: it does not (case 51)."""
    lost = [name for name, addresses in answers.items() if not addresses]
    if lost:
        return red(
            f"no address for {', '.join(lost)}",
            "correct the name, this machine's DNS, or add it to /etc/hosts",
        )
    return green(f"{len(answers)} names resolve")

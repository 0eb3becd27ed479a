"""What a storage policy costs and needs, and whether it can be had where it is asked for.

Hosts needed are vSAN's own rules: 2 x FTT + 1 for mirrors; for RAID-5 four hosts on OSA and three
on ESA (which then writes 2+1), for RAID-6 six.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Final

from orchestrator.preflight import Finding, green, red, worst, yellow
from orchestrator.vsphere.facts import Architecture, Policy

#: ESA writes RAID-5 as 4+1 from six hosts on and as 2+1 below.
_ESA_WIDE_RAID5_HOSTS: Final = 6


def amplification(policy: Policy, architecture: Architecture, hosts: int) -> float:
    """Bytes on disk for each byte of a worker; 1.0 for a policy that asks nothing of vSAN."""
    if not policy.vsan:
        return 1.0
    sites = policy.site_failures_to_tolerate
    if policy.erasure_coding:
        local, copies = _local_failures(policy), 1 + (policy.failures_to_tolerate if sites else 0)
        return copies * _erasure_factor(local, architecture, hosts)
    return float((policy.failures_to_tolerate + 1) * (sites + 1))


def _local_failures(policy: Policy) -> int:
    """The failures that parity must cover: inside a site where there are two."""
    return policy.site_failures_to_tolerate or policy.failures_to_tolerate


def _erasure_factor(failures: int, architecture: Architecture, hosts: int) -> float:
    if failures >= 2:
        return 1.5
    if architecture == "osa":
        return 4 / 3
    return 1.25 if hosts >= _ESA_WIDE_RAID5_HOSTS else 1.5


def hosts_needed(policy: Policy, architecture: Architecture) -> int:
    """The least number of hosts that can hold an object of this policy."""
    if not policy.vsan:
        return 1
    if policy.erasure_coding:
        local = _local_failures(policy)
        one_site = {1: 4 if architecture == "osa" else 3, 2: 6}.get(local, 2 * local + 1)
        return one_site * (2 if policy.site_failures_to_tolerate else 1)
    if policy.site_failures_to_tolerate:
        return 2 * (2 * policy.site_failures_to_tolerate + 1)
    return 2 * policy.failures_to_tolerate + 1


def check_policy(
    asked: str | None,
    policies: Mapping[str, Policy],
    datastores: Sequence[str],
    *,
    architecture: Architecture | None,
    hosts: int,
) -> Finding:
    """Whether the asked policy is known, possible on so many hosts, and usable on each datastore.

    `architecture` is None where no datastore is vSAN's.
    """
    if asked is None:
        return green("no policy asked: each datastore's own default applies")
    policy = policies.get(asked)
    if policy is None:
        near = difflib.get_close_matches(asked, policies, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        known = ", ".join(sorted(policies)) or "none"
        return red(
            f"there is no storage policy {asked!r}{hint}; vCenter has: {known}",
            "name one of these in storage_policy, or make it in vCenter",
        )
    findings = [_possible(policy, architecture, hosts), _compatible(policy, datastores)]
    if policy.data_service:
        findings.append(
            green("it holds a data service: applied after the clone and before power-on")
        )
    return worst(findings, nothing=asked)


def _possible(policy: Policy, architecture: Architecture | None, hosts: int) -> Finding:
    if architecture is None or not policy.vsan:
        return green(f"{policy.name!r} is known")
    needed = hosts_needed(policy, architecture)
    if needed > hosts:
        return red(
            f"{policy.name!r} needs {needed} hosts, the cluster has {hosts}",
            "take a policy that tolerates fewer failures, or add hosts",
        )
    if architecture == "esa" and not policy.erasure_coding and policy.failures_to_tolerate:
        return yellow(
            f"{policy.name!r} mirrors on ESA, which writes RAID-5/6 as fast with less space",
            "take a RAID-5/6 policy unless mirrors are what you want to measure",
        )
    factor = amplification(policy, architecture, hosts)
    return green(f"{policy.name!r} needs {needed} of {hosts} hosts, {factor:.3g} bytes for one")


def _compatible(policy: Policy, datastores: Sequence[str]) -> Finding:
    if policy.compatible is None:
        return red(
            f"vCenter did not say where {policy.name!r} can be used",
            "look at the policy in vCenter; its storage profile service may be down",
        )
    unfit = [name for name in datastores if name not in policy.compatible]
    if unfit:
        can = ", ".join(sorted(policy.compatible)) or "none"
        return red(
            f"{policy.name!r} can't be used on {', '.join(unfit)}; compatible: {can}",
            "name a compatible datastore, or another policy",
        )
    return green(f"compatible with {', '.join(datastores)}")


def check_disk_policies(asked: str, disks: Mapping[str, str | None]) -> Finding:
    """Whether every disk (name to its policy's name) carries the asked policy, after a clone."""
    wrong = {name: policy for name, policy in disks.items() if policy != asked}
    shown = ", ".join(f"{name}: {policy or 'none'}" for name, policy in sorted(disks.items()))
    if wrong:
        return red(
            f"{len(wrong)} of {len(disks)} disks don't carry {asked!r} ({shown})",
            "deploy again: it applies the policy to every disk",
        )
    return green(f"{len(disks)} disks carry {asked!r}")

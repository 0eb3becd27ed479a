"""Storage policies: what they cost, what they need, and whether they can be had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.preflight import Light
from orchestrator.vsphere.facts import Policy
from orchestrator.vsphere.policies import (
    amplification,
    check_disk_policies,
    check_policy,
    hosts_needed,
)

CASE = Path(__file__).parents[1] / "data" / "cases" / "47-storage-policy"
CLUSTER: dict[str, Any] = json.loads((CASE / "cluster.json").read_text())
STORE = CLUSTER["datastore"]


def _policy(name: str, **rules: Any) -> Policy:
    return Policy(name, f"id-{name}", vsan=True, compatible=frozenset({STORE}), **rules)


POLICIES = {
    policy.name: policy
    for policy in (
        _policy("raid1-ftt1"),
        _policy("raid5-ftt1", erasure_coding=True),
        _policy("raid6-ftt2", erasure_coding=True, failures_to_tolerate=2),
        _policy("encrypt", data_service=True),
    )
}


def _check(asked: str | None, hosts: int = CLUSTER["hosts"]) -> tuple[Light, str]:
    found = check_policy(asked, POLICIES, [STORE], architecture="osa", hosts=hosts)
    return found.light, found.evidence


def test_case_47_the_least_hosts_of_each_policy() -> None:
    """Case 47: each policy needs as many hosts as the case says."""
    needed = {name: hosts_needed(policy, "osa") for name, policy in POLICIES.items()}
    assert needed == {name: rules["min_hosts"] for name, rules in CLUSTER["policies"].items()}


@pytest.mark.parametrize("name", ["raid5-ftt1", "raid6-ftt2"])
def test_case_47_an_impossible_policy_is_refused_up_front(name: str) -> None:
    """Case 47: a policy that needs more hosts than there are is red, with both numbers."""
    light, evidence = _check(name)
    assert light is Light.RED
    assert f"needs {hosts_needed(POLICIES[name], 'osa')} hosts, the cluster has 3" in evidence


def test_case_47_an_unknown_policy_is_refused_with_the_names_there_are() -> None:
    """Case 47: a name that vCenter doesn't know is red, lists all, and hints the nearest."""
    light, evidence = _check("raid1-ft1")
    assert light is Light.RED
    assert "did you mean 'raid1-ftt1'" in evidence
    assert all(name in evidence for name in POLICIES)


def test_case_47_a_data_service_is_announced_as_applied_after_the_clone() -> None:
    """Case 47: a policy with a data service is possible, and when it is applied is said."""
    light, evidence = _check("encrypt")
    assert light is Light.GREEN
    assert "after the clone and before power-on" in evidence


def test_case_47_a_disk_without_the_policy_stops_the_run() -> None:
    """Case 47: home alone is not enough; each disk is listed with the policy that it has."""
    machine = json.loads((CASE / "vm-after-clone.json").read_text())
    found = check_disk_policies("raid1-ftt1", machine["disks"])
    assert found.light is Light.RED
    assert all(f"{disk}: {policy}" in found.evidence for disk, policy in machine["disks"].items())
    good = dict.fromkeys(machine["disks"], "raid1-ftt1")
    assert check_disk_policies("raid1-ftt1", good).light is Light.GREEN
    assert check_disk_policies("raid1-ftt1", good | {"data1": None}).light is Light.RED


def test_a_policy_that_a_datastore_cannot_take_is_refused() -> None:
    """Compatibility is asked for each datastore; what vCenter didn't answer is red too."""
    elsewhere = Policy("p", "1", vsan=True, compatible=frozenset({"other"}))
    unsaid = Policy("p", "1", vsan=True, compatible=None)
    for policy in (elsewhere, unsaid):
        found = check_policy("p", {"p": policy}, [STORE], architecture="osa", hosts=8)
        assert found.light is Light.RED


def test_mirrors_on_esa_are_allowed_with_a_hint() -> None:
    """On ESA a mirror policy is yellow: RAID-5/6 costs less space at the same speed."""
    found = check_policy("raid1-ftt1", POLICIES, [STORE], architecture="esa", hosts=6)
    assert found.light is Light.YELLOW


def test_no_policy_asked_is_green() -> None:
    """Without a policy the datastore's default applies, and that is said."""
    assert _check(None)[0] is Light.GREEN


@pytest.mark.parametrize(
    ("policy", "architecture", "hosts", "factor"),
    [
        (_policy("mirror"), "osa", 4, 2.0),
        (_policy("mirror3", failures_to_tolerate=2), "osa", 6, 3.0),
        (_policy("stretched", site_failures_to_tolerate=1), "osa", 8, 4.0),
        (_policy("raid5", erasure_coding=True), "osa", 4, 4 / 3),
        (_policy("raid5", erasure_coding=True), "esa", 3, 1.5),
        (_policy("raid5", erasure_coding=True), "esa", 6, 1.25),
        (_policy("raid6", erasure_coding=True, failures_to_tolerate=2), "esa", 6, 1.5),
        (
            _policy("stretched raid5", erasure_coding=True, site_failures_to_tolerate=1),
            "osa",
            8,
            8 / 3,
        ),
        (Policy("tags", "t"), "osa", 4, 1.0),
    ],
)
def test_bytes_on_disk_for_each_byte(
    policy: Policy, architecture: Any, hosts: int, factor: float
) -> None:
    """Mirrors count copies; parity counts its stripe; two sites double what each site holds."""
    assert amplification(policy, architecture, hosts) == pytest.approx(factor)

"""The cluster's condition before a measurement, from records of what was seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.preflight import Light
from orchestrator.vsphere.base import Host, Network
from orchestrator.vsphere.condition import (
    check_clocks,
    check_drs,
    check_hosts,
    check_load,
    check_networks,
    check_privileges,
    check_resolution,
    check_ssh,
)
from orchestrator.vsphere.facts import HostState, Vsan, VsanState
from orchestrator.vsphere.placement import Eligible, eligible_hosts
from orchestrator.vsphere.vsan_condition import (
    check_clear_cache,
    check_performance_service,
    check_prepare,
    check_resync,
    check_vsan_health,
)

CASES = Path(__file__).parents[1] / "data" / "cases"


def _host(
    name: str,
    *,
    connected: bool = True,
    maintenance: bool = False,
    datastores: tuple[str, ...] = ("vsanDatastore",),
    networks: tuple[str, ...] = ("bench",),
) -> Host:
    return Host(
        name, name, connected, maintenance, frozenset(datastores), frozenset(networks), 16, 8, 1
    )


def _eligible(hosts: list[Host], *names: str) -> Eligible:
    stores, networks = {"vsanDatastore": "vsanDatastore"}, {"bench": "bench"}
    return eligible_hosts(hosts, names=names, datastores=stores, networks=networks)


def test_case_50_hosts_that_cannot_be_used_are_named_with_their_reason() -> None:
    """Case 50: two of five hosts are eligible; the check says why each other one is not."""
    case = CASES / "50-spread-over-hosts"
    hosts = [
        _host(
            item["name"],
            connected=item["state"] == "connected",
            maintenance=item["maintenance"],
            datastores=tuple(item.get("datastores", ["vsanDatastore"])),
        )
        for item in json.loads((case / "hosts.json").read_text())
    ]
    expected = json.loads((case / "expected.json").read_text())
    found = check_hosts(_eligible(hosts), [])
    assert found.light is Light.YELLOW
    assert found.evidence.startswith("2 of 5 hosts get workers")
    for host, reason in expected["excluded"].items():
        assert f"{host}: {reason}" in found.evidence


def test_a_named_host_that_is_missing_or_unusable_is_red() -> None:
    """Who names hosts means them: none may be missing or out; others don't matter."""
    hosts = [_host("esx1"), _host("esx2", maintenance=True)]

    def light(*names: str) -> Light:
        return check_hosts(_eligible(hosts, *names), names).light

    assert light("esx1") is Light.GREEN
    assert light("esx1", "esx9") is Light.RED
    assert light("esx2") is Light.RED
    assert light("esx1", "esx2") is Light.RED
    assert check_hosts(_eligible([]), []).light is Light.RED


def test_a_network_must_be_on_every_host_that_is_up() -> None:
    """A host that lacks the port group is named; one in maintenance is not asked."""
    networks = [Network("bench", "bench", "standard")]
    hosts = [_host("esx1"), _host("esx2", networks=()), _host("esx3")]
    found = check_networks(["bench"], networks, hosts)
    assert (found.light, found.evidence) == (Light.RED, "'bench' is missing on esx2")
    away = [_host("esx1"), _host("esx2", networks=(), maintenance=True)]
    assert check_networks(["bench"], networks, away).light is Light.GREEN


def test_two_networks_of_one_name_on_different_switches_are_red() -> None:
    """Nobody could say which one a worker gets."""
    networks = [
        Network("dvportgroup-1", "bench", "distributed", "dvs-1", "k1"),
        Network("dvportgroup-2", "bench", "distributed", "dvs-2", "k2"),
    ]
    assert check_networks(["bench"], networks, [_host("esx1")]).light is Light.RED
    assert "has: bench" in check_networks(["bensh"], networks, [_host("esx1")]).evidence


@pytest.mark.parametrize(
    ("automation", "pinned", "light"),
    [
        ("fullyAutomated", False, Light.YELLOW),
        ("fullyAutomated", True, Light.GREEN),
        ("partiallyAutomated", False, Light.GREEN),
        (None, False, Light.GREEN),
    ],
)
def test_drs_warns_only_where_it_moves_workers(
    automation: str | None, pinned: bool, light: Light
) -> None:
    """Fully automated DRS without pinning is the one that moves workers."""
    assert check_drs(automation, pinned).light is light


@pytest.mark.parametrize(
    ("offset", "light"),
    [(0.4, Light.GREEN), (-5.0, Light.YELLOW), (61.0, Light.RED), (None, Light.RED)],
)
def test_clocks_are_judged_by_their_distance_and_unread_ones_are_red(
    offset: float | None, light: Light
) -> None:
    """A clock nobody could read is not a good clock."""
    found = check_clocks([HostState("a", clock_offset=0.0), HostState("b", clock_offset=offset)])
    assert found.light is light
    assert "b: " in found.evidence
    assert ("a: " in found.evidence) is (light is Light.GREEN)


def test_ssh_matters_only_where_a_cache_is_cleared() -> None:
    """Without clearing it is green; with it each host that lacks SSH, or didn't say, is named."""
    states = [HostState("a", ssh=True), HostState("b", ssh=False), HostState("c")]
    assert check_ssh(states, needed=False).light is Light.GREEN
    found = check_ssh(states, needed=True)
    assert (found.light, found.evidence) == (Light.RED, "SSH does not run on b, c")
    assert check_ssh(states[:1], needed=True).light is Light.GREEN


def test_load_of_others_is_a_warning_with_its_size() -> None:
    """Ten percent of a host's processors used by others is said before the run."""
    idle = HostState("a", cpu_used=900, cpu_total=10_000)
    busy = HostState("b", cpu_used=1000, cpu_total=10_000, machines=3)
    assert check_load([idle]).light is Light.GREEN
    assert check_load([idle, busy]).evidence == "b: 10 % processor, 3 other machines on"
    assert check_load([HostState("c")]).light is Light.RED


def test_missing_privileges_are_listed_by_place() -> None:
    """Each place with what lacks there; nothing missing is green."""
    assert check_privileges({"dc1": []}).light is Light.GREEN
    found = check_privileges({"dc1": ["VirtualMachine.Inventory.Create"], "ds": []})
    assert found.evidence == "the user lacks dc1: VirtualMachine.Inventory.Create"


def test_case_51_a_name_that_does_not_resolve_is_named() -> None:
    """Case 51: the host that does not resolve is in the evidence, the others are not."""
    found = check_resolution({"192.0.2.10": ["192.0.2.10"], "esx1.nodomain.invalid": None})
    assert found.light is Light.RED
    assert found.evidence == "no address for esx1.nodomain.invalid"


@pytest.mark.parametrize(
    ("health", "light"),
    [
        ("green", Light.GREEN),
        ("yellow", Light.YELLOW),
        ("red", Light.RED),
        ("unknown", Light.RED),
    ],
)
def test_vsan_health_lists_what_fails(health: str, light: Light) -> None:
    """The failing tests are the evidence; unknown health is red."""
    state = VsanState(health, {"disk balance": "yellow"})  # type: ignore[arg-type]
    found = check_vsan_health(state)
    assert found.light is light
    assert "disk balance: yellow" in found.evidence


def test_a_resync_is_red_with_what_is_left() -> None:
    """Bytes left, objects and vSAN's own estimate are said; an unread state is red as well."""
    busy = check_resync(VsanState("green", {}, 3 * 2**30, 2, 90.0))
    assert busy.light is Light.RED
    assert busy.evidence == "2 objects are resyncing, 3 GiB left, vSAN expects 1m30s"
    assert check_resync(VsanState("green", {}, 0, 0)).light is Light.GREEN
    assert check_resync(VsanState("green")).light is Light.RED
    assert check_resync(None).light is Light.GREEN


def test_performance_service_off_is_a_warning() -> None:
    """The run can go on without it, but its figures will be missing."""
    assert check_performance_service(Vsan("osa", 4, performance_service=True)).light is Light.GREEN
    for state in (False, None):
        found = check_performance_service(Vsan("osa", 4, performance_service=state))
        assert found.light is Light.YELLOW
    assert check_performance_service(None).light is Light.GREEN


def test_clearing_the_cache_is_possible_on_osa_pointless_on_esa_and_unknown_elsewhere() -> None:
    """OSA green, ESA yellow, other storage red unless the user gives a command."""
    lights = [
        check_clear_cache(True, Vsan("osa", 4), False).light,
        check_clear_cache(True, Vsan("esa", 4), False).light,
        check_clear_cache(True, None, False).light,
        check_clear_cache(True, None, True).light,
        check_clear_cache(False, None, False).light,
    ]
    assert lights == [Light.GREEN, Light.YELLOW, Light.RED, Light.GREEN, Light.GREEN]


@pytest.mark.parametrize(
    ("method", "vsan", "light"),
    [
        ("none", None, Light.YELLOW),
        ("zero", None, Light.GREEN),
        ("zero", Vsan("osa", 4, dedupe=False, compression=False), Light.GREEN),
        ("zero", Vsan("osa", 4, dedupe=True), Light.YELLOW),
        ("zero", Vsan("esa", 4), Light.YELLOW),
        ("random", Vsan("esa", 4), Light.GREEN),
    ],
)
def test_the_fill_must_suit_the_storage(method: str, vsan: Vsan | None, light: Light) -> None:
    """No fill, and zeros where they take no space, are warned about."""
    assert check_prepare(method, vsan).light is light

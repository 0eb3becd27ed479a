"""Where workers go."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.vsphere.base import Datastore, Host
from orchestrator.vsphere.placement import Spot, apart, eligible_hosts, spread

CASE = Path(__file__).parents[1] / "data" / "cases" / "50-spread-over-hosts"
GIB = 2**30


def store(name: str, free: int = 1000 * GIB) -> Datastore:
    """A datastore whose ref is its name."""
    return Datastore(name, name, "vsan", 2 * free, free, True)


def host(name: str, **other: Any) -> Host:
    """A host whose ref is its name, on `net` and with `vsanDatastore` unless said otherwise."""
    values: dict[str, Any] = {
        "connected": True,
        "maintenance": False,
        "datastores": frozenset({"vsanDatastore"}),
        "networks": frozenset({"net"}),
        "cpus": 8,
        "cores": 4,
        "memory": 64 * GIB,
    }
    return Host(name, name, **(values | other))


def test_case_50_spread_over_hosts() -> None:
    """Case 50: 4 + 3 on the two usable hosts, with the reason for each other one."""
    expected = json.loads((CASE / "expected.json").read_text())
    hosts = [
        host(
            item["name"],
            connected=item["state"] == "connected",
            maintenance=item["maintenance"],
            datastores=frozenset(item.get("datastores", ["vsanDatastore"])),
        )
        for item in json.loads((CASE / "hosts.json").read_text())
    ]
    found = eligible_hosts(
        hosts, names=(), datastores={"vsanDatastore": "vsanDatastore"}, networks={"net": "net"}
    )
    assert [item.name for item in found.hosts] == expected["eligible"]
    assert found.excluded == expected["excluded"]
    workers = [f"w{n}" for n in range(7)]
    placed = spread(workers, found.hosts, [store("vsanDatastore")], placed={}, each=GIB)
    assert Counter(spot.host for spot in placed.spots.values()) == expected["placement"]
    assert apart(7, 2) == "a keep-apart rule with 7 VMs on 2 hosts cannot hold"
    assert apart(2, 2) is None


def test_a_host_needs_every_network_and_the_inventorys_word() -> None:
    """A host without the network, one not named, and a name without a host are all excluded."""
    hosts = [host("a"), host("b", networks=frozenset()), host("c")]
    found = eligible_hosts(
        hosts,
        names=("a", "b", "x"),
        datastores={"vsanDatastore": "vsanDatastore"},
        networks={"net": "VM Network"},
    )
    assert [item.name for item in found.hosts] == ["a"]
    assert found.excluded == {
        "b": "is not on the network VM Network",
        "c": "not among the inventory's hosts",
        "x": "not in the cluster",
    }


def test_those_that_exist_stay_and_count() -> None:
    """New workers fill up the hosts that have fewer."""
    hosts = [host("a"), host("b")]
    placed = {"w0": Spot("a", "vsanDatastore"), "w1": Spot("a", "vsanDatastore")}
    found = spread(["w0", "w1", "w2", "w3"], hosts, [store("vsanDatastore")], placed=placed, each=1)
    assert [found.spots[f"w{n}"].host for n in range(4)] == ["a", "a", "b", "b"]


def test_a_full_datastore_is_passed_over_and_a_shortage_said() -> None:
    """Room decides before evenness; what doesn't fit anywhere is a problem with its figures."""
    both = host("a", datastores=frozenset({"small", "big"}))
    stores = [store("small", 10 * GIB), store("big", 30 * GIB)]
    workers = [f"w{n}" for n in range(4)]
    found = spread(workers, [both], stores, placed={}, each=10 * GIB)
    assert Counter(spot.datastore for spot in found.spots.values()) == {"small": 1, "big": 3}
    assert found.problems == ()
    short = spread([*workers, "w4"], [both], stores, placed={}, each=10 * GIB)
    assert short.problems == (
        "5 x 10 GiB does not fit in 40 GiB free on small, big (no room for w4)",
    )


@given(st.integers(1, 40), st.integers(1, 8), st.integers(1, 4))
def test_the_spread_is_even(workers: int, hosts: int, stores: int) -> None:
    """No host has two more than another, and no datastore either where all hosts see all."""
    names = [f"ds{n}" for n in range(stores)]
    found = spread(
        [f"w{n}" for n in range(workers)],
        [host(f"h{n}", datastores=frozenset(names)) for n in range(hosts)],
        [store(name) for name in names],
        placed={},
        each=1,
    )
    assert not found.problems
    by_host = Counter({f"h{n}": 0 for n in range(hosts)})
    by_host.update(spot.host for spot in found.spots.values())
    assert max(by_host.values()) - min(by_host.values()) <= 1
    for number in range(hosts):
        mine = Counter(dict.fromkeys(names, 0))
        mine.update(s.datastore for s in found.spots.values() if s.host == f"h{number}")
        assert max(mine.values()) - min(mine.values()) <= 1

"""Where workers go: which hosts can take one and why the others can't, and an even spread. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.units import show_size
from orchestrator.vsphere.base import Datastore, Host


@dataclass(frozen=True)
class Eligible:
    """The hosts that can take a worker, and by name the reason why each other one can't."""

    hosts: tuple[Host, ...]
    excluded: Mapping[str, str]


@dataclass(frozen=True)
class Spot:
    """A host and a datastore, by ref."""

    host: str
    datastore: str


@dataclass(frozen=True)
class Placement:
    """A spot for every worker, and what can't hold, in words."""

    spots: Mapping[str, Spot]
    problems: tuple[str, ...] = ()


def eligible_hosts(
    hosts: Sequence[Host],
    *,
    names: Sequence[str],
    datastores: Mapping[str, str],
    networks: Mapping[str, str],
) -> Eligible:
    """Sort the hosts out. `names` empty means all; `datastores` and `networks`: name by ref.

    A host needs one of the datastores, and all of the networks.
    """
    usable: list[Host] = []
    excluded: dict[str, str] = {}
    for host in hosts:
        reason = _unusable(host, names, datastores, networks)
        if reason is None:
            usable.append(host)
        else:
            excluded[host.name] = reason
    for name in names:
        if all(host.name != name for host in hosts):
            excluded[name] = "not in the cluster"
    return Eligible(tuple(usable), excluded)


def _unusable(
    host: Host,
    names: Sequence[str],
    datastores: Mapping[str, str],
    networks: Mapping[str, str],
) -> str | None:
    if names and host.name not in names:
        return "not among the inventory's hosts"
    if not host.connected:
        return "disconnected"
    if host.maintenance:
        return "maintenance mode"
    if not host.datastores & set(datastores):
        return f"does not see {' or '.join(datastores.values())}"
    missing = [name for ref, name in networks.items() if ref not in host.networks]
    if missing:
        return f"is not on the network {', '.join(missing)}"
    return None


def spread(
    workers: Sequence[str],
    hosts: Sequence[Host],
    datastores: Sequence[Datastore],
    *,
    placed: Mapping[str, Spot],
    each: int,
) -> Placement:
    """Give every worker a host and a datastore, round-robin, remainders on the first ones.

    `placed` holds those that exist: they stay and are counted. `each` is the bytes that one new
    worker may come to use. Datastores without room are passed over; when none is left the least
    bad one is taken and a problem says so. `hosts` must not be empty.
    """
    spots: dict[str, Spot] = {}
    by_host: Counter[str] = Counter(spot.host for spot in placed.values())
    by_store: Counter[str] = Counter(spot.datastore for spot in placed.values())
    by_spot: Counter[Spot] = Counter(placed.values())
    room = {store.ref: store.free for store in datastores}
    short: list[str] = []
    for worker in workers:
        if worker in placed:
            spots[worker] = placed[worker]
            continue
        host = min(hosts, key=lambda host: by_host[host.ref])
        seen = [store for store in datastores if store.ref in host.datastores] or list(datastores)
        fitting = [store for store in seen if room[store.ref] >= each]
        store = min(
            fitting or seen,
            key=lambda store: (by_spot[Spot(host.ref, store.ref)], by_store[store.ref]),
        )
        if not fitting:
            short.append(worker)
        room[store.ref] -= each
        by_host[host.ref] += 1
        by_store[store.ref] += 1
        spots[worker] = Spot(host.ref, store.ref)
        by_spot[spots[worker]] += 1
    return Placement(spots, _shortage(workers, placed, datastores, each, short))


def _shortage(
    workers: Sequence[str],
    placed: Mapping[str, Spot],
    datastores: Sequence[Datastore],
    each: int,
    short: Sequence[str],
) -> tuple[str, ...]:
    if not short:
        return ()
    count = sum(1 for worker in workers if worker not in placed)
    free = sum(store.free for store in datastores)
    names = ", ".join(store.name for store in datastores)
    return (
        f"{count} x {show_size(each)} does not fit in {show_size(free)} free on {names} "
        f"(no room for {', '.join(short)})",
    )


def apart(workers: int, hosts: int) -> str | None:
    """What to know of a keep-apart rule: with more workers than hosts it can't hold."""
    if workers <= hosts:
        return None
    return f"a keep-apart rule with {workers} VMs on {hosts} hosts cannot hold"

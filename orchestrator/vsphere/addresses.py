"""Which of a guest's addresses is the one to connect to, and in words why there is none. Pure.

What a guest reports first may be link-local, self-assigned, a container bridge's, another
network's, or left over from the template: only the asked network's and family's counts.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.vsphere.base import Guest, GuestNic

Family = Literal["ipv4", "ipv6", "any"]


@dataclass(frozen=True)
class Choice:
    """The address to connect to, or None and what is awaited."""

    address: str | None
    why: str = ""


def choose_address(
    guest: Guest,
    *,
    network: str,
    family: Family,
    mac: str | None = None,
    expected: str | None = None,
) -> Choice:
    """Choose an address of the card on `network`; `mac` finds it where the name doesn't.

    `expected` is a static address that was set: no other one is taken.
    """
    if not guest.running:
        return Choice(None, "tools not running")
    if not guest.nics:
        return _best([guest.ip_address] if guest.ip_address else [], family, expected)
    cards = _cards(guest.nics, network, mac)
    if not cards:
        return Choice(None, f"no network card on {network}")
    connected = [card for card in cards if card.connected]
    if not connected:
        return Choice(None, "network card not connected")
    return _best([ip for card in connected for ip in card.ips], family, expected)


def _cards(nics: Sequence[GuestNic], network: str, mac: str | None) -> list[GuestNic]:
    if mac is not None:
        same = [nic for nic in nics if nic.mac is not None and nic.mac.lower() == mac.lower()]
        if same:
            return same
    return [nic for nic in nics if nic.network == network]


def _best(ips: Sequence[str], family: Family, expected: str | None) -> Choice:
    found = [address for ip in ips if (address := _parsed(ip)) is not None]
    routable = [address for address in found if not address.is_link_local]
    wanted = [address for address in routable if family in ("any", f"ipv{address.version}")]
    wanted.sort(key=lambda address: address.version)
    if expected is not None:
        if ipaddress.ip_address(expected) in wanted:
            return Choice(expected)
        seen = ", ".join(str(address) for address in wanted)
        return Choice(None, f"waiting for {expected}" + (f", it has {seen}" if seen else ""))
    if wanted:
        return Choice(str(wanted[0]))
    if any(address.is_link_local and address.version == 4 for address in found):
        return Choice(None, "no DHCP answer (169.254...)")
    if routable:
        return Choice(None, f"no {family} address, only {routable[0]}")
    return Choice(None, "no address yet")


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return None if address.is_unspecified or address.is_multicast else address


def duplicates(addresses: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Addresses that more than one worker has, with those workers."""
    owners: dict[str, list[str]] = {}
    for worker, address in addresses.items():
        owners.setdefault(address, []).append(worker)
    return {address: tuple(names) for address, names in owners.items() if len(names) > 1}

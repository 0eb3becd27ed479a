"""Choosing a guest's address."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.vsphere.addresses import choose_address, duplicates
from orchestrator.vsphere.base import Guest, GuestNic

CASE = Path(__file__).parents[1] / "data" / "cases" / "45-which-guest-ip"
EXPECTED: dict[str, Any] = json.loads((CASE / "expected.json").read_text())
GUESTS: dict[str, Any] = json.loads((CASE / "guests.json").read_text())


def guest_of(data: dict[str, Any]) -> Guest:
    """A guest as the case writes it."""
    nics = tuple(GuestNic(n["network"], n["connected"], tuple(n["ips"])) for n in data["net"])
    return Guest(data["tools"] == "guestToolsRunning", data["ipAddress"], nics)


@pytest.mark.parametrize("name", sorted(GUESTS))
def test_case_45_which_guest_ip(name: str) -> None:
    """Case 45: the asked network's and family's address or none, and why there is none."""
    choice = choose_address(
        guest_of(GUESTS[name]), network=EXPECTED["network"], family=EXPECTED["family"]
    )
    assert choice.address == EXPECTED[name]
    assert bool(choice.why) is (choice.address is None)
    if name in EXPECTED["timeouts_say"]:
        assert choice.why == EXPECTED["timeouts_say"][name]


def test_case_45_any_family_takes_a_global_v6() -> None:
    """Case 45: where any family is right, a global IPv6 address is."""
    guest = guest_of(GUESTS["v6-global-only"])
    choice = choose_address(guest, network="bench", family="any")
    assert choice.address == EXPECTED["v6-global-only if family any"]


def test_a_static_address_is_waited_for() -> None:
    """While the guest still has another address than the one that was set, it isn't ready."""
    guest = Guest(True, "10.0.0.9", (GuestNic("bench", True, ("10.0.0.9",)),))
    waiting = choose_address(guest, network="bench", family="ipv4", expected="10.0.0.5")
    assert (waiting.address, waiting.why) == (None, "waiting for 10.0.0.5, it has 10.0.0.9")
    there = choose_address(guest, network="bench", family="ipv4", expected="10.0.0.9")
    assert there.address == "10.0.0.9"


def test_a_card_is_known_by_its_hardware_address_first() -> None:
    """Two port groups may have one name; the card's own address tells them apart."""
    guest = Guest(
        True,
        None,
        (
            GuestNic("bench", True, ("10.1.0.1",), "00:50:56:00:00:01"),
            GuestNic("bench", True, ("10.2.0.1",), "00:50:56:00:00:02"),
        ),
    )
    choice = choose_address(guest, network="bench", family="ipv4", mac="00:50:56:00:00:02")
    assert choice.address == "10.2.0.1"


def test_duplicates_are_found() -> None:
    """Every worker that shares an address is named."""
    found = duplicates({"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.1"})
    assert found == {"10.0.0.1": ("a", "c")}

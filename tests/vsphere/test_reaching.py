"""Reaching a vCenter from here: names, ports, addresses, certificates."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from orchestrator.preflight import Light
from orchestrator.secrets import Secret
from orchestrator.vsphere.reaching import Network, check_ports
from orchestrator.vsphere.session import Login
from tests.vsphere.simulator import Vcsim


@pytest.fixture
def listening() -> Iterator[tuple[str, int]]:
    """A port that takes connections, on a loopback address of its own."""
    with socket.socket() as server:
        server.bind(("127.9.8.7", 0))
        server.listen()
        yield server.getsockname()


def test_a_name_resolves_as_every_connection_will() -> None:
    """Addresses stand for themselves; a reserved name that can't exist has none (RFC 6761)."""
    network = Network()
    assert network.resolve("127.0.0.1") == ("127.0.0.1",)
    assert network.resolve("esx1.nodomain.invalid") == ()


def test_an_open_port_is_told_from_a_closed_one(listening: tuple[str, int]) -> None:
    """None when a connection is taken, the system's own words when not."""
    network = Network()
    host, port = listening
    assert network.refused(host, port) is None
    assert network.refused("127.9.8.6", port) == "Connection refused"


def test_a_closed_port_is_red_and_named() -> None:
    """Each place that is closed stands in the evidence, the open ones don't."""
    found = check_ports({"a:443": None, "b:22": "Connection refused"})
    assert (found.light, found.evidence) == (Light.RED, "b:22: Connection refused")
    assert check_ports({"a:443": None}).light is Light.GREEN


def test_an_address_that_refuses_is_in_use() -> None:
    """A refusal comes from somebody: the address is not free."""
    assert Network().answering(["127.9.8.5"]) == {"127.9.8.5"}
    assert Network().answering([]) == frozenset()


def _login(vcsim: Vcsim, **other: object) -> Login:
    values = {"host": "127.0.0.1", "port": vcsim.port, "user": "u", "password": Secret("p")}
    return Login(**(values | other))  # type: ignore[arg-type]


@pytest.mark.real
def test_certificates_are_judged_as_the_inventory_says(vcsim: Vcsim) -> None:
    """Pinned: green; unknown or another one: red with the ways out; insecure: said out loud."""
    network = Network()
    pinned = network.tls(_login(vcsim, thumbprint=vcsim.thumbprint))
    assert (pinned.light, pinned.evidence) == (Light.GREEN, "the certificate is the pinned one")
    unknown = network.tls(_login(vcsim))
    assert unknown.light is Light.RED
    assert "ca_file" in unknown.next_step
    other = network.tls(_login(vcsim, thumbprint="00" * 32))
    assert other.light is Light.RED
    assert vcsim.thumbprint.replace(":", "").lower() in other.evidence
    assert network.tls(_login(vcsim, insecure=True)).light is Light.YELLOW


@pytest.mark.real
def test_a_ca_file_that_cannot_be_read_is_named(vcsim: Vcsim) -> None:
    """The file's name and trouble are the evidence."""
    found = Network().tls(_login(vcsim, ca_file="/nonexistent/ca.pem"))
    assert found.light is Light.RED
    assert "/nonexistent/ca.pem" in found.evidence

"""Reaching a vCenter and its hosts from this machine: names, ports, certificates, addresses."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from orchestrator.errors import CertificateRejected, HcioError
from orchestrator.preflight import Finding, green, red, yellow
from orchestrator.vsphere.session import Login, connection_class, failure, trust

#: Seconds for one connection, and for one name.
CONNECT_LIMIT: Final = 5.0
ADDRESS_LIMIT: Final = 1.0
ADDRESSES_AT_ONCE: Final = 64
SSH_PORT: Final = 22


class Reaching(Protocol):
    """What the checks ask of the network; a test gives its own."""

    def resolve(self, name: str) -> Sequence[str]:
        """Addresses of a name; empty when it has none."""
        ...

    def refused(self, host: str, port: int) -> str | None:
        """Why no connection can be made, None when one can."""
        ...

    def answering(self, addresses: Sequence[str]) -> frozenset[str]:
        """Those of the addresses at which something is."""
        ...

    def tls(self, login: Login) -> Finding:
        """Whether the vCenter's certificate is trusted as the inventory says."""
        ...


class Network:
    """This machine's own network."""

    def resolve(self, name: str) -> Sequence[str]:
        """Ask the system's resolver, as every later connection will."""
        try:
            found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except OSError:
            return ()
        return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))

    def refused(self, host: str, port: int) -> str | None:
        """Try one TCP connection."""
        try:
            socket.create_connection((host, port), CONNECT_LIMIT).close()
        except OSError as error:
            return error.strerror or str(error) or type(error).__name__
        return None

    def answering(self, addresses: Sequence[str]) -> frozenset[str]:
        """Try SSH's port: who accepts or refuses is there, who is silent is taken to be free."""
        with ThreadPoolExecutor(max_workers=ADDRESSES_AT_ONCE) as pool:
            there = list(pool.map(_is_there, addresses))
        return frozenset(a for a, yes in zip(addresses, there, strict=True) if yes)

    def tls(self, login: Login) -> Finding:
        """Make one TLS connection and say how the certificate was judged."""
        try:
            connection = connection_class(login)(
                login.host, login.port, context=trust(login), timeout=CONNECT_LIMIT
            )
            connection.connect()
            connection.close()
        except CertificateRejected as error:
            return red(error.what, error.next_step)
        except OSError as error:
            told = failure(login, "checking its certificate", error, CONNECT_LIMIT)
            if isinstance(told, HcioError):
                return red(told.what, told.next_step)
            raise
        return _judged(login)


def _is_there(address: str) -> bool:
    try:
        socket.create_connection((address, SSH_PORT), ADDRESS_LIMIT).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return True


def _judged(login: Login) -> Finding:
    if login.insecure:
        return yellow(
            "insecure: true: nobody checks that this is the vCenter that the password is sent to",
            "give ca_file or thumbprint instead",
        )
    if login.thumbprint:
        return green("the certificate is the pinned one")
    by = login.ca_file or "the system's authorities"
    return green(f"the certificate is trusted by {by}")


def check_ports(refusals: Mapping[str, str | None]) -> Finding:
    """Whether each `host:port` takes a connection; maps it to why not, None when it does."""
    closed = {place: why for place, why in refusals.items() if why is not None}
    if not closed:
        return green(f"{', '.join(refusals)} open" if refusals else "no port to try")
    return red(
        "; ".join(f"{place}: {why}" for place, why in closed.items()),
        "see that the host is up, and the firewall between here and there",
    )

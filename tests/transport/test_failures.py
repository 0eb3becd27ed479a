"""Every error of paramiko, the socket and the name service has its place in our tree."""

from __future__ import annotations

import builtins
import errno
import importlib
import pkgutil
import socket

import paramiko
import pytest

from orchestrator.errors import ConnectionLost, HcioError, HostUnreachable
from orchestrator.transport.ssh.failures import MEANINGS, failure, translated

#: These need another operating system to be imported at all.
WINDOWS = {"_winapi", "win_openssh", "win_pageant"}


def paramikos_own() -> set[type[BaseException]]:
    """Every exception class that any module of paramiko defines."""
    found: set[type[BaseException]] = set()
    for info in pkgutil.iter_modules(paramiko.__path__):
        if info.name in WINDOWS:
            continue
        module = importlib.import_module(f"paramiko.{info.name}")
        found |= {
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, BaseException)
            and value.__module__.startswith("paramiko")
        }
    return found


def the_systems_own() -> set[type[BaseException]]:
    """OSError, its built-in subclasses that a connection can meet, and the name service's."""
    network = {
        value
        for value in vars(builtins).values()
        if isinstance(value, type) and issubclass(value, ConnectionError)
    }
    return network - {ConnectionError} | {
        OSError,
        TimeoutError,
        EOFError,
        socket.gaierror,
        socket.herror,
        socket.timeout,
    }


def test_the_walk_finds_what_is_known_to_be_there() -> None:
    """The enumeration below would prove nothing over an empty set."""
    names = {kind.__name__ for kind in paramikos_own()}
    assert {"SSHException", "SFTPError", "NoValidConnectionsError", "PipeTimeout"} <= names
    assert len(names) >= 18


@pytest.mark.parametrize(
    "kind", sorted(paramikos_own() | the_systems_own(), key=str), ids=lambda kind: kind.__name__
)
def test_every_error_has_a_row_of_its_own(kind: type[BaseException]) -> None:
    """A class that a new release of the library brings must be given its meaning here."""
    assert kind in MEANINGS


@pytest.mark.parametrize("opening", [True, False])
@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        OSError(errno.EHOSTUNREACH, "No route to host"),
        OSError(errno.ENETUNREACH, "Network is unreachable"),
        PermissionError(errno.EPERM, "Operation not permitted"),
        TimeoutError("timed out"),
        EOFError(),
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        paramiko.SSHException("Channel closed."),
        paramiko.ChannelException(1, "Administratively prohibited"),
        paramiko.BadAuthenticationType("no", ["publickey"]),
        paramiko.ProxyCommandFailure("nc", 1),
        paramiko.SFTPError("no"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_errors_name_host_and_step(error: Exception, opening: bool) -> None:
    """Whatever comes out of the library leaves as one of ours, the cause behind it."""
    with (
        pytest.raises(HcioError, match=r"w1: a step: .") as caught,
        translated("w1", "a step", opening=opening),
    ):
        raise error
    assert caught.value.__cause__ is error


def test_when_decides_what_a_broken_line_means() -> None:
    """Before a session it is a host that can't be reached, after it a lost connection."""
    assert isinstance(failure(EOFError(), "w1", "s", opening=True), HostUnreachable)
    assert isinstance(failure(EOFError(), "w1", "s", opening=False), ConnectionLost)


def test_too_many_open_files_is_this_machines_fault() -> None:
    """The limit on open files is named, and not tried again."""
    error = failure(OSError(errno.EMFILE, "Too many open files"), "w1", "connect", opening=True)
    assert "ulimit -n" in str(error)
    assert not error.retryable


def test_our_own_errors_pass_through() -> None:
    """An error that is ours already isn't wrapped again."""
    ours = ConnectionLost("w1", "s", "gone")
    with pytest.raises(ConnectionLost) as caught, translated("w1", "other", opening=True):
        raise ours
    assert caught.value is ours

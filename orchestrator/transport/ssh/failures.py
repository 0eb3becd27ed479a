"""Failures: what each error of paramiko, the socket and the name service is in our tree."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

import paramiko
from paramiko.auth_strategy import AuthFailure
from paramiko.ber import BERException
from paramiko.buffered_pipe import PipeTimeout
from paramiko.hostkeys import InvalidHostKey
from paramiko.packet import NeedRekeyException
from paramiko.pkey import UnknownKeyType
from paramiko.ssh_exception import (
    ConfigParseError,
    CouldNotCanonicalize,
    IncompatiblePeer,
    MessageOrderError,
    NoValidConnectionsError,
    PartialAuthentication,
    UnableToAuthenticate,
)

from orchestrator.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectionLost,
    HcioError,
    HostKeyRejected,
    HostUnreachable,
    KeyUnusable,
    TransferFailed,
    TransportError,
)

# Without a handler Python prints the library's own complaints on stderr.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Meaning:
    """What an error is while `opening` a session and `after` it was open, and what to do.

    `again` False: trying the same once more can't help.
    """

    opening: type[TransportError]
    after: type[TransportError]
    means: str = ""
    next_step: str = ""
    again: bool = True


_NETWORK = "check the address, the port, the cable and the firewall"
_LOST = Meaning(
    HostUnreachable,
    ConnectionLost,
    "the connection went away; what runs on the worker goes on there",
    "try again; look at the worker's sshd log when it comes back",
)
_REFUSED = Meaning(AuthenticationFailed, AuthenticationFailed, again=False)
_KEY = Meaning(KeyUnusable, KeyUnusable, "the key file can't be used", again=False)
_NO_ROUTE = Meaning(HostUnreachable, ConnectionLost, "no packet gets there", _NETWORK)

#: Every class has a row of its own; a subclass without one takes its nearest parent's.
MEANINGS: Mapping[type[BaseException], Meaning] = MappingProxyType(
    {
        OSError: _NO_ROUTE,
        TimeoutError: Meaning(
            HostUnreachable, ConnectionLost, "no answer within the time allowed", _NETWORK
        ),
        ConnectionRefusedError: Meaning(
            HostUnreachable,
            ConnectionLost,
            "the machine is there, but nothing listens on this port",
            "check that sshd runs there and which port it listens on",
        ),
        ConnectionResetError: _LOST,
        ConnectionAbortedError: _LOST,
        BrokenPipeError: _LOST,
        EOFError: _LOST,
        socket.gaierror: Meaning(
            HostUnreachable,
            HostUnreachable,
            "the name can't be turned into an address",
            "correct the name in the inventory, or give the address",
            again=False,
        ),
        socket.herror: Meaning(
            HostUnreachable, HostUnreachable, "the name service said no", _NETWORK, again=False
        ),
        NoValidConnectionsError: _NO_ROUTE,
        paramiko.SSHException: _LOST,
        paramiko.AuthenticationException: _REFUSED,
        paramiko.PasswordRequiredException: _KEY,
        paramiko.BadAuthenticationType: _REFUSED,
        PartialAuthentication: _REFUSED,
        UnableToAuthenticate: _REFUSED,
        AuthFailure: _REFUSED,
        UnknownKeyType: _KEY,
        BERException: _KEY,
        paramiko.BadHostKeyException: Meaning(HostKeyRejected, HostKeyRejected, again=False),
        InvalidHostKey: Meaning(HostKeyRejected, HostKeyRejected, again=False),
        paramiko.ChannelException: Meaning(
            HostUnreachable,
            ConnectionLost,
            "the server opened no session or forwarding",
            "raise MaxSessions, or allow TCP forwarding on a jump host",
        ),
        paramiko.ProxyCommandFailure: Meaning(
            HostUnreachable,
            ConnectionLost,
            "the ProxyCommand of the OpenSSH configuration ended",
            "run that command by hand and look at what it says",
        ),
        IncompatiblePeer: Meaning(
            HostUnreachable,
            HostUnreachable,
            "the server and this client share no method",
            "bring the worker's SSH server up to date",
            again=False,
        ),
        CouldNotCanonicalize: Meaning(
            HostUnreachable,
            HostUnreachable,
            "CanonicalizeHostname of the OpenSSH configuration found no name",
            "correct the name or that option",
            again=False,
        ),
        ConfigParseError: Meaning(
            HostUnreachable,
            HostUnreachable,
            "the OpenSSH configuration can't be read",
            "correct the file",
            again=False,
        ),
        MessageOrderError: _LOST,
        NeedRekeyException: _LOST,
        PipeTimeout: Meaning(
            HostUnreachable, ConnectionLost, "the worker sent nothing for too long", _NETWORK
        ),
        paramiko.SFTPError: Meaning(TransferFailed, TransferFailed),
    }
)

CAUGHT: tuple[type[BaseException], ...] = (OSError, EOFError, *MEANINGS)


def failure(error: BaseException, host: str, step: str, *, opening: bool) -> HcioError:
    """Our error for a library's one. `opening`: no session was there yet."""
    if isinstance(error, ConfigParseError):
        return ConfigError(f"{host}: {step}: {error}", next_step="correct ~/.ssh/config")
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return _too_many_files(host, step, error)
    meaning = next(MEANINGS[kind] for kind in type(error).__mro__ if kind in MEANINGS)
    kind = meaning.opening if opening else meaning.after
    ours = kind(host, step, _words(error), means=meaning.means, next_step=meaning.next_step)
    ours.retryable = kind.retryable and meaning.again
    return ours


def _too_many_files(host: str, step: str, error: OSError) -> HostUnreachable:
    ours = HostUnreachable(
        host,
        step,
        error.strerror or "too many open files",
        means="this machine allows fewer open files than there are connections to hold",
        next_step="raise the limit (ulimit -n 8192) and start again",
    )
    ours.retryable = False
    return ours


def _words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).strip() or type(error).__name__


@contextmanager
def translated(host: str, step: str, *, opening: bool) -> Iterator[None]:
    """Let nothing of a library's out of the block."""
    try:
        yield
    except CAUGHT as error:
        raise failure(error, host, step, opening=opening) from error

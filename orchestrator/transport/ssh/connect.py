"""Connecting: socket, jump hosts, greeting, host key and login, each step named when it fails."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import paramiko

from orchestrator.errors import HostUnreachable
from orchestrator.transport.ssh import hostkeys
from orchestrator.transport.ssh.failures import failure, translated
from orchestrator.transport.ssh.keys import KeyCache
from orchestrator.transport.ssh.login import log_in
from orchestrator.transport.ssh.settings import Endpoint, SshSettings, endpoint

#: Seconds between looks of the library's reader for keepalives due. Its own default, 0.1 s,
#: makes a thousand idle connections wake up ten thousand times a second.
_LOOK = 1.0

_RSA_NAMES = ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa")


class Pipe(Protocol):
    """What the library needs of a socket; a forwarded channel and a command have it too."""

    def settimeout(self, timeout: float, /) -> None: ...

    def close(self) -> object: ...


@dataclass
class Connection:
    """A logged-in connection, and those of the jump hosts it goes through."""

    transport: paramiko.Transport
    pipe: Pipe
    through: Connection | None = None

    def close(self) -> None:
        """End it and what it goes through. Safe to call twice."""
        # The reader notices a shut socket at once, a closed one only at its next look.
        shut = getattr(self.pipe, "shutdown", None)
        with suppress(OSError, EOFError, paramiko.SSHException):
            if shut is not None:
                shut(socket.SHUT_RDWR)
        with suppress(OSError, EOFError, paramiko.SSHException):
            self.transport.close()
        if isinstance(self.pipe, paramiko.ProxyCommand):
            _reap(self.pipe.process)
        if self.through is not None:
            self.through.close()


def connect(name: str, settings: SshSettings, keys: KeyCache) -> Connection:
    """Connect and log in, through the jump hosts if any. Raises HostUnreachable,
    HostKeyRejected, KeyUnusable, AuthenticationFailed or ConfigError; leaves nothing open then."""
    end = endpoint(name, settings)
    through: Connection | None = None
    try:
        for jump in end.jumps:
            via = f"{name} (jump host {jump.host})"
            through = _open(via, endpoint(via, jump), keys, through)
        return _open(name, end, keys, through)
    except BaseException:
        if through is not None:
            through.close()
        raise


def _open(name: str, end: Endpoint, keys: KeyCache, through: Connection | None) -> Connection:
    pipe = _pipe(name, end, through)
    with translated(name, "handshake", opening=True):
        transport = paramiko.Transport(pipe)  # type: ignore[arg-type]
    connection = Connection(transport, pipe, through)
    try:
        _shake_hands(name, end, transport)
        log_in(name, end, transport, keys)
        pipe.settimeout(_LOOK)
        if end.settings.keepalive > 0:
            transport.set_keepalive(max(1, round(end.settings.keepalive)))
    except BaseException:
        # The caller closes what it goes through.
        connection.through = None
        connection.close()
        raise
    return connection


def _pipe(name: str, end: Endpoint, through: Connection | None) -> Pipe:
    place = f"connect to {end.address} port {end.port}"
    timeout = end.settings.connect_timeout
    with translated(name, place, opening=True):
        if through is not None:
            return through.transport.open_channel(
                "direct-tcpip", (end.address, end.port), ("127.0.0.1", 0), timeout=timeout
            )
        if end.proxy_command is not None:
            return _proxy(name, end.proxy_command)
        opened = socket.create_connection((end.address, end.port), timeout)
        return _tuned(opened, end.settings.keepalive)


def _proxy(name: str, command: str) -> Pipe:
    program = command.split()[0] if command.split() else ""
    if shutil.which(program) is None:
        raise HostUnreachable(
            name, "ProxyCommand", f"{program!r} is not installed", next_step="install it"
        )
    return _Proxy(command)


class _Proxy(paramiko.ProxyCommand):
    """A proxy command whose process may have ended before it is closed."""

    def close(self) -> None:
        """End the process; one that is gone has ended."""
        with suppress(ProcessLookupError):
            super().close()


def _reap(process: subprocess.Popen[bytes]) -> None:
    """End a ProxyCommand for good; the library only asks it to end."""
    process.terminate()
    try:
        process.wait(_LOOK)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        with suppress(OSError):
            if stream is not None:
                stream.close()


def _tuned(opened: socket.socket, keepalive: float) -> socket.socket:
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # A keepalive that nobody acknowledges ends the connection, instead of after 15 minutes.
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        milliseconds = int(max(30.0, 3 * keepalive) * 1000)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    return opened


def _shake_hands(name: str, end: Endpoint, transport: paramiko.Transport) -> None:
    """Greeting and key exchange, then the host key's check."""
    settings = end.settings
    transport.banner_timeout = settings.greeting_timeout
    transport.auth_timeout = settings.login_timeout
    transport.handshake_timeout = settings.login_timeout
    _ask_for_known_kinds(name, end, transport)
    done = threading.Event()
    with translated(name, "handshake", opening=True):
        transport.start_client(event=done)
    in_time = done.wait(settings.greeting_timeout + settings.login_timeout)
    error = transport.get_exception()
    if error is not None or not in_time or not transport.is_active():
        raise _no_handshake(name, end, transport, error)
    with translated(name, "host key", opening=True):
        key = transport.get_remote_server_key()
    shown = hostkeys.HostKey(key.get_name(), key.asbytes())
    hostkeys.verify(name, end.known_as, shown, end.known_hosts, settings.host_key_policy)


def _ask_for_known_kinds(name: str, end: Endpoint, transport: paramiko.Transport) -> None:
    """A server with several host keys must show the one that is known."""
    kinds = hostkeys.kinds_known(name, end.known_as, end.known_hosts)
    options = transport.get_security_options()
    offered = tuple(options.key_types)
    wanted = [kind for known in kinds for kind in (_RSA_NAMES if known == "ssh-rsa" else (known,))]
    first = tuple(kind for kind in wanted if kind in offered)
    options.key_types = first + tuple(kind for kind in offered if kind not in first)


def _no_handshake(
    name: str, end: Endpoint, transport: paramiko.Transport, error: Exception | None
) -> Exception:
    place = f"{end.address} port {end.port}"
    if transport.remote_version:
        cause = error or EOFError("the server closed the connection")
        return failure(cause, name, f"handshake with {place}", opening=True)
    root = error and error.__context__
    # The library waits for the greeting in a reader of its own and hides why it gave up.
    silent = error is None or isinstance(root, TimeoutError)
    if silent:
        ours = HostUnreachable(
            name,
            f"greeting of {place}",
            f"nothing came within {end.settings.greeting_timeout:g} s",
            means="something listens there, but does not speak SSH, or is overloaded",
            next_step="check the port; raise greeting_timeout when name lookups there are slow",
        )
        # The wait was long enough; another one would hold up everybody else.
        ours.retryable = False
        return ours
    return HostUnreachable(
        name,
        f"greeting of {place}",
        f"dropped before the greeting ({root or error})",
        means="the server has too many logins under way, or refuses this address",
        next_step="lower the number of parallel logins, or raise MaxStartups there",
    )

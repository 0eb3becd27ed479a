"""SSH settings: how one host is reached, and what `~/.ssh/config` adds to it."""

from __future__ import annotations

import getpass
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import paramiko

from orchestrator.errors import ConfigError
from orchestrator.secrets import Secret

HostKeyPolicy = Literal["strict", "accept-new"]

_PORT = 22
#: Tried in this order when nothing else is given, as OpenSSH does.
_USUAL_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")


@dataclass(frozen=True)
class SshSettings:
    """How to reach one host. None means: as the OpenSSH configuration says, else its default.

    Times are in seconds. `jump` is the chain of hosts to pass through, nearest first. `config`
    is an OpenSSH configuration file to read, None for none. With `accept-new`, the key of an
    unknown host is written to `known_hosts`; a changed key is refused under either policy.
    A `key` or a `password` given here is the only thing offered to the server.
    """

    host: str
    port: int | None = None
    user: str | None = None
    key: Path | None = None
    passphrase: Secret | None = None
    password: Secret | None = None
    agent: bool = True
    jump: tuple[SshSettings, ...] = ()
    config: Path | None = None
    known_hosts: Path | None = None
    host_key_policy: HostKeyPolicy = "strict"
    keepalive: float = 10.0
    connect_timeout: float = 15.0
    greeting_timeout: float = 30.0
    login_timeout: float = 30.0
    sudo: bool = False


@dataclass(frozen=True)
class Endpoint:
    """Settings with every question answered. `known_as` is the name in known_hosts."""

    settings: SshSettings
    address: str
    port: int
    user: str
    known_as: str
    known_hosts: Path
    keys: tuple[Path, ...]
    only_keys: bool
    jumps: tuple[SshSettings, ...]
    proxy_command: str | None


def endpoint(name: str, settings: SshSettings) -> Endpoint:
    """Fill in from the configuration file and the defaults. ConfigError when it is unusable."""
    found = _lookup(name, settings)
    address = _word(found, "hostname") or settings.host
    port = settings.port or int(_word(found, "port") or _PORT)
    alias = _word(found, "hostkeyalias") or address
    keys, explicit = _keys(settings, found)
    return Endpoint(
        settings=settings,
        address=address,
        port=port,
        user=settings.user or _word(found, "user") or getpass.getuser(),
        known_as=alias if port == _PORT else f"[{alias}]:{port}",
        known_hosts=_known_hosts(settings, found),
        keys=keys,
        only_keys=explicit,
        jumps=settings.jump or _jumps(settings, _word(found, "proxyjump")),
        proxy_command=None if settings.jump else _word(found, "proxycommand"),
    )


def _lookup(name: str, settings: SshSettings) -> paramiko.SSHConfigDict:
    if settings.config is None:
        return paramiko.SSHConfigDict()
    path = settings.config.expanduser()
    # The first value of an option wins, so what the settings say themselves stands in front;
    # a ProxyCommand's %p and %r then say it too.
    first = ["Host *"]
    first += [f"  Port {settings.port}"] if settings.port else []
    first += [f"  User {settings.user}"] if settings.user else []
    try:
        text = "\n".join([*first, path.read_text("utf-8")])
        return paramiko.SSHConfig.from_text(text).lookup(settings.host)
    except FileNotFoundError:
        return paramiko.SSHConfigDict()
    except (OSError, ValueError, paramiko.SSHException, ImportError) as error:
        raise ConfigError(
            f"{name}: {path}: {error}",
            means="the OpenSSH configuration can't be read",
            next_step="correct the file, or set `config` to none for this worker",
        ) from error


def _keys(settings: SshSettings, found: paramiko.SSHConfigDict) -> tuple[tuple[Path, ...], bool]:
    if settings.key is not None:
        return (settings.key.expanduser(),), True
    if settings.password is not None:
        return (), True
    files = found.get("identityfile")
    if isinstance(files, list) and files:
        return tuple(Path(file).expanduser() for file in files), True
    usual = (Path.home() / ".ssh" / name for name in _USUAL_KEYS)
    return tuple(path for path in usual if path.exists()), False


def _known_hosts(settings: SshSettings, found: paramiko.SSHConfigDict) -> Path:
    if settings.known_hosts is not None:
        return settings.known_hosts.expanduser()
    first = (_word(found, "userknownhostsfile") or "~/.ssh/known_hosts").split()[0]
    return Path(first).expanduser()


def _jumps(settings: SshSettings, text: str | None) -> tuple[SshSettings, ...]:
    if text is None or text == "none":
        return ()
    return tuple(_jump(settings, part.strip()) for part in text.split(","))


def _jump(settings: SshSettings, text: str) -> SshSettings:
    """One `[user@]host[:port]` of ProxyJump. The worker's own key or password stays its own."""
    user, _, place = text.removeprefix("ssh://").rpartition("@")
    host, _, port = place.rpartition(":")
    if not host or not port.isdigit():
        host, port = place, ""
    return replace(
        settings,
        host=host.strip("[]"),
        port=int(port) if port else None,
        user=user or None,
        key=None,
        passphrase=None,
        password=None,
        sudo=False,
    )


def _word(found: paramiko.SSHConfigDict, key: str) -> str | None:
    value = found.get(key)
    return value if isinstance(value, str) else None

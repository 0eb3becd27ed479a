"""Login: what is offered to a server, in which order, and what its refusal means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import paramiko

from orchestrator.errors import AuthenticationFailed, HostUnreachable, KeyUnusable
from orchestrator.secrets import Secret
from orchestrator.transport.ssh.failures import translated
from orchestrator.transport.ssh.keys import KeyCache, inspect
from orchestrator.transport.ssh.settings import Endpoint


@dataclass(frozen=True)
class Offer:
    """One thing to offer: what it is, in words, and how. `make` returns the methods that the
    server wants besides; an empty list when it is satisfied."""

    what: str
    make: Callable[[], list[str]]


def log_in(host: str, end: Endpoint, transport: paramiko.Transport, keys: KeyCache) -> None:
    """Log in, or raise AuthenticationFailed (never worth a second try), KeyUnusable, or
    HostUnreachable when the connection broke before any answer."""
    with _agent_keys(end) as agent:
        _offer_all(host, end, transport, list(_offers(host, end, transport, keys, agent)))


def _offer_all(
    host: str, end: Endpoint, transport: paramiko.Transport, offers: list[Offer]
) -> None:
    refused: list[str] = []
    wanted: list[str] = []
    for offer in offers:
        try:
            with translated(host, "login", opening=True):
                wanted = offer.make()
        except AuthenticationFailed as error:
            _stop_if_broken(host, transport, refused, error)
            refused.append(offer.what)
            wanted = _still_allowed(error) or wanted
            if not transport.is_active():
                break
            continue
        if not wanted:
            return
    raise _refusal(host, end, refused, wanted, offers)


def _still_allowed(error: AuthenticationFailed) -> list[str]:
    cause = error.__cause__
    return list(cause.allowed_types) if isinstance(cause, paramiko.BadAuthenticationType) else []


def _stop_if_broken(
    host: str, transport: paramiko.Transport, refused: list[str], error: AuthenticationFailed
) -> None:
    """A connection that ends before the first answer was not a refusal."""
    timed_out = "timeout" in str(error.__cause__).lower()
    if timed_out or (not transport.is_active() and not refused):
        raise HostUnreachable(
            host,
            "login",
            "no answer in time" if timed_out else "the server closed the connection",
            means="the server neither accepted nor refused",
            next_step="look at the load and at the sshd log there",
        ) from error


def _refusal(
    host: str, end: Endpoint, refused: list[str], wanted: list[str], offers: list[Offer]
) -> AuthenticationFailed:
    if not offers:
        what = f"nothing to offer for user {end.user}: no key, no agent, no password"
        return AuthenticationFailed(
            host, "login", what, next_step="give a key or a password's reference in the inventory"
        )
    accepts = f"; the server asks for {', '.join(wanted)}" if wanted else ""
    return AuthenticationFailed(
        host,
        "login",
        f"user {end.user} was refused (offered: {', '.join(refused) or offers[0].what}){accepts}",
        means="not tried again, because accounts lock",
        next_step="check the user, and that the public key is in its authorized_keys there",
    )


def _offers(
    host: str,
    end: Endpoint,
    transport: paramiko.Transport,
    keys: KeyCache,
    agent: list[paramiko.AgentKey],
) -> Iterator[Offer]:
    passphrase = end.settings.passphrase
    for path in end.keys:
        key = _key(host, path, passphrase, keys, agent, must=end.only_keys)
        if key is not None:
            yield _key_offer(end.user, transport, f"key {path}", key)
    if not end.only_keys:
        for held in agent:
            yield _key_offer(end.user, transport, f"agent key {held.comment}", held)
    if end.settings.password is not None:
        yield Offer("password", _password_offer(end.user, transport, end.settings.password))


def _key(
    host: str,
    path: Path,
    passphrase: Secret | None,
    keys: KeyCache,
    agent: list[paramiko.AgentKey],
    *,
    must: bool,
) -> paramiko.PKey | None:
    """The key of a file, from the agent when it is locked there and the agent holds it."""
    try:
        return keys.load(host, path, passphrase)
    except KeyUnusable:
        public = _public_part(path)
        held = next((key for key in agent if public and key.asbytes() == public), None)
        if held is None and must:
            raise
        return held


def _public_part(path: Path) -> bytes:
    try:
        return inspect(path.read_text("utf-8")).public
    except (OSError, UnicodeDecodeError):
        return b""


def _key_offer(user: str, transport: paramiko.Transport, what: str, key: paramiko.PKey) -> Offer:
    return Offer(what, lambda: list(transport.auth_publickey(user, key)))


def _password_offer(
    user: str, transport: paramiko.Transport, password: Secret
) -> Callable[[], list[str]]:
    def answer(_title: str, _text: str, prompts: list[tuple[str, bool]]) -> list[str]:
        return [password.reveal() for _ in prompts]

    def offer() -> list[str]:
        try:
            return list(transport.auth_password(user, password.reveal(), fallback=False))
        except paramiko.BadAuthenticationType as error:
            # Many appliances take a password only as the answer to a question.
            if "keyboard-interactive" not in error.allowed_types:
                raise
        return list(transport.auth_interactive(user, answer))

    return offer


@contextmanager
def _agent_keys(end: Endpoint) -> Iterator[list[paramiko.AgentKey]]:
    """The agent's keys while the agent is connected; none when it isn't wanted or there."""
    locked = end.only_keys and end.keys and end.settings.passphrase is None
    if not end.settings.agent or (end.only_keys and not locked):
        yield []
        return
    try:
        agent = paramiko.Agent()
    except (OSError, paramiko.SSHException):
        yield []
        return
    try:
        yield list(agent.get_keys())
    finally:
        agent.close()

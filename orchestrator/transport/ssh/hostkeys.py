"""Host keys: what a known_hosts file says about a host, and adding to it."""

from __future__ import annotations

import base64
import binascii
import fcntl
import fnmatch
import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import HostKeyRejected
from orchestrator.transport.ssh.settings import HostKeyPolicy


@dataclass(frozen=True)
class HostKey:
    """A public host key: its type (`ssh-ed25519`) and its bytes on the wire."""

    kind: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """As OpenSSH prints it: `SHA256:...`."""
        digest = base64.b64encode(hashlib.sha256(self.blob).digest()).decode()
        return "SHA256:" + digest.rstrip("=")

    def line(self, name: str) -> str:
        """The key's line in a known_hosts file."""
        return f"{name} {self.kind} {base64.b64encode(self.blob).decode()}\n"


@dataclass(frozen=True)
class Known:
    """What is known about one host: its keys, and keys that must not be trusted."""

    keys: tuple[HostKey, ...]
    revoked: tuple[HostKey, ...] = ()


def known(text: str, name: str) -> Known:
    """Find `name` (`host` or `[host]:port`) in the text of a known_hosts file (sshd(8)):
    plain names, wildcards, negations, hashed names and @revoked. Certificates' lines are
    not understood and give no trust."""
    keys: list[HostKey] = []
    revoked: list[HostKey] = []
    for marker, key in _lines_about(text, name):
        if marker == "@revoked":
            revoked.append(key)
        elif not marker:
            keys.append(key)
    return Known(tuple(keys), tuple(revoked))


def _lines_about(text: str, name: str) -> Iterator[tuple[str, HostKey]]:
    for line in text.splitlines():
        # A cheap look first: a file of a thousand workers is read once a worker.
        if name not in line and not any(sign in line for sign in "|*?"):
            continue
        fields = line.split()
        marker = fields.pop(0) if fields and fields[0].startswith("@") else ""
        if len(fields) < 3 or fields[0].startswith("#") or not _is_about(fields[0], name):
            continue
        try:
            yield marker, HostKey(fields[1], base64.b64decode(fields[2], validate=True))
        except binascii.Error:
            continue


def _is_about(patterns: str, name: str) -> bool:
    if patterns.startswith("|1|"):
        return _is_hash_of(patterns, name)
    hit = False
    for pattern in patterns.split(","):
        # In known_hosts brackets are part of the name, in fnmatch they are a set.
        plain = pattern.removeprefix("!").replace("[", "[[]")
        if fnmatch.fnmatchcase(name, plain):
            if pattern.startswith("!"):
                return False
            hit = True
    return hit


def _is_hash_of(hashed: str, name: str) -> bool:
    try:
        _, _, salt, digest = hashed.split("|")
        made = hmac.new(base64.b64decode(salt), name.encode(), hashlib.sha1).digest()
        return hmac.compare_digest(made, base64.b64decode(digest))
    except (ValueError, binascii.Error):
        return False


def verify(host: str, name: str, key: HostKey, file: Path, policy: HostKeyPolicy) -> None:
    """Return when the key may be trusted; HostKeyRejected when not.

    With `accept-new` an unknown host is added to `file`, under a lock that other threads and
    processes respect.
    """
    if _judge(host, name, key, file, _read(host, file)):
        return
    if policy == "strict":
        raise HostKeyRejected(
            host,
            "host key",
            f"{name} is not in {file}; it showed {key.kind} {key.fingerprint}",
            means="nothing says that this is the host it claims to be",
            next_step=f"compare the fingerprint on the host's console, then add the key to {file} "
            "(ssh-keyscan prints the line), or set the policy accept-new",
        )
    _remember(host, name, key, file)


def _remember(host: str, name: str, key: HostKey, file: Path) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with file.open("a+", encoding="utf-8") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX)
            opened.seek(0)
            text = opened.read()
            # Another thread or process may have met the same host meanwhile.
            if not _judge(host, name, key, file, text):
                opened.write(("" if text.endswith("\n") or not text else "\n") + key.line(name))
                opened.flush()
    except OSError as error:
        raise _unusable(host, file, error) from error


def _judge(host: str, name: str, key: HostKey, file: Path, text: str) -> bool:
    about = known(text, name)
    if key in about.revoked:
        raise _changed(host, name, key, file, "the key is marked @revoked")
    if key in about.keys:
        return True
    if about.keys:
        had = ", ".join(f"{old.kind} {old.fingerprint}" for old in about.keys)
        raise _changed(host, name, key, file, f"known is {had}")
    return False


def _changed(host: str, name: str, key: HostKey, file: Path, why: str) -> HostKeyRejected:
    return HostKeyRejected(
        host,
        "host key",
        f"{name} showed {key.kind} {key.fingerprint}, but {why} ({file})",
        means="the host was installed anew, its address was given to another, "
        "or somebody stands in between",
        next_step=f"when it was installed anew: ssh-keygen -R '{name}' -f {file}, and try again",
    )


def _read(host: str, file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _unusable(host, file, error) from error


def _unusable(host: str, file: Path, error: OSError) -> HostKeyRejected:
    return HostKeyRejected(
        host,
        "host key",
        f"{file} can't be used: {error.strerror}",
        next_step="make the known_hosts file readable, and writable for accept-new",
    )


def kinds_known(host: str, name: str, file: Path) -> tuple[str, ...]:
    """The types of the keys known for this host, so that the server is asked for one of them."""
    return tuple(dict.fromkeys(key.kind for key in known(_read(host, file), name).keys))

"""Private keys: what a key file really is, and loading it."""

from __future__ import annotations

import base64
import binascii
import io
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import paramiko

from orchestrator.errors import KeyUnusable
from orchestrator.secrets import Secret

Condition = Literal["private", "public", "putty", "damaged", "not a key"]

_MAGIC = b"openssh-key-v1\0"
_CLASSES: tuple[tuple[str, type[paramiko.PKey]], ...] = (
    ("ssh-ed25519", paramiko.Ed25519Key),
    ("ecdsa-sha2-", paramiko.ECDSAKey),
    ("ssh-rsa", paramiko.RSAKey),
)
_PEM_KINDS = {
    "RSA PRIVATE KEY": "ssh-rsa",
    "EC PRIVATE KEY": "ecdsa-sha2-",
    "DSA PRIVATE KEY": "ssh-dss",
    "PRIVATE KEY": "",
    "ENCRYPTED PRIVATE KEY": "",
}


@dataclass(frozen=True)
class KeyFile:
    """What a key file is by its text alone. `kind` is `ssh-ed25519`, ...; empty when only the
    decoder can tell. `public` is the public key's bytes where the file shows them."""

    condition: Condition
    kind: str = ""
    locked: bool = False
    public: bytes = b""


def inspect(text: str) -> KeyFile:
    """Tell what a key file is, without its passphrase."""
    stripped = text.strip()
    if stripped.startswith("PuTTY-User-Key-File"):
        return KeyFile("putty")
    if stripped.startswith(("ssh-", "ecdsa-sha2-", "sk-", "---- BEGIN SSH2 PUBLIC")):
        return KeyFile("public")
    if not stripped.startswith("-----BEGIN "):
        return KeyFile("not a key")
    name = stripped.removeprefix("-----BEGIN ").partition("-----")[0]
    if "PUBLIC KEY" in name:
        return KeyFile("public")
    if f"-----END {name}-----" not in stripped:
        return KeyFile("damaged")
    if name == "OPENSSH PRIVATE KEY":
        return _inspect_openssh(stripped)
    if name not in _PEM_KINDS:
        return KeyFile("not a key")
    locked = name.startswith("ENCRYPTED") or "Proc-Type: 4,ENCRYPTED" in stripped
    return KeyFile("private", _PEM_KINDS[name], locked)


def _inspect_openssh(text: str) -> KeyFile:
    """OpenSSH's own format (PROTOCOL.key): magic, cipher, kdf, its options, count, public key."""
    try:
        data = base64.b64decode("".join(text.splitlines()[1:-1]))
        if not data.startswith(_MAGIC):
            return KeyFile("damaged")
        cipher, at = _string(data, len(_MAGIC))
        _, at = _string(data, at)
        _, at = _string(data, at)
        public, _ = _string(data, at + 4)
        kind, _ = _string(public, 0)
    except (binascii.Error, struct.error):
        return KeyFile("damaged")
    return KeyFile("private", kind.decode("ascii", "replace"), cipher != b"none", public)


def _string(data: bytes, at: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from(">I", data, at)
    if at + 4 + length > len(data):
        raise struct.error("the string goes on behind the end")
    return data[at + 4 : at + 4 + length], at + 4 + length


class KeyCache:
    """Keys loaded once and kept: unlocking one takes a tenth of a second, and a thousand
    workers share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[tuple[Path, int, int, Secret | None], paramiko.PKey] = {}

    def load(self, host: str, path: Path, passphrase: Secret | None) -> paramiko.PKey:
        """The private key in a file. KeyUnusable says what is wrong with the file."""
        with self._lock:
            try:
                stat = path.stat()
                name = (path, stat.st_mtime_ns, stat.st_size, passphrase)
                if name not in self._keys:
                    self._keys[name] = load(host, path, path.read_text("utf-8"), passphrase)
            except OSError as error:
                raise _unusable(host, path, error.strerror or "can't be read") from error
            except UnicodeDecodeError:
                # The decoder's error carries the file's bytes, so it must not be chained.
                raise _unusable(host, path, "is not a key file: it is not text") from None
            return self._keys[name]


def load(host: str, path: Path, text: str, passphrase: Secret | None) -> paramiko.PKey:
    """Decode a key file's text. KeyUnusable says what is wrong with it."""
    found = inspect(text)
    if found.condition != "private":
        raise _unusable(host, path, *_WRONG[found.condition])
    if found.locked and passphrase is None:
        raise _unusable(
            host,
            path,
            "needs a passphrase",
            "give its reference (env:, file:, keyring:, prompt) or load the key into an agent",
        )
    classes = [known for kind, known in _CLASSES if found.kind.startswith(kind) or not found.kind]
    if not classes:
        raise _unusable(
            host,
            path,
            f"is a key of the kind {found.kind}, which can't be used",
            "make an ed25519, ecdsa or rsa key",
        )
    return _decode(host, path, text, passphrase if found.locked else None, classes)


def _decode(
    host: str,
    path: Path,
    text: str,
    passphrase: Secret | None,
    classes: list[type[paramiko.PKey]],
) -> paramiko.PKey:
    word = None if passphrase is None else passphrase.reveal()
    for kind in classes:
        read: Callable[..., paramiko.PKey] = kind.from_private_key
        try:
            return read(io.StringIO(text), word)
        except (paramiko.SSHException, ValueError, TypeError, IndexError, struct.error):
            continue
    # Nothing is chained: a decoder's error may show pieces of the key.
    if passphrase is not None:
        raise _unusable(host, path, "does not open with the passphrase given (or is damaged)")
    raise _unusable(host, path, *_WRONG["damaged"])


_WRONG: dict[str, tuple[str, str]] = {
    "public": ("is a public key", "name the private one: the same path without .pub"),
    "putty": (
        "is a PuTTY key",
        "export it in OpenSSH's format with puttygen KEY -O private-openssh -o NEW",
    ),
    "damaged": ("is damaged: it is a private key file, but cut short or changed", "copy it anew"),
    "not a key": ("is not a key file", "name a private key as ssh-keygen makes it"),
}


def _unusable(host: str, path: Path, what: str, next_step: str = "") -> KeyUnusable:
    return KeyUnusable(
        host, "private key", f"{path} {what}", means="no login was tried", next_step=next_step
    )

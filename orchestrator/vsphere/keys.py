"""Key pairs of a deployment: ours to log in with, and one for every worker's own SSH server."""

from __future__ import annotations

from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)


@dataclass(frozen=True)
class KeyPair:
    """An ed25519 pair in OpenSSH's own text forms. The private part is in no repr."""

    private: str
    public: str

    def __repr__(self) -> str:
        return f"KeyPair({self.public})"


def new_pair(comment: str) -> KeyPair:
    """Make a pair; the public text ends in the comment."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return KeyPair(private, f"{public} {comment}")


def known_host(address: str, port: int, public: str) -> str:
    """The line of a known_hosts file."""
    name = address if port == 22 else f"[{address}]:{port}"
    return f"{name} {' '.join(public.split()[:2])}"

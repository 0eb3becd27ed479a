"""The cloud-init data of a worker, and its form in guestinfo. Pure.

JSON is YAML too, so what cloud-init calls YAML is written as JSON here. The host key is made by us
and travels with it: a first connection is verified already. Whoever may read the VM's settings
could read that key, so the guest is told to blank it once it has it (`cleanup-guestinfo`).
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

METADATA, USERDATA = "guestinfo.metadata", "guestinfo.userdata"
ENCODING = "gzip+base64"


@dataclass(frozen=True)
class StaticAddress:
    """A card's address from the pool."""

    address: str
    prefix: int
    gateway: str | None = None
    dns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seed:
    """What a worker's guest is told. `macs` are its cards' hardware addresses in order.

    Without `macs` (one card, whose address isn't known before it exists) any card is meant.
    """

    instance_id: str
    hostname: str
    user: str
    authorized_key: str
    host_key_private: str
    host_key_public: str
    static: StaticAddress | None = None
    macs: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    extra: Mapping[str, Any] | None = None


def metadata(seed: Seed) -> str:
    """The metadata document: identity and network."""
    return _text(
        {
            "instance-id": seed.instance_id,
            "local-hostname": seed.hostname,
            "network": {"version": 2, "ethernets": _cards(seed)},
            "cleanup-guestinfo": ["userdata"],
        }
    )


def _cards(seed: Seed) -> dict[str, Any]:
    if not seed.macs:
        return {"worker0": _card({"name": "e*"}, seed.static)}
    return {
        f"worker{index}": _card(
            {"macaddress": mac.lower()}, seed.static if index == 0 else None, first=index == 0
        )
        for index, mac in enumerate(seed.macs)
    }


def _card(
    match: dict[str, str], static: StaticAddress | None, *, first: bool = True
) -> dict[str, Any]:
    if static is None:
        # Only the first card may set the default route: workers are reached through it.
        other = {} if first else {"dhcp4-overrides": {"use-routes": False}, "optional": True}
        return {"match": match, "dhcp4": True, "dhcp-identifier": "mac", **other}
    card: dict[str, Any] = {
        "match": match,
        "dhcp4": False,
        "addresses": [f"{static.address}/{static.prefix}"],
    }
    if static.gateway:
        card["routes"] = [{"to": "default", "via": static.gateway}]
    if static.dns:
        card["nameservers"] = {"addresses": list(static.dns)}
    return card


def userdata(seed: Seed) -> str:
    """The cloud-config document: the user with our key alone, our host key, packages, extras."""
    ours: dict[str, Any] = {
        "users": [
            {
                "name": seed.user,
                "sudo": "ALL=(ALL) NOPASSWD:ALL",
                "shell": "/bin/sh",
                "lock_passwd": True,
                "ssh_authorized_keys": [seed.authorized_key],
            }
        ],
        "ssh_pwauth": False,
        "ssh_deletekeys": True,
        "ssh_genkeytypes": [],
        "ssh_keys": {
            "ed25519_private": seed.host_key_private,
            "ed25519_public": seed.host_key_public,
        },
        "packages": list(seed.packages),
        "package_update": bool(seed.packages),
    }
    return "#cloud-config\n" + _text(_merged(ours, seed.extra or {}))


def _merged(ours: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """The user's own keys; lists are joined, other values of theirs win."""
    result = dict(ours)
    for key, value in extra.items():
        mine = result.get(key)
        if isinstance(mine, list) and isinstance(value, Sequence) and not isinstance(value, str):
            result[key] = [*mine, *value]
        else:
            result[key] = value
    return result


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)


def packed(text: str) -> str:
    """A document as guestinfo carries it; the same text always gives the same bytes."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")


def unpacked(text: str) -> str:
    """The document of a packed value."""
    return gzip.decompress(base64.b64decode(text)).decode()


def guestinfo(seed: Seed) -> dict[str, str]:
    """The extraConfig entries that carry the seed."""
    return {
        METADATA: packed(metadata(seed)),
        f"{METADATA}.encoding": ENCODING,
        USERDATA: packed(userdata(seed)),
        f"{USERDATA}.encoding": ENCODING,
    }


def fingerprint(seed: Seed) -> str:
    """A hash of everything the guest is told, to find out whether it was told the same."""
    return hashlib.sha256((metadata(seed) + "\0" + userdata(seed)).encode()).hexdigest()[:32]

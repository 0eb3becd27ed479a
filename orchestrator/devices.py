"""Block devices and files of a worker as its own tools list them: trees, signatures, users."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Device:
    """A block device as lsblk lists it, with what a low-level probe found on it.

    `probed` is False when nothing could look at the device itself; `signatures` are blkid's and
    wipefs's names (`ext4`, `LVM2_member`, `pt:gpt`). `number` is major:minor. Sizes are bytes.
    """

    name: str
    path: str
    type: str
    size: int
    read_only: bool = False
    fstype: str | None = None
    pttype: str | None = None
    mountpoints: tuple[str, ...] = ()
    serial: str | None = None
    wwn: str | None = None
    hctl: str | None = None
    model: str | None = None
    number: str | None = None
    signatures: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    swap: bool = False
    probed: bool = True
    writable: bool = True
    children: tuple[Device, ...] = ()

    def below(self) -> Iterator[Device]:
        """This device and everything that stands on it."""
        yield self
        for child in self.children:
            yield from child.below()


@dataclass(frozen=True)
class FileFacts:
    """A path on a worker: `kind` is absent, file, link, block, folder or other; `made_by` is the
    run in hcio's own marker beside it. Sizes in bytes; None is not known."""

    path: str
    kind: str
    size: int | None = None
    made_by: str | None = None
    folder: bool = True
    writable: bool = True
    free: int | None = None
    filesystem: str | None = None


def parse_lsblk(text: str) -> tuple[Device, ...]:
    """The device trees of `lsblk -J -b` (old ones have `mountpoint` instead of `mountpoints`,
    and figures as strings). Raises ValueError when it isn't lsblk's JSON."""
    document = json.loads(text)
    return tuple(_device(entry) for entry in document["blockdevices"])


def _device(entry: Mapping[str, Any]) -> Device:
    mounts = entry.get("mountpoints") or [entry.get("mountpoint")]
    points = tuple(str(point) for point in mounts if point)
    return Device(
        name=entry["name"],
        path=entry.get("path") or f"/dev/{entry['name']}",
        type=entry.get("type") or "",
        size=int(entry.get("size") or 0),
        read_only=_true(entry.get("ro")),
        fstype=entry.get("fstype"),
        pttype=entry.get("pttype"),
        mountpoints=tuple(point for point in points if point != "[SWAP]"),
        swap="[SWAP]" in points,
        serial=_text(entry.get("serial")),
        wwn=_text(entry.get("wwn")),
        hctl=_text(entry.get("hctl")),
        model=_text(entry.get("model")),
        number=_text(entry.get("maj:min")),
        children=tuple(_device(child) for child in entry.get("children") or ()),
    )


def _true(value: Any) -> bool:
    return value in (True, "1", 1)


def _text(value: Any) -> str | None:
    return str(value).strip() or None if value is not None else None


def enrich(devices: Iterable[Device], found: Mapping[str, Device]) -> tuple[Device, ...]:
    """Add to lsblk's trees what was found on each device itself, by major:minor or path.

    What either source says against a device counts: udev's data base may be old or absent.
    """
    return tuple(_enriched(device, found) for device in devices)


def _enriched(device: Device, found: Mapping[str, Device]) -> Device:
    children = enrich(device.children, found)
    more = found.get(device.number or "") or found.get(device.path)
    if more is None:
        return replace(device, children=children)
    return replace(
        device,
        children=children,
        size=more.size,
        read_only=device.read_only or more.read_only,
        number=more.number,
        mountpoints=_both(device.mountpoints, more.mountpoints),
        signatures=_both(device.signatures, more.signatures),
        holders=_both(device.holders, more.holders),
        swap=device.swap or more.swap,
        probed=more.probed,
        writable=more.writable,
    )


def _both(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one + other))


def marks_on(device: Device) -> tuple[str, ...]:
    """What stands on a device, by blkid's and wipefs's names; partition tables as `pt:gpt`."""
    named = (device.fstype,) if device.fstype else ()
    tables = (f"pt:{device.pttype}",) if device.pttype else ()
    return tuple(dict.fromkeys(named + tables + device.signatures))

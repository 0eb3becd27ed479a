"""VMs as vCenter's properties tell them, in our own records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from orchestrator.vsphere import devices
from orchestrator.vsphere.base import MARK, SETTINGS, Guest, GuestNic, Machine, Mark, Power
from orchestrator.vsphere.collector import Found


def setting_path(key: str) -> str:
    """The property path of one extraConfig entry: never the whole list."""
    return f'config.extraConfig["{key}"]'


#: The whole list, for a vCenter that doesn't know the path of a single entry.
ALL_SETTINGS: Final = "config.extraConfig"


def setting_paths(keys: Sequence[str], *, single: bool) -> list[str]:
    """The paths that hold these entries: each by itself, or the one list."""
    return [setting_path(key) for key in keys] if single else [ALL_SETTINGS]


GUEST_PATHS: Final = ("guest.toolsRunningStatus", "guest.ipAddress", "guest.net")
#: What is read of those that are ours.
MACHINE_PATHS: Final = (
    "name",
    "parent",
    "config.instanceUuid",
    "config.template",
    "config.hardware.numCPU",
    "config.hardware.memoryMB",
    "config.hardware.device",
    "runtime.powerState",
    "runtime.host",
    "snapshot.currentSnapshot",
    *GUEST_PATHS,
)

_POWER: Final[Mapping[str, Power]] = {
    "poweredOn": "on",
    "poweredOff": "off",
    "suspended": "suspended",
}


def render_mark(mark: Mark) -> str:
    """A mark as the VM carries it."""
    return json.dumps(
        {
            "deployment": mark.deployment,
            "name": mark.name,
            "role": mark.role,
            "worker": mark.worker,
            "instance": mark.instance,
        },
        sort_keys=True,
    )


def parse_mark(text: str) -> Mark | None:
    """Read a mark; None for what isn't one: a damaged mark makes nothing ours."""
    try:
        data = json.loads(text)
        role: Literal["worker", "image"] = "image" if data["role"] == "image" else "worker"
        values = [data[key] for key in ("deployment", "name", "worker", "instance")]
    except (ValueError, KeyError, TypeError):
        return None
    if not all(isinstance(value, str) and value for value in values):
        return None
    return Mark(values[0], values[1], role, values[2], values[3])


def setting(found: Found, key: str) -> str | None:
    """The text of an extraConfig entry; None where there is none, or an empty one."""
    value = found.get(setting_path(key))
    if value is None:
        entries = found.get(ALL_SETTINGS) or ()
        value = next((entry for entry in entries if entry.key == key), None)
    text = getattr(value, "value", value)
    return str(text) if text else None


def guest_of(props: Mapping[str, Any]) -> Guest:
    """What the tools report."""
    cards = tuple(
        GuestNic(
            network=nic.network or None,
            connected=bool(nic.connected),
            ips=tuple(nic.ipAddress or ()),
            mac=nic.macAddress,
        )
        for nic in props.get("guest.net") or ()
    )
    return Guest(
        running=props.get("guest.toolsRunningStatus") == "guestToolsRunning",
        ip_address=props.get("guest.ipAddress") or None,
        nics=cards,
    )


def machine_of(found: Found) -> Machine:
    """The record of a VM that was read with MACHINE_PATHS and the paths of SETTINGS."""
    settings = {key: text for key in SETTINGS if (text := setting(found, key)) is not None}
    hardware = list(found.get("config.hardware.device") or ())
    host, parent = found.get("runtime.host"), found.get("parent")
    snapshot = found.get("snapshot.currentSnapshot")
    return Machine(
        ref=found.ref,
        name=str(found.get("name", "")),
        instance=str(found.get("config.instanceUuid", "")),
        mark=parse_mark(settings[MARK]) if MARK in settings else None,
        template=bool(found.get("config.template", False)),
        power=_POWER.get(str(found.get("runtime.powerState")), "off"),
        host=host._moId if host is not None else None,
        folder=parent._moId if parent is not None else None,
        cpus=int(found.get("config.hardware.numCPU", 0)),
        memory=int(found.get("config.hardware.memoryMB", 0)) * 2**20,
        disks=devices.disks(hardware),
        nics=devices.nics(hardware),
        guest=guest_of(found.props),
        settings=settings,
        snapshot=snapshot._moId if snapshot is not None else None,
        controllers=devices.controllers(hardware),
    )

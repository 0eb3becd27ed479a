"""What a worker is to be, and how an existing one differs: what stays, changes, or is made anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from orchestrator.units import show_size
from orchestrator.vsphere import cloudinit
from orchestrator.vsphere.base import (
    IMAGE,
    IMAGE_DISKS,
    MARK,
    NEW,
    SEED,
    Change,
    Disk,
    Machine,
    Mark,
    Network,
    NewDisk,
)
from orchestrator.vsphere.cloudinit import Seed
from orchestrator.vsphere.machines import render_mark

DISKS_PER_CONTROLLER: Final = 15
#: Disks that one controller takes before another one is used, as HCIBench spreads them.
SPREAD: Final = 4
#: Buses of data controllers; bus 0 is the image's.
BUSES: Final = (1, 2, 3)
SCSI_OWN_UNIT: Final = 7
#: What the guest needs to see a disk's serial number.
SHOW_SERIALS: Final = "disk.EnableUUID"


@dataclass(frozen=True)
class DataDisks:
    """The data disks of a worker. `thin` None: not compared (vSAN and NFS decide by themselves)."""

    count: int
    size: int
    controller: Literal["pvscsi", "nvme"]
    thin: bool
    thin_counts: bool = True


@dataclass(frozen=True)
class Wanted:
    """One worker as the inventory wants it. `image` identifies the source; `policy` is an id."""

    name: str
    mark: Mark
    cpus: int
    memory: int
    disks: DataDisks
    networks: tuple[tuple[str, Network], ...]
    image: str
    seed: Seed
    policy: str | None = None

    def seed_for(self, machine: Machine) -> Seed | None:
        """The seed with the cards' addresses; None while several cards' aren't known yet."""
        if len(self.networks) == 1:
            return self.seed
        macs = tuple(nic.mac for nic in machine.nics if nic.mac)
        return replace(self.seed, macs=macs) if len(macs) == len(self.networks) else None


@dataclass(frozen=True)
class Difference:
    """What is to be done at a worker. `renew` holds why it must be made anew; else `change`."""

    change: Change | None = None
    reasons: tuple[str, ...] = ()
    renew: tuple[str, ...] = ()


def data_disks(machine: Machine) -> tuple[Disk, ...]:
    """The disks that aren't the image's; none before the image's disks were written down."""
    noted = machine.settings.get(IMAGE_DISKS)
    if noted is None:
        return ()
    image = {int(key) for key in noted.split(",") if key}
    return tuple(disk for disk in machine.disks if disk.key not in image)


def compare(wanted: Wanted, machine: Machine) -> Difference:
    """How a machine differs from what is wanted."""
    seed = wanted.seed_for(machine)
    print_now = machine.settings.get(SEED)
    renew: list[str] = []
    if (image := machine.settings.get(IMAGE)) != wanted.image:
        renew.append(f"image is {image or 'unknown'}, not {wanted.image}")
    if print_now and seed is not None and print_now != cloudinit.fingerprint(seed):
        renew.append("cloud-init data differs (keys, address, user or packages)")
    if renew:
        return Difference(renew=tuple(renew))
    parts = [
        _hardware(wanted, machine),
        _disks(wanted, machine),
        _cards(wanted, machine),
        _policies(wanted, machine),
        _settings(wanted, machine, seed),
    ]
    reasons = tuple(reason for _, why in parts for reason in why)
    if not reasons:
        return Difference()
    change = Change()
    for part, _ in parts:
        change = replace(change, **part)
    return Difference(change=change, reasons=reasons)


_Part = tuple[dict[str, Any], list[str]]


def _hardware(wanted: Wanted, machine: Machine) -> _Part:
    change: dict[str, Any] = {}
    reasons: list[str] = []
    if machine.cpus != wanted.cpus:
        change["cpus"] = wanted.cpus
        reasons.append(f"CPUs {machine.cpus} -> {wanted.cpus}")
    if machine.memory != wanted.memory:
        change["memory"] = wanted.memory
        reasons.append(f"memory {show_size(machine.memory)} -> {show_size(wanted.memory)}")
    return change, reasons


def _fits(disk: Disk, wanted: DataDisks) -> bool:
    thin = not wanted.thin_counts or disk.thin is None or disk.thin == wanted.thin
    return disk.size == wanted.size and disk.controller == wanted.controller and thin


def _disks(wanted: Wanted, machine: Machine) -> _Part:
    """Disks that fit stay, up to the count; others go, and missing ones come."""
    there = data_disks(machine)
    fitting = [disk for disk in there if _fits(disk, wanted.disks)][: wanted.disks.count]
    keep = {disk.key for disk in fitting}
    remove = tuple(disk.key for disk in there if disk.key not in keep)
    missing = wanted.disks.count - len(fitting)
    change: dict[str, Any] = {}
    reasons: list[str] = []
    if remove:
        change["remove_disks"] = remove
        reasons.append(f"{len(remove)} data disks that don't fit go")
    if missing:
        staying = [disk for disk in machine.disks if disk.key not in remove]
        change["add_disks"] = new_disks(missing, wanted, staying, machine.controllers)
        what = f"{show_size(wanted.disks.size)} on {wanted.disks.controller}"
        reasons.append(f"{missing} data disks of {what} come")
    return change, reasons


def new_disks(
    count: int,
    wanted: Wanted,
    staying: Sequence[Disk],
    controllers: Sequence[tuple[str, int]],
) -> tuple[NewDisk, ...]:
    """Places for new disks, spread evenly over the buses that a controller of the kind can have."""
    kind = wanted.disks.controller
    foreign = {bus for other, bus in controllers if other != kind and "nvme" not in (other, kind)}
    taken = {(disk.bus, disk.unit) for disk in staying if disk.controller == kind}
    usage = Counter(bus for bus, _ in taken)
    buses = [bus for bus in BUSES if bus not in foreign]
    needed = max(1, min(len(buses), -(-wanted.disks.count // SPREAD)))
    buses = sorted(buses, key=lambda bus: (-usage[bus], bus))[:needed] if taken else buses[:needed]
    disks: list[NewDisk] = []
    for _ in range(count):
        bus = min(buses, key=lambda bus: (usage[bus], bus))
        unit = next(
            u
            for u in range(DISKS_PER_CONTROLLER + 1)
            if (bus, u) not in taken and not (kind == "pvscsi" and u == SCSI_OWN_UNIT)
        )
        taken.add((bus, unit))
        usage[bus] += 1
        disks.append(NewDisk(wanted.disks.size, kind, bus, unit, wanted.disks.thin, wanted.policy))
    return tuple(disks)


def _cards(wanted: Wanted, machine: Machine) -> _Part:
    now = [nic.network for nic in machine.nics]
    if now == [identity for identity, _ in wanted.networks]:
        return {}, []
    networks = tuple(network for _, network in wanted.networks)
    names = ", ".join(network.name for network in networks)
    return {"networks": networks}, [f"network cards: {names}"]


def _policies(wanted: Wanted, machine: Machine) -> _Part:
    """The home, the image's disks and the data disks all carry the policy asked for."""
    if wanted.policy is None:
        return {}, []
    keys = tuple(disk.key for disk in machine.disks if disk.policy != wanted.policy)
    if not keys and machine.policy == wanted.policy:
        return {}, []
    what = f"{len(keys)} disks" if keys else "the home"
    return {"policy": wanted.policy, "policy_disks": keys}, [f"storage policy of {what}"]


def _settings(wanted: Wanted, machine: Machine, seed: Seed | None) -> _Part:
    settings: dict[str, str] = {}
    reasons: list[str] = []
    if machine.mark is None or machine.mark.instance == NEW:
        settings[MARK] = render_mark(replace(wanted.mark, instance=machine.instance))
        reasons.append("mark completed")
    if IMAGE_DISKS not in machine.settings:
        settings[IMAGE_DISKS] = ",".join(str(disk.key) for disk in machine.disks)
        settings[SHOW_SERIALS] = "TRUE"
        reasons.append("image's disks written down")
    if SEED not in machine.settings and seed is not None:
        settings |= cloudinit.guestinfo(seed) | {SEED: cloudinit.fingerprint(seed)}
        reasons.append("cloud-init data")
    return ({"settings": settings} if settings else {}), reasons

"""A VM's devices: read out of vCenter's list, and the list of changes that makes them different."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pyVmomi import vim

from orchestrator.vsphere.base import Change, ControllerKind, Disk, Network, NewDisk, Nic

_Device = vim.vm.device
_Spec = _Device.VirtualDeviceSpec
KIB: Final = 1024
#: A disk's place that a PVSCSI controller takes for itself.
SCSI_OWN_UNIT: Final = 7


def controller_kind(device: Any) -> ControllerKind:
    """What kind of controller a device is; every SCSI one but PVSCSI is `other`."""
    if isinstance(device, _Device.ParaVirtualSCSIController):
        return "pvscsi"
    return "nvme" if isinstance(device, _Device.VirtualNVMEController) else "other"


def controllers(devices: Iterable[Any]) -> tuple[tuple[ControllerKind, int], ...]:
    """The kind and bus number of every SCSI and NVMe controller."""
    kinds = (_Device.VirtualSCSIController, _Device.VirtualNVMEController)
    return tuple((controller_kind(d), int(d.busNumber)) for d in devices if isinstance(d, kinds))


def disks(devices: Sequence[Any]) -> tuple[Disk, ...]:
    """Every virtual disk, in the order of its keys."""
    by_key = {device.key: device for device in devices}
    found = [d for d in devices if isinstance(d, _Device.VirtualDisk)]
    return tuple(_disk(d, by_key.get(d.controllerKey)) for d in sorted(found, key=lambda d: d.key))


def _disk(device: Any, controller: Any) -> Disk:
    backing = device.backing
    store = getattr(backing, "datastore", None)
    uuid = getattr(backing, "uuid", None)
    return Disk(
        key=int(device.key),
        size=int(device.capacityInBytes or device.capacityInKB * KIB),
        controller=controller_kind(controller),
        bus=int(getattr(controller, "busNumber", 0)),
        unit=int(device.unitNumber or 0),
        thin=getattr(backing, "thinProvisioned", None),
        serial=uuid.replace("-", "").lower() if uuid else None,
        datastore=store._moId if store is not None else None,
    )


def nics(devices: Iterable[Any]) -> tuple[Nic, ...]:
    """Every network card, in the order of its keys."""
    cards = [d for d in devices if isinstance(d, _Device.VirtualEthernetCard)]
    return tuple(
        Nic(int(d.key), _network_of(d.backing), d.macAddress)
        for d in sorted(cards, key=lambda d: d.key)
    )


def _network_of(backing: Any) -> str | None:
    if isinstance(backing, _Device.VirtualEthernetCard.DistributedVirtualPortBackingInfo):
        return f"portgroup:{backing.port.portgroupKey}"
    if isinstance(backing, _Device.VirtualEthernetCard.OpaqueNetworkBackingInfo):
        return f"opaque:{backing.opaqueNetworkId}"
    network = getattr(backing, "network", None)
    return network._moId if network is not None else None


def _backing(network: Network) -> Any:
    if network.kind == "distributed":
        port = vim.dvs.PortConnection(portgroupKey=network.key, switchUuid=network.switch)
        return _Device.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=port)
    if network.kind == "opaque":
        return _Device.VirtualEthernetCard.OpaqueNetworkBackingInfo(
            opaqueNetworkId=network.key, opaqueNetworkType=network.switch
        )
    return _Device.VirtualEthernetCard.NetworkBackingInfo(deviceName=network.name)


def profile(policy: str | None) -> list[Any]:
    """A policy in the form that every order takes; none for None."""
    return [] if policy is None else [vim.vm.DefinedProfileSpec(profileId=policy)]


def changes(change: Change, devices: Sequence[Any]) -> list[Any]:
    """The device changes of a reconfigure order."""
    by_key = {device.key: device for device in devices}
    specs: list[Any] = [
        _Spec(operation="remove", fileOperation="destroy", device=by_key[key])
        for key in change.remove_disks
        if key in by_key
    ]
    specs += [
        _Spec(operation="edit", device=by_key[key], profile=profile(change.policy))
        for key in change.policy_disks
        if key in by_key and key not in change.remove_disks
    ]
    specs += _added_disks(change.add_disks, devices)
    if change.networks is not None:
        specs += _cards(change.networks, [d for d in devices if _is_card(d)])
    return specs


def _added_disks(wanted: Sequence[NewDisk], devices: Sequence[Any]) -> list[Any]:
    """New disks, with the controllers that aren't there yet; negative keys are for this order."""
    specs: list[Any] = []
    keys: dict[tuple[str, int], int] = {
        (controller_kind(d), int(d.busNumber)): d.key
        for d in devices
        if isinstance(d, _Device.VirtualSCSIController | _Device.VirtualNVMEController)
    }
    for index, disk in enumerate(wanted):
        place = (disk.controller, disk.bus)
        if place not in keys:
            keys[place] = -1000 - len(keys)
            specs.append(_Spec(operation="add", device=_controller(disk, keys[place])))
        backing = _Device.VirtualDisk.FlatVer2BackingInfo(
            diskMode="persistent", thinProvisioned=disk.thin, fileName=""
        )
        device = _Device.VirtualDisk(
            key=-2000 - index,
            controllerKey=keys[place],
            unitNumber=disk.unit,
            capacityInBytes=disk.size,
            capacityInKB=disk.size // KIB,
            backing=backing,
        )
        specs.append(
            _Spec(
                operation="add",
                fileOperation="create",
                device=device,
                profile=profile(disk.policy),
            )
        )
    return specs


def _controller(disk: NewDisk, key: int) -> Any:
    if disk.controller == "nvme":
        return _Device.VirtualNVMEController(key=key, busNumber=disk.bus)
    return _Device.ParaVirtualSCSIController(
        key=key, busNumber=disk.bus, sharedBus="noSharing", scsiCtlrUnitNumber=SCSI_OWN_UNIT
    )


def _is_card(device: Any) -> bool:
    return isinstance(device, _Device.VirtualEthernetCard)


def _cards(wanted: Sequence[Network], cards: Sequence[Any]) -> list[Any]:
    """Cards in the order wanted: those there are moved, more are added, surplus ones go."""
    specs: list[Any] = []
    ordered = sorted(cards, key=lambda card: card.key)
    for index, network in enumerate(wanted):
        if index < len(ordered):
            if _network_of(ordered[index].backing) != network.identity:
                ordered[index].backing = _backing(network)
                specs.append(_Spec(operation="edit", device=ordered[index]))
            continue
        card = _Device.VirtualVmxnet3(
            key=-4000 - index,
            backing=_backing(network),
            addressType="generated",
            connectable=_Device.VirtualDevice.ConnectInfo(
                startConnected=True, allowGuestControl=True, connected=True
            ),
        )
        specs.append(_Spec(operation="add", device=card))
    specs += [_Spec(operation="remove", device=card) for card in ordered[len(wanted) :]]
    return specs

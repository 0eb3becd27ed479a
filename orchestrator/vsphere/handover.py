"""Workers as an inventory has them: addresses, keys, and data disks as their guests find them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from orchestrator.inventory import BlockTarget, Target, Worker
from orchestrator.vsphere.base import (
    Machine,
)
from orchestrator.vsphere.state import DeploymentState
from orchestrator.vsphere.wanted import data_disks

#: Where a pushed fio is put on a worker.
PUSHED_FIO: Final = "/var/tmp/hcio-fio"  # noqa: S108 - on a VM of ours alone


def targets_of(machine: Machine) -> tuple[Target, ...]:
    """The data disks as the guest finds them: a SCSI disk by its serial number, an NVMe one by
    its controller and namespace (it shows no serial of its own), each checked by its size."""
    nvme = sorted(bus for kind, bus in machine.controllers if kind == "nvme")
    targets: list[Target] = []
    for index, disk in enumerate(data_disks(machine)):
        label = f"disk{index}"
        if disk.controller == "nvme":
            path = f"/dev/nvme{nvme.index(disk.bus)}n{disk.unit + 1}"
            targets.append(BlockTarget(path=path, size=disk.size, label=label))
        else:
            targets.append(BlockTarget(serial=disk.serial, size=disk.size, label=label))
    return tuple(targets)


def as_inventory(workers: Sequence[Worker], state: DeploymentState) -> dict[str, Any]:
    """The workers as an inventory of static hosts, as it would be written by hand."""
    return {
        "workers": [
            worker.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
            for worker in workers
        ],
        "ssh": {"known_hosts": str(state.known_hosts), "policy": "strict", "agent": False},
    }

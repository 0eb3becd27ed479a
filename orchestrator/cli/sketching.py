"""A vSphere section's workers as far as it tells itself, for a dry run before they are made."""

from __future__ import annotations

from orchestrator.cluster import Cluster, PerHost
from orchestrator.inventory import BlockTarget, Inventory, Worker
from orchestrator.vsphere.layout import worker_names

#: In the place of what only vCenter knows.
NOT_YET = "not deployed yet"


def sketch_inventory(inventory: Inventory) -> Inventory:
    """The inventory with the workers that would be made; one stands for an unknown number."""
    if inventory.vsphere is None or inventory.workers:
        return inventory
    workers = sketch_workers(inventory.vsphere)
    return inventory.model_copy(update={"workers": workers})


def sketch_workers(cluster: Cluster) -> tuple[Worker, ...]:
    """Workers by their names to be, with their disks; addresses and serials are not known."""
    shape = cluster.workers
    names = worker_names(cluster.deployment, expected_workers(cluster) or 1)
    return tuple(
        Worker(
            name=name,
            host=NOT_YET,
            user=shape.ssh_user,
            port=shape.ssh_port,
            sudo=True,
            targets=tuple(
                BlockTarget(serial=f"{name}-{n}", size=shape.disks.size, label=f"disk{n}")
                for n in range(shape.disks.count)
            ),
        )
        for name in names
    )


def expected_workers(cluster: Cluster) -> int | None:
    """How many workers the section asks for; None where only vCenter can tell."""
    count = cluster.workers.count
    if isinstance(count, PerHost):
        return count.per_host * len(cluster.hosts) or None
    return None if count == "auto" else count

"""The privileges that a deployment uses, by the kind of object, in vSphere's own names."""

from __future__ import annotations

from typing import Final

ON_DATACENTER: Final = (
    "VirtualMachine.Inventory.Create",
    "VirtualMachine.Inventory.CreateFromExisting",
    "VirtualMachine.Inventory.Delete",
    "VirtualMachine.Config.AddNewDisk",
    "VirtualMachine.Config.AddRemoveDevice",
    "VirtualMachine.Config.AdvancedConfig",
    "VirtualMachine.Config.Annotation",
    "VirtualMachine.Config.CPUCount",
    "VirtualMachine.Config.Memory",
    "VirtualMachine.Config.RemoveDisk",
    "VirtualMachine.Config.Settings",
    "VirtualMachine.Interact.PowerOn",
    "VirtualMachine.Interact.PowerOff",
    "VirtualMachine.Provisioning.Clone",
    "VirtualMachine.Provisioning.DeployTemplate",
)
ON_POOL: Final = ("Resource.AssignVMToPool",)
ON_DATASTORE: Final = ("Datastore.AllocateSpace",)
ON_NETWORK: Final = ("Network.Assign",)

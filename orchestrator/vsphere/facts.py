"""What hcio learns of a cluster beyond its inventory: hosts' state, policies, vSAN. Records only.

A field that could not be read is None, never 0 and never a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Architecture = Literal["osa", "esa"]
Health = Literal["green", "yellow", "red", "unknown"]


@dataclass(frozen=True)
class HostState:
    """A host at one moment. `clock_offset` is its clock minus the controller's, in seconds.

    `cpu_used` and `cpu_total` are MHz; `memory_used` bytes. `vcpus` and `vm_memory` (bytes) are
    what powered-on machines other than hcio's were given.
    """

    name: str
    ssh: bool | None = None
    clock_offset: float | None = None
    cpu_used: int | None = None
    cpu_total: int | None = None
    memory_used: int | None = None
    vcpus: int | None = None
    vm_memory: int | None = None
    machines: int | None = None


@dataclass(frozen=True)
class Policy:
    """A storage policy: what it asks of vSAN (`vsan` false: nothing), and where it can be used.

    `data_service` is true when it holds a rule of an I/O filter or of vSAN's data services
    (encryption, compression): such a policy can't be set while cloning.
    `compatible` names datastores; None when vCenter did not say.
    """

    name: str
    id: str
    vsan: bool = False
    failures_to_tolerate: int = 1
    site_failures_to_tolerate: int = 0
    erasure_coding: bool = False
    checksum: bool = True
    data_service: bool = False
    compatible: frozenset[str] | None = None


@dataclass(frozen=True)
class Vsan:
    """The vSAN configuration behind a datastore, for provenance and sizing. Sizes in bytes.

    `disk_groups`, `cache` and `all_flash` belong to OSA and are None on ESA. `witness` names the
    witness host of a stretched or two-node cluster; its disk group is not among `disk_groups`.
    """

    architecture: Architecture
    hosts: int
    disk_groups: int | None = None
    cache: int | None = None
    all_flash: bool | None = None
    witness: str | None = None
    dedupe: bool | None = None
    compression: bool | None = None
    encryption_at_rest: bool | None = None
    encryption_in_transit: bool | None = None
    performance_service: bool | None = None


@dataclass(frozen=True)
class VsanState:
    """vSAN's health and resync at one moment. `failing` maps a test's name to its light.

    `resync_bytes` is what is left to copy, `resync_objects` of how many objects.
    """

    health: Health
    failing: Mapping[str, Health] = field(default_factory=dict)
    resync_bytes: int | None = None
    resync_objects: int | None = None
    resync_seconds: float | None = None


@dataclass(frozen=True)
class Demand:
    """What a deployment asks of the cluster. Sizes in bytes for one worker.

    `system_disk` is the image's disk; `existing` maps a datastore to bytes of its data and system
    disks that this deployment's workers hold there already.
    """

    workers: int
    cpus: int
    memory: int
    disks: int
    disk_size: int
    system_disk: int
    existing: Mapping[str, int] = field(default_factory=dict)

    @property
    def data(self) -> int:
        """Bytes of one worker's data disks."""
        return self.disks * self.disk_size

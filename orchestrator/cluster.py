"""The inventory's `vsphere:` section: where workers are made, and of what. Pure, and only read.

Sizes and counts are written as everywhere; credentials are references, never values.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from orchestrator.secrets import SecretRef
from orchestrator.units import Size

#: Where the inventory says nothing: HCIBench's own defaults, so that results compare.
DEFAULT_CPUS: Final = 4
DEFAULT_MEMORY: Final = 8 * 2**30
DEFAULT_DISKS: Final = 8
DEFAULT_DISK_SIZE: Final = 10 * 2**30

#: vSphere's own limits: 4 controllers of a kind, of which the first is left to the image; 15 disks
#: on each (a PVSCSI one's unit 7 is the controller itself).
CONTROLLERS: Final = 3
DISKS_PER_CONTROLLER: Final = 15

#: cloud-init keys that hcio writes itself; a user's own value would break the pinned connection.
RESERVED_CLOUD_INIT: Final = ("ssh_keys", "ssh_deletekeys", "users")

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Positive = Annotated[int, Field(ge=1)]
#: Also a guest's host name (RFC 1123), with room for `-` and a number.
DeploymentName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=48)
]
Thumbprint = Annotated[str, StringConstraints(pattern=r"^([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}$")]


class _Section(BaseModel):
    # An error must not repeat its input: it may be a password in the wrong place.
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True
    )


class VCenter(_Section):
    """The vCenter: its name, who logs in, and how its certificate is judged.

    Without `ca_file`, `thumbprint` or `insecure` the system's own authorities decide.
    """

    host: Text
    port: Annotated[int, Field(ge=1, le=65535)] = 443
    user: Annotated[SecretRef | Text, Field(union_mode="left_to_right")]
    password: SecretRef
    ca_file: Text | None = None
    thumbprint: Annotated[
        Thumbprint | None, Field(description="SHA-256 of the certificate, hex")
    ] = None
    insecure: Annotated[bool, Field(description="no check at all; every report says so")] = False

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = [name for name in ("ca_file", "thumbprint", "insecure") if getattr(self, name)]
        if len(ways) > 1:
            raise ValueError(
                f"give one of ca_file, thumbprint and insecure, not {' and '.join(ways)}"
            )
        return self


class Template(_Section):
    """A template or VM that is cloned. A linked or instant clone shares the source's disk."""

    template: Annotated[Text, Field(description="its name, or its path below the datacenter's VMs")]
    clone: Literal["full", "linked", "instant"] = "full"
    snapshot: Annotated[
        Text | None, Field(description="of a linked clone; the current one where not given")
    ] = None

    @model_validator(mode="after")
    def _snapshot_of_linked(self) -> Self:
        if self.snapshot and self.clone != "linked":
            raise ValueError("snapshot belongs to clone: linked")
        return self


class Ovf(_Section):
    """An OVF or OVA, by path or by http(s) URL; it is uploaded once, and cloned."""

    ovf: Text


class LibraryItem(_Section):
    """A content library's OVF template; it is deployed once, and cloned."""

    library: Text
    item: Text


class PerHost(_Section):
    """So many workers on every usable host."""

    per_host: Positive


class Disks(_Section):
    """A worker's data disks."""

    count: Annotated[int, Field(ge=1, le=CONTROLLERS * DISKS_PER_CONTROLLER)] = DEFAULT_DISKS
    size: Size = DEFAULT_DISK_SIZE
    controller: Literal["pvscsi", "nvme"] = "pvscsi"
    thin: bool = True


class Pool(_Section):
    """Static addresses, handed out in order: single ones or ranges (`10.0.0.5-10.0.0.9`)."""

    addresses: Annotated[tuple[Text, ...], Field(min_length=1)]
    prefix: Annotated[int, Field(ge=1, le=128)]
    gateway: Text | None = None
    dns: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _readable(self) -> Self:
        if not expand_pool(self.addresses):
            raise ValueError("the pool is empty")
        for text in (*self.dns, *((self.gateway,) if self.gateway else ())):
            ipaddress.ip_address(text)
        return self

    def all(self) -> tuple[str, ...]:
        """Every address of the pool, in order."""
        return expand_pool(self.addresses)


class PushedFio(_Section):
    """A static fio binary of the user's, copied to every worker."""

    push: Text


Source = Template | Ovf | LibraryItem
Count = Positive | PerHost | Literal["auto"]


class WorkerShape(_Section):
    """What a worker is made of, and how many there are."""

    source: Source
    count: Count
    at_least: Annotated[
        Positive | None, Field(description="fewer ready workers than this is a failure; all")
    ] = None
    cpus: Positive = DEFAULT_CPUS
    memory: Annotated[Size, Field(description="a multiple of 4 MiB")] = DEFAULT_MEMORY
    disks: Disks = Disks()
    addresses: Literal["dhcp"] | Pool = "dhcp"
    family: Literal["ipv4", "ipv6", "any"] = "ipv4"
    ssh_user: Text = "hcio"
    ssh_port: Annotated[int, Field(ge=1, le=65535)] = 22
    cloud_init: Annotated[
        Mapping[str, Any], Field(description="more cloud-config; lists are added to hcio's own")
    ] = Field(default_factory=dict)
    fio: Literal["image", "cloud-init"] | PushedFio = "cloud-init"
    anti_affinity: Annotated[bool, Field(description="a rule that keeps workers apart")] = False
    pin_hosts: Annotated[bool, Field(description="no automatic migration of a worker")] = False

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.memory % (4 * 2**20):
            raise ValueError("memory must be a multiple of 4 MiB (vSphere's rule)")
        taken = [key for key in RESERVED_CLOUD_INIT if key in self.cloud_init]
        if taken:
            raise ValueError(f"cloud_init: hcio writes {', '.join(taken)} itself; leave it out")
        return self


class Cluster(_Section):
    """A vSphere cluster and the workers that are to be made on it.

    `hosts` empty means all of the cluster's. The first network is the one workers are reached on.
    """

    deployment: DeploymentName = "hcio"
    vcenter: VCenter
    datacenter: Text
    cluster: Text
    hosts: tuple[Text, ...] = ()
    resource_pool: Text | None = None
    folder: Text | None = None
    networks: Annotated[tuple[Text, ...], Field(min_length=1, max_length=10)]
    datastores: Annotated[tuple[Text, ...], Field(min_length=1)]
    storage_policy: Text | None = None
    workers: WorkerShape
    after_run: Annotated[
        Literal["keep", "destroy"], Field(description="what becomes of the workers after a run")
    ] = "keep"


def expand_pool(addresses: tuple[str, ...]) -> tuple[str, ...]:
    """Every address of single ones and ranges, in order. ValueError says which is wrong."""
    found: dict[str, None] = {}
    for text in addresses:
        first, _, last = text.partition("-")
        start = ipaddress.ip_address(first.strip())
        end = ipaddress.ip_address(last.strip()) if last else start
        if type(start) is not type(end) or int(end) < int(start):
            raise ValueError(f"{text!r} is not a range; write it like 10.0.0.5-10.0.0.9")
        if int(end) - int(start) >= 2**16:
            raise ValueError(f"{text!r} holds more than 65536 addresses")
        for number in range(int(start), int(end) + 1):
            address = str(type(start)(number))
            if address in found:
                raise ValueError(f"{address} is in the pool twice")
            found[address] = None
    return tuple(found)

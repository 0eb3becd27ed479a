"""What hcio asks of a vCenter: a narrow protocol in our own records, without the library's types.

A `ref` is the vCenter's own id of an object (`vm-42`, `host-9`). Sizes are bytes. Every call
raises a VSphereError branch and nothing else; a lost session is reopened below this protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

Power = Literal["on", "off", "suspended"]
ControllerKind = Literal["pvscsi", "nvme", "other"]


#: A mark's instance before the VM's own is known.
NEW = "new"

#: extraConfig entries of hcio's own: the mark, the image's identity, the keys of the image's disks,
#: and the hash of the cloud-init data.
MARK, IMAGE, IMAGE_DISKS, SEED = "hcio.mark", "hcio.image", "hcio.image_disks", "hcio.seed"
SETTINGS = (MARK, IMAGE, IMAGE_DISKS, SEED)


@dataclass(frozen=True)
class About:
    """What the vCenter says of itself."""

    name: str
    version: str
    build: str
    uuid: str


@dataclass(frozen=True)
class Host:
    """A host of the cluster. `cpus` counts hardware threads."""

    ref: str
    name: str
    connected: bool
    maintenance: bool
    datastores: frozenset[str]
    networks: frozenset[str]
    cpus: int
    cores: int
    memory: int


@dataclass(frozen=True)
class Datastore:
    """A datastore that the cluster sees. `kind` is VMFS, NFS, vsan, vsanD, ..."""

    ref: str
    name: str
    kind: str
    capacity: int
    free: int
    accessible: bool


@dataclass(frozen=True)
class Network:
    """A network. A distributed port group is known by its key and its switch, never by name."""

    ref: str
    name: str
    kind: Literal["standard", "distributed", "opaque"]
    switch: str | None = None
    key: str | None = None

    @property
    def identity(self) -> str:
        """What a card on this network shows as its own (`Nic.network`)."""
        if self.kind == "distributed":
            return f"portgroup:{self.key}"
        return f"opaque:{self.key}" if self.kind == "opaque" else self.ref


@dataclass(frozen=True)
class Site:
    """The place where workers are made: everything that the cluster's section names, found.

    `hosts`, `datastores` and `networks` are all of the cluster's; `pool` and `folder` the ones
    asked for, or the roots. `drs` is the cluster's automation, None when DRS is off.
    """

    vcenter: str
    datacenter: str
    cluster: str
    cluster_name: str
    pool: str
    folder: str
    hosts: tuple[Host, ...]
    datastores: tuple[Datastore, ...]
    networks: tuple[Network, ...]
    drs: str | None = None
    vsan: bool = False


@dataclass(frozen=True)
class Mark:
    """What makes an object ours. `instance` is the VM's own instance UUID: a copy that somebody
    makes of a worker carries the mark but not the UUID, and so is not ours. While a VM is being
    made its UUID isn't known yet, and NEW stands there."""

    deployment: str
    name: str
    role: Literal["worker", "image"]
    worker: str
    instance: str = NEW


@dataclass(frozen=True)
class Disk:
    """A virtual disk. `serial` is the guest's view once disk.EnableUUID is set; `policy` an id."""

    key: int
    size: int
    controller: ControllerKind
    bus: int
    unit: int
    thin: bool | None
    serial: str | None
    datastore: str | None
    policy: str | None = None


@dataclass(frozen=True)
class Nic:
    """A network card as configured: the network's ref, and its hardware address."""

    key: int
    network: str | None
    mac: str | None


@dataclass(frozen=True)
class GuestNic:
    """A network card as the guest reports it."""

    network: str | None
    connected: bool
    ips: tuple[str, ...]
    mac: str | None = None


@dataclass(frozen=True)
class Guest:
    """What the tools in the guest report."""

    running: bool = False
    ip_address: str | None = None
    nics: tuple[GuestNic, ...] = ()


@dataclass(frozen=True)
class Machine:
    """A VM, with the settings that hcio made (`settings`: extraConfig entries `hcio.*`)."""

    ref: str
    name: str
    instance: str
    mark: Mark | None
    template: bool
    power: Power
    host: str | None
    folder: str | None
    cpus: int
    memory: int
    disks: tuple[Disk, ...]
    nics: tuple[Nic, ...]
    guest: Guest = Guest()
    settings: Mapping[str, str] = field(default_factory=dict)
    snapshot: str | None = None
    policy: str | None = None
    controllers: tuple[tuple[ControllerKind, int], ...] = ()

    def belongs_to(self, deployment: str) -> bool:
        """Whether this is a VM that the deployment made; a copy of one is not."""
        mark = self.mark
        return (
            mark is not None
            and mark.deployment == deployment
            and mark.instance in (NEW, self.instance)
        )


@dataclass(frozen=True)
class CloneOrder:
    """A clone to be made, marked from its first moment. An instant one runs when it is made."""

    source: str
    name: str
    kind: Literal["full", "linked", "instant"]
    folder: str
    pool: str
    host: str
    datastore: str
    cpus: int
    memory: int
    settings: Mapping[str, str]
    snapshot: str | None = None
    policy: str | None = None
    note: str = ""


@dataclass(frozen=True)
class NewDisk:
    """A data disk to be added at a place of a controller (`bus` counts controllers of its kind)."""

    size: int
    controller: Literal["pvscsi", "nvme"]
    bus: int
    unit: int
    thin: bool
    policy: str | None


@dataclass(frozen=True)
class Change:
    """What is to become different at a VM that is switched off; None or empty: stays.

    `policy` is applied to the VM's home and every disk in `policy_disks` (keys). `networks` are
    the wanted cards in order; `settings` are extraConfig entries ('' removes one).
    """

    cpus: int | None = None
    memory: int | None = None
    add_disks: tuple[NewDisk, ...] = ()
    remove_disks: tuple[int, ...] = ()
    networks: tuple[Network, ...] | None = None
    policy: str | None = None
    policy_disks: tuple[int, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    note: str | None = None


@dataclass(frozen=True)
class Rule:
    """A rule or override of the cluster that keeps VMs apart, or where they are."""

    name: str
    machines: frozenset[str]


class VSphere(Protocol):
    """A logged-in vCenter, safe for use by several threads."""

    @property
    def host(self) -> str:
        """The vCenter's name, for messages."""
        ...

    def about(self) -> About: ...

    def site(self, datacenter: str, cluster: str, *, pool: str | None, folder: str | None) -> Site:
        """Find the place. NotFoundInVCenter names what is missing or there twice.

        `pool` and `folder` are names or paths; None is the cluster's or datacenter's own root.
        """
        ...

    def policies(self) -> dict[str, str]:
        """Storage policies: name to id."""
        ...

    def machines(self, site: Site, *, policies: bool) -> list[Machine]:
        """Every marked VM of the datacenter, and no other, with storage policies where asked."""
        ...

    def machine(self, ref: str, *, policies: bool) -> Machine:
        """One VM as it is now, with its storage policies where asked. Or NotFoundInVCenter."""
        ...

    def names(self, site: Site, folder: str) -> dict[str, str]:
        """What lies directly in a folder: name to ref, ours or not."""
        ...

    def source(self, site: Site, name: str) -> Machine:
        """The template or VM to be cloned, by name or path."""
        ...

    def clone(self, order: CloneOrder, *, timeout: float) -> str:
        """Clone and return the new VM's ref."""
        ...

    def change(self, ref: str, change: Change, *, timeout: float) -> None:
        """Reconfigure a VM in one task."""
        ...

    def power(self, ref: str, wanted: Literal["on", "off"], *, timeout: float) -> None:
        """Switch on or off; a VM that is so already is left alone."""
        ...

    def destroy(self, ref: str, *, timeout: float) -> None:
        """Remove a VM and its disks; a VM that is gone already is no error."""
        ...

    def await_guests(
        self,
        refs: Sequence[str],
        ready: Callable[[str, Guest], bool],
        *,
        awaited: str,
        timeout: float,
    ) -> dict[str, Guest]:
        """Watch the guests until `ready` holds for all, or the time is over: the last seen of each.

        `ready` is called with a ref and what its guest reports at each change.
        """
        ...

    def rules(self, site: Site) -> list[Rule]:
        """The cluster's keep-apart rules."""
        ...

    def set_rule(self, site: Site, rule: Rule, *, timeout: float) -> None:
        """Make or replace the keep-apart rule of that name; no machines removes it."""
        ...

    def pinned(self, site: Site) -> frozenset[str]:
        """The VMs whose automatic migration is switched off."""
        ...

    def pin(self, site: Site, refs: Sequence[str], on: bool, *, timeout: float) -> None:
        """Switch automatic migration off for these VMs, or take that back."""
        ...

    def import_ovf(self, site: Site, ovf: str, order: CloneOrder, *, timeout: float) -> str:
        """Upload an OVF or OVA as the VM that `order` describes (its source is not used)."""
        ...

    def deploy_item(
        self, site: Site, library: str, item: str, order: CloneOrder, *, timeout: float
    ) -> str:
        """Deploy a content library's item as the VM that `order` describes."""
        ...

    def close(self) -> None:
        """Log out; safe to call twice."""
        ...

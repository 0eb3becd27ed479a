"""What a run stands on: its cluster, its workers' VMs, and what vCenter says of them at the start.

It is found when first asked for, and once; whoever asks after a failure gets the same error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from orchestrator.cluster import Cluster
from orchestrator.errors import HcioError
from orchestrator.vsphere.base import Machine, Site, VSphere
from orchestrator.vsphere.facts import Vsan
from orchestrator.vsphere.observing import Observes

Connect = Callable[[], tuple[VSphere, Observes]]


@dataclass(frozen=True)
class Ground:
    """A found cluster. `machines` maps a worker's name to its VM's ref; `facts` are for the
    provenance: plain JSON data. `missing` are workers whose VM was not found."""

    observer: Observes
    site: Site
    machines: Mapping[str, str]
    vsan: Vsan | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


class Surveyor:
    """Finds the ground of one run."""

    def __init__(
        self, cluster: Cluster, workers: tuple[str, ...], connect: Connect, *, deployment: str = ""
    ) -> None:
        """`deployment` is the mark of the workers' VMs; without one they are found by name."""
        self._cluster = cluster
        self._workers = workers
        self._connect = connect
        self._deployment = deployment
        self._vsphere: VSphere | None = None
        self._observer: Observes | None = None
        self._found: Ground | HcioError | None = None

    def ground(self) -> Ground:
        """The ground. VSphereError branches, the same one each time."""
        if self._found is None:
            try:
                self._found = self._survey()
            except HcioError as error:
                self._found = error
        if isinstance(self._found, HcioError):
            raise self._found
        return self._found

    def close(self) -> None:
        """Log out; safe to call twice."""
        if self._observer is not None:
            self._observer.close()
        if self._vsphere is not None:
            self._vsphere.close()
        self._observer = self._vsphere = None

    def _survey(self) -> Ground:
        vsphere, observer = self._vsphere, self._observer = self._connect()
        cluster = self._cluster
        site = vsphere.site(
            cluster.datacenter, cluster.cluster, pool=cluster.resource_pool, folder=cluster.folder
        )
        vsan = observer.vsan(site)
        marked = self._marked(vsphere, site)
        machines = {name: machine.ref for name, machine in marked.items()}
        if not self._deployment:
            names = vsphere.names(site, site.folder)
            machines = {name: names[name] for name in self._workers if name in names}
        placed = observer.placement(site, machines)
        return Ground(
            observer,
            site,
            machines,
            vsan,
            self._facts(vsphere, site, vsan, marked, placed),
            tuple(name for name in self._workers if name not in machines),
        )

    def _marked(self, vsphere: VSphere, site: Site) -> dict[str, Machine]:
        if not self._deployment:
            return {}
        return {
            machine.mark.worker: machine
            for machine in vsphere.machines(site, policies=True)
            if machine.mark is not None
            and machine.mark.role == "worker"
            and machine.belongs_to(self._deployment)
        }

    def _facts(
        self,
        vsphere: VSphere,
        site: Site,
        vsan: Vsan | None,
        machines: Mapping[str, Machine],
        placed: Mapping[str, str | None],
    ) -> dict[str, Any]:
        about = vsphere.about()
        stores = {store.ref: store.name for store in site.datastores}
        policies = {ref: name for name, ref in vsphere.policies().items()} if machines else {}
        return {
            "vcenter": {
                "host": self._cluster.vcenter.host,
                "version": about.version,
                "build": about.build,
                "insecure": self._cluster.vcenter.insecure,
            },
            "datacenter": self._cluster.datacenter,
            "cluster": site.cluster_name,
            "drs": site.drs,
            "storage_policy": self._cluster.storage_policy,
            "vsan": None if vsan is None else asdict(vsan),
            "workers": {
                name: {
                    "host_start": host,
                    "disks": _disks(machines[name], stores, policies) if name in machines else [],
                }
                for name, host in placed.items()
            },
        }


def _disks(
    machine: Machine, stores: Mapping[str, str], policies: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Every disk of a worker: where it lies, and the policy that it carries (None: none)."""
    return [
        {
            "bytes": disk.size,
            "serial": disk.serial,
            "datastore": stores.get(disk.datastore or ""),
            "policy": policies.get(disk.policy, disk.policy) if disk.policy else None,
            "controller": disk.controller,
            "thin": disk.thin,
        }
        for disk in machine.disks
    ]

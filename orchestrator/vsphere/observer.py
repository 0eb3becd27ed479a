"""The real platform: an Observes on a vCenter session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyVmomi import vim

from orchestrator.counters import Series, Window
from orchestrator.events import PlatformEvent
from orchestrator.vsphere.base import Datastore, Site
from orchestrator.vsphere.facts import HostState, Policy, Vsan, VsanState
from orchestrator.vsphere.host_states import read_host_states, read_placement, vcenter_offset
from orchestrator.vsphere.observing import Reading
from orchestrator.vsphere.occurrences import read_events
from orchestrator.vsphere.performance import Counter, query_hosts, read_counters
from orchestrator.vsphere.policy_rules import read_default_policy, read_policies
from orchestrator.vsphere.session import Session
from orchestrator.vsphere.vsan import VsanService

#: The type of an object by its id's prefix, as vCenter deals them out.
_TYPES: Final[Mapping[str, Any]] = {
    "datacenter": vim.Datacenter,
    "domain": vim.ClusterComputeResource,
    "clustercomputeresource": vim.ClusterComputeResource,
    "resgroup": vim.ResourcePool,
    "group": vim.Folder,
    "folder": vim.Folder,
    "datastore": vim.Datastore,
    "network": vim.Network,
    "dvportgroup": vim.dvs.DistributedVirtualPortgroup,
    "host": vim.HostSystem,
    "vm": vim.VirtualMachine,
}


class Observer:
    """What a vCenter says of its cluster, on a session that reopens itself."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._counters: dict[tuple[str, ...], list[Counter]] = {}
        self._vsan: VsanService | None = None

    def clock_offset(self) -> float:
        """The vCenter's clock minus the controller's, in seconds."""
        return vcenter_offset(self._session)

    def host_states(self, site: Site, ours: Sequence[str]) -> list[HostState]:
        """Each host as it is now."""
        return read_host_states(self._session, site, ours)

    def placement(self, site: Site, machines: Mapping[str, str]) -> dict[str, str | None]:
        """The host of each machine, by worker name."""
        return read_placement(self._session, site, machines)

    def policies(self, site: Site, asked: str | None) -> dict[str, Policy]:
        """Storage policies by name."""
        return read_policies(self._session, site, asked)

    def default_policy(self, store: Datastore) -> Policy | None:
        """The datastore's own policy."""
        return read_default_policy(self._session, store)

    def missing_privileges(
        self, site: Site, needed: Mapping[str, Sequence[str]]
    ) -> dict[str, list[str]]:
        """What the user lacks on each object, by ref."""
        return {ref: self._missing(ref, rights) for ref, rights in needed.items()}

    def _missing(self, ref: str, rights: Sequence[str]) -> list[str]:
        content = self._session.content

        def ask() -> list[str]:
            answers = content.authorizationManager.HasUserPrivilegeOnEntities(
                entities=[managed(ref, self._session)],
                userName=content.sessionManager.currentSession.userName,
                privId=list(rights),
            )
            granted = {
                item.privId
                for answer in answers
                for item in answer.privAvailability
                if item.isGranted
            }
            return [right for right in rights if right not in granted]

        return self._session.call(f"reading the privileges on {ref}", ask, reads=True)

    def vsan(self, site: Site) -> Vsan | None:
        """The cluster's vSAN configuration, None when vSAN is off."""
        return self._service().config(site) if site.vsan or self._any_vsan(site) else None

    def vsan_state(self, site: Site, *, fresh: bool) -> VsanState:
        """Health and resync now."""
        return self._service().state(site, fresh=fresh)

    def counters(self, site: Site, names: Sequence[str], window: Window) -> list[Series]:
        """Real-time counters of every host over a window of the vCenter's clock."""
        key = tuple(names)
        if key not in self._counters:
            self._counters[key] = read_counters(self._session, names)
        return query_hosts(self._session, site, self._counters[key], window)

    def vsan_figures(self, site: Site, window: Window) -> Reading:
        """vSAN's own figures over a window of the vCenter's clock."""
        return self._service().figures(site, window)

    def events(self, site: Site, window: Window, offset: float) -> list[PlatformEvent]:
        """What happened on the cluster."""
        return read_events(self._session, site, window, offset)

    def close(self) -> None:
        """Drop connections of its own; the session stays its owner's."""
        if self._vsan is not None:
            self._vsan.close()

    def _service(self) -> VsanService:
        if self._vsan is None:
            self._vsan = VsanService(self._session)
        return self._vsan

    @staticmethod
    def _any_vsan(site: Site) -> bool:
        return any(store.kind.startswith("vsan") for store in site.datastores)


def managed(ref: str, session: Session) -> Any:
    """The managed object of a ref, its type told by the id's prefix."""
    kind = _TYPES.get(ref.rpartition("-")[0].split("-")[0], vim.ManagedEntity)
    return kind(ref, session.stub)

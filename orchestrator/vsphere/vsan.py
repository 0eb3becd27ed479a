"""Reading vSAN through its own service beside vCenter: configuration, health, resync, figures."""

from __future__ import annotations

import http.client
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pyVmomi import SoapStubAdapter, VmomiSupport, vim

from orchestrator.counters import Series, Window
from orchestrator.errors import VSphereError
from orchestrator.vsphere.base import Site
from orchestrator.vsphere.facts import Health, Vsan, VsanState
from orchestrator.vsphere.observing import Reading
from orchestrator.vsphere.session import Session
from orchestrator.vsphere.vsan_figures import ENTITIES, parse_figures

ENDPOINT: Final = "/vsanHealth"
#: The oldest that every vSAN in support speaks; a newer one is used where both sides know it.
OLDEST_VERSION: Final = "vsan.version.version7"
#: The release of pyVmomi that came with vSAN's types first.
NEEDED_PYVMOMI: Final = "8.0.3.0.1"

#: vSAN's managed objects: our word, its type in vim.cluster, its id.
OBJECTS: Final = {
    "config": ("VsanVcClusterConfigSystem", "vsan-cluster-config-system"),
    "disks": ("VsanVcDiskManagementSystem", "vsan-disk-management-system"),
    "health": ("VsanVcClusterHealthSystem", "vsan-cluster-health-system"),
    "objects": ("VsanObjectSystem", "vsan-cluster-object-system"),
    "performance": ("VsanPerformanceManager", "vsan-performance-manager"),
    "stretched": ("VsanVcStretchedClusterSystem", "vsan-stretched-cluster-system"),
}

_LIGHTS: Final[Mapping[str, Health]] = {
    "green": "green",
    "info": "green",
    "skipped": "green",
    "yellow": "yellow",
    "red": "red",
}


class VsanService:
    """vSAN's service at one vCenter, on a session's login."""

    def __init__(self, session: Session, types: Any = vim.cluster) -> None:
        """`types` holds vSAN's classes; VSphereError names the pyVmomi that is needed if not."""
        self._session = session
        self._types = types
        self._stub: SoapStubAdapter | None = None
        missing = [kind for kind, _ in OBJECTS.values() if getattr(types, kind, None) is None]
        if missing:
            raise VSphereError(
                session.host,
                "using vSAN's service",
                f"this pyVmomi knows no {missing[0]}",
                means="figures and health of vSAN are not available; the run goes on",
                next_step=f"install pyvmomi {NEEDED_PYVMOMI} or newer",
            )

    def config(self, site: Site) -> Vsan | None:
        """The cluster's configuration; None when vSAN is off."""
        found = self._ask(
            "reading vSAN's configuration",
            "config",
            lambda it: it.VsanClusterGetConfig(cluster=self._cluster(site)),
        )
        if found is None or not found.enabled:
            return None
        esa = bool(getattr(found, "vsanEsaEnabled", False))
        maps = [] if esa else self._disk_groups(site)
        efficiency = found.dataEfficiencyConfig
        return Vsan(
            architecture="esa" if esa else "osa",
            hosts=len(site.hosts),
            disk_groups=None if esa else len(maps),
            cache=None if esa else sum(_capacity(item.mapping.ssd) for item in maps),
            all_flash=None if esa else all(bool(item.isAllFlash) for item in maps),
            witness=self._witness(site),
            dedupe=_flag(efficiency, "dedupEnabled"),
            compression=_flag(efficiency, "compressionEnabled"),
            encryption_at_rest=_flag(found.dataEncryptionConfig, "encryptionEnabled"),
            encryption_in_transit=_flag(found.dataInTransitEncryptionConfig, "enabled"),
            performance_service=_flag(found.perfsvcConfig, "enabled"),
        )

    def state(self, site: Site, *, fresh: bool) -> VsanState:
        """Health and resync; a part that can't be read is unknown, the other is still told."""
        try:
            health, failing = self._health(site, fresh)
        except VSphereError as error:
            health, failing = "unknown", {error.what: "unknown"}
        try:
            syncing = self._ask(
                "reading vSAN's resync",
                "objects",
                lambda it: it.QuerySyncingVsanObjectsSummary(cluster=self._cluster(site)),
            )
        except VSphereError:
            return VsanState(health, failing)
        return VsanState(
            health,
            failing,
            resync_bytes=int(syncing.totalBytesToSync or 0),
            resync_objects=int(syncing.totalObjectsToSync or 0),
            resync_seconds=None
            if syncing.totalRecoveryETA is None
            else float(syncing.totalRecoveryETA),
        )

    def figures(self, site: Site, window: Window) -> Reading:
        """The performance service's figures over a window of the vCenter's clock.

        What it refuses (it is off, say) is a warning: figures are extra, the run's result stays.
        """
        series: list[Series] = []
        warnings: list[str] = []
        for entity in ENTITIES:
            try:
                answers = self._query(site, entity, window)
            except VSphereError as error:
                warnings.append(f"no vSAN figures of {entity}: {error.what}")
                continue
            for answer in answers or ():
                values = {str(line.metricId.label): str(line.values) for line in answer.value or ()}
                series += parse_figures(str(answer.entityRefId), str(answer.sampleInfo), values)
        return Reading(tuple(series), tuple(warnings))

    def close(self) -> None:
        """Drop the connections; the login is the session's."""
        if self._stub is not None:
            self._stub.DropConnections()

    def _query(self, site: Site, entity: str, window: Window) -> Any:
        spec = self._types.VsanPerfQuerySpec(
            entityRefId=f"{entity}:*",
            startTime=datetime.fromtimestamp(window.start, UTC),
            endTime=datetime.fromtimestamp(window.end, UTC),
        )
        cluster = self._cluster(site)
        return self._ask(
            f"reading vSAN's {entity}",
            "performance",
            lambda it: it.QueryVsanPerf(querySpecs=[spec], cluster=cluster),
        )

    def _disk_groups(self, site: Site) -> list[Any]:
        maps: list[Any] = []
        for host in site.hosts:
            maps += self._host_groups(host.name, vim.HostSystem(host.ref, self._session.stub))
        return maps

    def _host_groups(self, name: str, host: Any) -> list[Any]:
        step = f"reading the disk groups of {name}"
        return self._ask(step, "disks", lambda it: it.QueryDiskMappings(host=host)) or []

    def _witness(self, site: Site) -> str | None:
        try:
            found = self._ask(
                "reading vSAN's witness",
                "stretched",
                lambda it: it.VSANVcGetWitnessHosts(cluster=self._cluster(site)),
            )
        except VSphereError:
            return None  # a cluster that isn't stretched answers with a fault
        return str(found[0].unicastAgentAddr or found[0].nodeUuid) if found else None

    def _health(self, site: Site, fresh: bool) -> tuple[Health, dict[str, Health]]:
        found = self._ask(
            "reading vSAN's health",
            "health",
            lambda it: it.QueryClusterHealthSummary(
                cluster=self._cluster(site),
                includeObjUuids=False,
                fields=["groups", "overallHealth"],
                fetchFromCache=not fresh,
            ),
        )
        tests = [test for group in found.groups or () for test in group.groupTests or ()]
        failing = {
            str(test.testName): light(test.testHealth)
            for test in tests
            if light(test.testHealth) in ("yellow", "red")
        }
        return light(found.overallHealth), failing

    def _cluster(self, site: Site) -> Any:
        return vim.ClusterComputeResource(site.cluster, self._session.stub)

    def _ask(self, step: str, word: str, ask: Callable[[Any], Any]) -> Any:
        kind, ref = OBJECTS[word]

        def call() -> Any:
            return ask(getattr(self._types, kind)(ref, self._connection()))

        return self._session.call(step, call, reads=True)

    def _connection(self) -> SoapStubAdapter:
        """The connection to vSAN's service, with the session's present cookie."""
        if self._stub is None:
            login = self._session.login
            self._stub = SoapStubAdapter(
                host=login.host,
                port=login.port,
                path=ENDPOINT,
                version=self._newest_version(),
                sslContext=self._session.context,
                httpConnectionTimeout=self._session.call_timeout,
            )
            self._stub.scheme = self._session.connection
        self._stub.cookie = self._session.stub.cookie
        return self._stub

    def _newest_version(self) -> str:
        """The newest version that both sides know."""
        login = self._session.login
        server: http.client.HTTPSConnection = self._session.connection(
            login.host,
            login.port,
            context=self._session.context,
            timeout=self._session.call_timeout,
        )
        try:
            server.request("GET", "/sdk/vsanServiceVersions.xml")
            text = server.getresponse().read().decode("utf-8", "replace")
        finally:
            server.close()
        for version in re.findall(r"<version>\s*([^<]+?)\s*</version>", text):
            known: str | None = VmomiSupport.versionMap.get(f"vsan/{version}")
            if known is not None:
                return known
        return OLDEST_VERSION


def light(word: Any) -> Health:
    """vSAN's word for a health; a word that nobody knows is unknown."""
    return _LIGHTS.get(str(word or "").lower(), "unknown")


def _flag(holder: Any, name: str) -> bool | None:
    value = getattr(holder, name, None)
    return None if value is None else bool(value)


def _capacity(disk: Any) -> int:
    return int(disk.capacity.block) * int(disk.capacity.blockSize)

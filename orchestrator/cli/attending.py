"""Who attends a run: made from its plan, with the vCenter and the hosts behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from orchestrator.attendance import Attendant
from orchestrator.attendants import CacheAttendant, PlatformAttendant, Surveyor
from orchestrator.attendants.cache import Storage, restore_run
from orchestrator.cachehosts import ClearCache
from orchestrator.clearcache import Cleared
from orchestrator.cli.caches import host_opener
from orchestrator.cluster import Cluster
from orchestrator.engine import Fleet
from orchestrator.errors import HcioError
from orchestrator.osacache import USUAL_PACE, Opener
from orchestrator.plan import Plan
from orchestrator.spec import Lab
from orchestrator.store import RunFolder
from orchestrator.transport.base import Transport
from orchestrator.turn import Mode
from orchestrator.vsphere.base import VSphere
from orchestrator.vsphere.observing import Observes


class Staff:
    """The attendants of one plan. Secrets are fetched at once, while the terminal is free."""

    def __init__(self, plan: Plan, mode: Mode) -> None:
        self._plan = plan
        self._mode = mode
        self._section = plan.cache or ClearCache()
        # A detached run leaves; nobody is there to watch.
        watched = plan.vsphere is not None and not mode.detach
        self._surveyor = _surveyor(plan, plan.vsphere, mode) if watched and plan.vsphere else None
        self._pace = replace(
            USUAL_PACE,
            limit=self._section.limit,
            interval=self._section.every,
            grace=self._section.grace,
        )
        self._opener = _host_opener(self._section, mode) if plan.clear_cache else None

    def attendants(self, fleet: Fleet, lab: Lab) -> tuple[Attendant, ...]:
        """Who attends, in order: the cache is cleared before the platform's state is noted."""
        found: list[Attendant] = []
        if self._opener is not None:
            found.append(
                CacheAttendant(
                    self._storage,
                    self._opener,
                    lambda names: _guests(fleet, names),
                    lab.report,
                    command=self._section.command,
                    pace=self._pace,
                )
            )
        if self._surveyor is not None:
            found.append(
                PlatformAttendant(self._surveyor, lab.report, clock=lab.clock, sleep=lab.sleep)
            )
        return tuple(found)

    def _storage(self) -> Storage:
        """What holds the cache; without vSphere, hosts without a command are OSA's."""
        section, opener = self._section, self._opener
        assert opener is not None  # noqa: S101 - only a cache attendant asks
        if self._surveyor is None:
            hosts = {host: opener(host) for host in section.hosts}
            return Storage(None if section.command else "osa", hosts)
        if section.command and section.hosts:
            return Storage(None, {host: opener(host) for host in section.hosts})
        ground = self._surveyor.ground()
        names = section.hosts or tuple(host.name for host in ground.site.hosts)
        architecture = ground.vsan.architecture if ground.vsan is not None else None
        return Storage(architecture, {name: opener(name) for name in names})


def restore_caches(plan: Plan, folder: RunFolder) -> Cleared | None:
    """Put back what a crashed clearing left; None when nothing is to be put back."""
    if not plan.clear_cache:
        return None
    return restore_run(folder, host_opener(plan.cache or ClearCache()))


def _host_opener(section: ClearCache, mode: Mode) -> Callable[[str], Opener]:
    """What opens a host. Without its secrets nothing is started, but what is over is collected."""
    try:
        return host_opener(section)
    except HcioError as error:
        if mode.start:
            raise
        trouble = error

    def fail() -> Transport:
        raise trouble

    return lambda host: fail


def _guests(fleet: Fleet, names: Sequence[str]) -> Mapping[str, Transport]:
    members = (fleet.members[name] for name in fleet.alive(names))
    return {m.name: m.session.transport for m in members if m.session is not None}


def _surveyor(plan: Plan, cluster: Cluster, mode: Mode) -> Surveyor:
    # Only here: the vSphere library is slow to load.
    from orchestrator.cli.workers import login_of
    from orchestrator.vsphere.observer import Observer
    from orchestrator.vsphere.vcenter import VCenter

    trouble: HcioError | None = None
    try:
        login = login_of(cluster)
    except HcioError as error:
        if mode.start:
            raise
        trouble = error  # what was measured can be collected without a vCenter

    def connect() -> tuple[VSphere, Observes]:
        if trouble is not None:
            raise trouble
        client = VCenter(login)
        return client, Observer(client.session)

    deployed = plan.deployment.id if plan.deployment is not None else ""
    return Surveyor(cluster, tuple(w.name for w in plan.workers), connect, deployment=deployed)

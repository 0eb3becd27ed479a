"""The fake platform: answers from records, keeps the calls, fails where it is told to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from orchestrator.counters import Series, Window
from orchestrator.events import PlatformEvent
from orchestrator.vsphere.base import Datastore, Site
from orchestrator.vsphere.facts import HostState, Policy, Vsan, VsanState
from orchestrator.vsphere.observing import Reading


@dataclass
class FakeObserver:
    """An Observes without a vCenter. `failing` maps a method's name to the error that it raises.

    `series` and `happened` are cut to the asked window, as a vCenter does; `states` are given
    out one after the other, the last one again and again.
    """

    offset: float = 0.0
    hosts: Sequence[HostState] = ()
    placed: Mapping[str, str | None] = field(default_factory=dict)
    known: Sequence[Policy] = ()
    defaults: Mapping[str, Policy] = field(default_factory=dict)
    lacking: Mapping[str, Sequence[str]] = field(default_factory=dict)
    config: Vsan | None = None
    states: list[VsanState] = field(default_factory=lambda: [VsanState("green", {}, 0, 0)])
    series: Sequence[Series] = ()
    figures: Reading = field(default_factory=lambda: Reading(()))
    happened: Sequence[PlatformEvent] = ()
    failing: dict[str, Exception] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def clock_offset(self) -> float:
        """The offset as given."""
        self._note("clock_offset")
        return self.offset

    def host_states(self, site: Site, ours: Sequence[str]) -> list[HostState]:
        """The hosts as given."""
        self._note("host_states")
        return list(self.hosts)

    def placement(self, site: Site, machines: Mapping[str, str]) -> dict[str, str | None]:
        """Where each worker is said to be; None for one that nobody mentioned."""
        self._note("placement")
        return {worker: self.placed.get(worker) for worker in machines}

    def policies(self, site: Site, asked: str | None) -> dict[str, Policy]:
        """The policies; compatibility of the asked one alone."""
        self._note("policies")
        return {
            policy.name: policy if policy.name == asked else replace(policy, compatible=None)
            for policy in self.known
        }

    def default_policy(self, store: Datastore) -> Policy | None:
        """The default of this datastore, by name."""
        self._note("default_policy")
        return self.defaults.get(store.name)

    def missing_privileges(
        self, site: Site, needed: Mapping[str, Sequence[str]]
    ) -> dict[str, list[str]]:
        """What of the needed the user is said to lack."""
        self._note("missing_privileges")
        return {
            ref: [right for right in rights if right in self.lacking.get(ref, ())]
            for ref, rights in needed.items()
        }

    def vsan(self, site: Site) -> Vsan | None:
        """The configuration as given."""
        self._note("vsan")
        return self.config

    def vsan_state(self, site: Site, *, fresh: bool) -> VsanState:
        """The next state."""
        self._note("vsan_state")
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def counters(self, site: Site, names: Sequence[str], window: Window) -> list[Series]:
        """The given series of these names, cut to the window."""
        self._note("counters")
        return [_cut(item, window) for item in self.series if item.counter in names]

    def vsan_figures(self, site: Site, window: Window) -> Reading:
        """The given figures, cut to the window."""
        self._note("vsan_figures")
        return Reading(
            tuple(_cut(item, window) for item in self.figures.series), self.figures.warnings
        )

    def events(self, site: Site, window: Window, offset: float) -> list[PlatformEvent]:
        """The given events inside the window."""
        self._note("events")
        return [event for event in self.happened if window.start <= event.instant <= window.end]

    def close(self) -> None:
        """Nothing is open."""

    def _note(self, method: str) -> None:
        self.calls.append(method)
        if method in self.failing:
            raise self.failing[method]


def _cut(series: Series, window: Window) -> Series:
    samples = tuple(item for item in series.samples if window.start < item[0] <= window.end)
    return replace(series, samples=samples)

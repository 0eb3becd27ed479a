"""What hcio asks of a platform beside making workers: its state, figures and events. A protocol.

Names are as vCenter shows them. Instants are seconds since the epoch by the controller's clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestrator.counters import Series, Window
from orchestrator.events import PlatformEvent
from orchestrator.vsphere.base import Datastore, Site
from orchestrator.vsphere.facts import HostState, Policy, Vsan, VsanState


@dataclass(frozen=True)
class Reading:
    """Series that were read, and what could not be, in words."""

    series: tuple[Series, ...]
    warnings: tuple[str, ...] = ()


class Observes(Protocol):
    """A platform that can be asked what it is and what it does. Raises VSphereError branches."""

    def clock_offset(self) -> float:
        """The vCenter's clock minus the controller's, in seconds."""
        ...

    def host_states(self, site: Site, ours: Sequence[str]) -> list[HostState]:
        """Each host as it is now; machines whose ref is in `ours` are not others' load."""
        ...

    def placement(self, site: Site, machines: Mapping[str, str]) -> dict[str, str | None]:
        """The host (name) of each machine, by worker name; `machines` maps that to a ref."""
        ...

    def policies(self, site: Site, asked: str | None) -> dict[str, Policy]:
        """Storage policies by name; only the asked one's compatibility is looked up."""
        ...

    def default_policy(self, store: Datastore) -> Policy | None:
        """What a datastore gives to disks that ask for no policy; None when it has none."""
        ...

    def missing_privileges(
        self, site: Site, needed: Mapping[str, Sequence[str]]
    ) -> dict[str, list[str]]:
        """Of the privileges needed on each object (ref), those that the user lacks, by ref."""
        ...

    def vsan(self, site: Site) -> Vsan | None:
        """The vSAN configuration of the cluster; None when vSAN is off."""
        ...

    def vsan_state(self, site: Site, *, fresh: bool) -> VsanState:
        """Health and resync now; `fresh` runs the health tests rather than reading the last."""
        ...

    def counters(self, site: Site, names: Sequence[str], window: Window) -> list[Series]:
        """Real-time counters of every host over a window of the vCenter's clock."""
        ...

    def vsan_figures(self, site: Site, window: Window) -> Reading:
        """vSAN performance service figures over a window of the vCenter's clock."""
        ...

    def events(self, site: Site, window: Window, offset: float) -> list[PlatformEvent]:
        """What happened on the cluster in a window of the controller's clock, in order.

        `offset` is the vCenter's clock minus the controller's.
        """
        ...

    def close(self) -> None:
        """Drop connections of its own; safe to call twice."""
        ...

"""Watching the platform during one case: state before, counters meanwhile, state and events after.

vCenter keeps 20 s samples for about an hour, so they are fetched while the case runs. Nothing
here fails a case: what can't be read is a warning, and the figure is not available.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar

from orchestrator.counters import (
    USAGE_COUNTERS,
    Average,
    Series,
    Usage,
    Window,
    average_over,
    join_series,
    usage_table,
)
from orchestrator.errors import HcioError
from orchestrator.events import PlatformEvent, judge_events, judge_placement, judge_resync
from orchestrator.results import Reason
from orchestrator.vsphere.base import Site
from orchestrator.vsphere.facts import VsanState
from orchestrator.vsphere.observing import Observes, Reading

T = TypeVar("T")

#: Seconds between two fetches of counters: well inside the hour that vCenter keeps.
FETCH_EVERY: Final = 900.0
#: Each fetch reaches so many seconds back behind the last one: samples arrive late.
OVERLAP: Final = 120.0
#: After a case the last samples are waited for: so often, so many seconds apart.
SETTLE_TRIES: Final = 4
SETTLE_PAUSE: Final = 20.0

#: Events count so many seconds beyond both ends: clocks differ by that much unseen, and a move is
#: told when it is over.
EVENT_MARGIN: Final = 5.0

NO_SPAN: Final = Window(0.0, 0.0)
NOTHING_READ: Final = Reading(())


@dataclass(frozen=True)
class Watched:
    """What the platform did during a case. Hosts are names, by worker.

    `figures` are vSAN's own over the measured window, by entity and label.
    """

    usage: Usage | None = None
    figures: Mapping[str, Mapping[str, Average]] = field(default_factory=dict)
    events: tuple[PlatformEvent, ...] = ()
    hosts_before: Mapping[str, str | None] = field(default_factory=dict)
    hosts_after: Mapping[str, str | None] = field(default_factory=dict)
    vsan: bool = False
    vsan_before: VsanState | None = None
    vsan_after: VsanState | None = None
    warnings: tuple[str, ...] = ()
    #: from before the start of fio, the ramp included, to the end, by the controller's clock
    span: Window = NO_SPAN

    def reasons(self) -> list[Reason]:
        """What this means for the case's verdict (for `checks`)."""
        before, after = _left(self.vsan_before), _left(self.vsan_after)
        found = judge_events(self.events, list(self.hosts_before), self.span.start, self.span.end)
        moved = {reason.worker for reason in found if reason.code == "vmotion"}
        found += [
            reason
            for reason in judge_placement(self.hosts_before, self.hosts_after)
            if reason.worker not in moved
        ]
        if all(reason.code != "resync" for reason in found):
            found += judge_resync(before, after, vsan=self.vsan)
        return found

    def document(self) -> dict[str, Any]:
        """The form for a result; not available is null."""
        return asdict(self)


def _left(state: VsanState | None) -> int | None:
    return None if state is None else state.resync_bytes


class CaseWatch:
    """One case under watch: `begin` before fio starts, `sample` now and then, `end` after it."""

    def __init__(
        self,
        observer: Observes,
        site: Site,
        machines: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        fetch_every: float = FETCH_EVERY,
        counters: Sequence[str] = USAGE_COUNTERS,
    ) -> None:
        """`machines` maps a worker's name to its VM's ref."""
        self._observer = observer
        self._site = site
        self._machines = dict(machines)
        self._clock = clock
        self._sleep = sleep
        self._fetch_every = fetch_every
        self._names = tuple(counters)
        self._series: dict[tuple[str, str], Series] = {}
        self._warnings: dict[str, None] = {}
        self._vsan = site.vsan or any(store.kind.startswith("vsan") for store in site.datastores)
        self._began = self._fetched = clock()
        self._offset: float | None = None
        self._hosts: dict[str, str | None] = {}
        self._before: VsanState | None = None

    def begin(self) -> None:
        """Note the state before the case."""
        self._began = self._fetched = self._clock()
        self._offset = self._try("the vCenter's clock", self._observer.clock_offset, None)
        self._hosts = self._placement()
        self._before = self._state()

    def rejoin(self, began: float, hosts: Mapping[str, str | None]) -> None:
        """Watch a case on that an earlier process began to watch: its instant, its placement."""
        self.begin()
        self._began = self._fetched = began
        self._hosts = {name: hosts.get(name) for name in self._machines}

    @property
    def began(self) -> float:
        """When the watch began, by the controller's clock."""
        return self._began

    @property
    def hosts(self) -> Mapping[str, str | None]:
        """Where the workers were then, by name."""
        return self._hosts

    def sample(self) -> None:
        """Fetch counters when it is time; cheap otherwise. Call it while the case runs."""
        if self._clock() - self._fetched >= self._fetch_every:
            self._fetch()

    def end(self, measured: Window) -> Watched:
        """Note the state after the case; `measured` is without the ramp, the controller's clock."""
        ended = max(self._clock(), measured.end)
        self._began = min(self._began, measured.start)  # a case that was joined late
        if not self._series:
            self._fetched = min(self._fetched, measured.start)
        self._settle(measured)
        span = Window(self._began - EVENT_MARGIN, ended + EVENT_MARGIN)
        offset = self._offset or 0.0
        nothing: list[PlatformEvent] = []
        events = self._try(
            "events", lambda: self._observer.events(self._site, span, offset), nothing
        )
        return Watched(
            usage=usage_table(
                self._series.values(),
                [host.name for host in self._site.hosts],
                measured,
                clock_offset=self._offset,
                counters=self._names,
            ),
            figures=self._figures(measured.shifted(offset)),
            events=tuple(events),
            hosts_before=self._hosts,
            hosts_after=self._placement(),
            vsan=self._vsan,
            vsan_before=self._before,
            vsan_after=self._state(),
            warnings=tuple(self._warnings),
            span=span,
        )

    def _fetch(self) -> bool:
        now = self._clock()
        reach = Window(min(self._fetched, now) - OVERLAP, now).shifted(self._offset or 0.0)
        found = self._try(
            "host counters",
            lambda: self._observer.counters(self._site, self._names, reach),
            None,
        )
        if found is None:
            return False
        for item in found:
            key = (item.entity, item.counter)
            self._series[key] = join_series(self._series.get(key), item)
        self._fetched = now
        return True

    def _settle(self, measured: Window) -> None:
        """Fetch until the last sample of the window is there, or it doesn't come."""
        last = measured.shifted(self._offset or 0.0).end
        for remaining in reversed(range(SETTLE_TRIES)):
            if not self._fetch() or self._complete(last) or not remaining:
                return
            self._sleep(SETTLE_PAUSE)

    def _complete(self, end: float) -> bool:
        stamps = [item.samples[-1][0] for item in self._series.values() if item.samples]
        intervals = [item.interval for item in self._series.values()]
        return bool(stamps) and min(stamps) > end - max(intervals)

    def _figures(self, window: Window) -> dict[str, dict[str, Average]]:
        if not self._vsan:
            return {}
        reading = self._try(
            "vSAN's figures", lambda: self._observer.vsan_figures(self._site, window), NOTHING_READ
        )
        for warning in reading.warnings:
            self._warnings[warning] = None
        found: dict[str, dict[str, Average]] = {}
        for item in reading.series:
            found.setdefault(item.entity, {})[item.counter] = average_over(item, window)
        return found

    def _placement(self) -> dict[str, str | None]:
        unknown: dict[str, str | None] = dict.fromkeys(self._machines)
        return self._try(
            "the workers' hosts",
            lambda: self._observer.placement(self._site, self._machines),
            unknown,
        )

    def _state(self) -> VsanState | None:
        if not self._vsan:
            return None
        return self._try(
            "vSAN's state", lambda: self._observer.vsan_state(self._site, fresh=False), None
        )

    def _try(self, what: str, ask: Callable[[], T], default: T) -> T:
        try:
            return ask()
        except HcioError as error:
            self._warnings[f"{what}: not available: {error.what}"] = None
        except Exception as error:  # noqa: BLE001 - a figure beside the run must never end it
            self._warnings[f"{what}: not available: {type(error).__name__}: {error}"] = None
        return default

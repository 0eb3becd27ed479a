"""Reading vCenter's events of a cluster, page by page, as our own records."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any, Final

from pyVmomi import vim

from orchestrator.counters import Window
from orchestrator.events import PlatformEvent, classify_event
from orchestrator.vsphere.base import Site
from orchestrator.vsphere.session import Session

_log = logging.getLogger(__name__)

#: Events a page; vCenter's own limit is 1000.
PAGE: Final = 500
#: More than this in one window is somebody's storm of events: the rest is left unread, and said.
MOST: Final = 20_000


def read_events(session: Session, site: Site, window: Window, offset: float) -> list[PlatformEvent]:
    """Events of the cluster and all below it in a window of the controller's clock, in order.

    Those that are nothing to a measurement are left out.
    """
    there = window.shifted(offset)
    kind = vim.event.EventFilterSpec
    cluster = vim.ClusterComputeResource(site.cluster, session.stub)
    spec = kind(
        entity=kind.ByEntity(entity=cluster, recursion="all"),
        time=kind.ByTime(
            beginTime=datetime.fromtimestamp(there.start, UTC),
            endTime=datetime.fromtimestamp(there.end, UTC),
        ),
    )

    def ask() -> list[Any]:
        collector = session.content.eventManager.CreateCollectorForEvents(filter=spec)
        try:
            return _all(collector)
        finally:
            _discard(collector)

    raw = session.call("reading the cluster's events", ask, reads=True)
    found = [event for item in raw if (event := _event(item, offset)) is not None]
    return sorted(found, key=lambda event: event.instant)


def _all(collector: Any) -> list[Any]:
    # The newest page on its own: what came last is in it, wherever a rewind leaves the cursor.
    events: dict[int, Any] = {event.key: event for event in collector.latestPage or ()}
    collector.RewindCollector()
    while len(events) < MOST:
        page = collector.ReadNextEvents(maxCount=PAGE)
        if not page:
            return list(events.values())
        events |= {event.key: event for event in page}
    _log.warning("more than %d events in one window: the rest was left unread", MOST)
    return list(events.values())


def _discard(collector: Any) -> None:
    try:
        collector.DestroyCollector()
    except Exception:  # noqa: BLE001 - it goes with the session; the events matter more
        _log.debug("an event collector could not be removed", exc_info=True)


def _event(event: Any, offset: float) -> PlatformEvent | None:
    name = getattr(event, "eventTypeId", None) or type(event).__name__.rpartition(".")[2]
    kind = classify_event(str(name))
    if kind is None:
        return None
    return PlatformEvent(
        instant=event.createdTime.timestamp() - offset,
        kind=kind,
        type=str(name),
        text=str(event.fullFormattedMessage or "").strip(),
        machine=_name(event.vm),
        host=_name(event.host),
    )


def _name(argument: Any) -> str | None:
    return None if argument is None else str(argument.name)

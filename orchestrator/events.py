"""What happened on the platform during a case, and what that does to its verdict. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from orchestrator.results import Reason

EventKind = Literal["migration", "ha", "host", "resync", "policy", "reconfigured", "alarm"]

#: vSphere's event types (a class, or the id of an EventEx), the first pattern that fits decides.
#: A migration is one that ended or failed: either way the machine was being moved.
_KINDS: Final[tuple[tuple[EventKind, re.Pattern[str]], ...]] = (
    (
        "migration",
        re.compile(
            r"(Drs)?Vm(Migrated|Relocated)Event|VmBeing(Hot)?MigratedEvent|VmBeingRelocatedEvent"
            r"|VmFailed(Migrate|Relocate)Event|MigrationErrorEvent|.*\.vm\.(v?motion|migrat).*",
            re.IGNORECASE,
        ),
    ),
    (
        "ha",
        re.compile(
            r"VmRestartedOnAlternateHostEvent|(Vm)?Das.*Event|VmFailoverFailed|FailoverLevelRestored"
            r"|ClusterFailoverActionInitiatedEvent.*|com\.vmware\.vc\.ha\..*"
            r"|com\.vmware\.vc\.vm\.VmRestarted.*",
            re.IGNORECASE,
        ),
    ),
    ("resync", re.compile(r".*(resync|vsan.*(rebuild|repair|rebalanc|evacuat)).*", re.IGNORECASE)),
    (
        "policy",
        re.compile(
            r"(Profile|Policy).*Event|com\.vmware\.(pbm|vc\.sps)\..*|.*storagepolicy.*",
            re.IGNORECASE,
        ),
    ),
    (
        "host",
        re.compile(
            r"Host(ConnectionLost|Disconnected|Shutdown|NotResponding|Removed|Connected|"
            r"Reconnected|IsolationIpPing.*)Event|(Entering|Entered|Exit)MaintenanceModeEvent"
            r"|esx\.problem\.(vob\.)?vsan\..*|vsan\..*(disk|network|host|node).*",
            re.IGNORECASE,
        ),
    ),
    ("reconfigured", re.compile(r"VmReconfiguredEvent|ClusterReconfiguredEvent", re.IGNORECASE)),
    # A device that answers late under load says so in an esx.problem: a note, the load is ours.
    ("alarm", re.compile(r"AlarmStatusChangedEvent|esx\.problem\..*", re.IGNORECASE)),
)


@dataclass(frozen=True)
class PlatformEvent:
    """One event, at `instant` in seconds since the epoch by the controller's clock.

    `machine` and `host` are names, `type` is vSphere's own word for it.
    """

    instant: float
    kind: EventKind
    type: str
    text: str
    machine: str | None = None
    host: str | None = None


def classify_event(event_type: str) -> EventKind | None:
    """The kind of an event, by vSphere's type; None for one that is nothing to a measurement."""
    return next((kind for kind, pattern in _KINDS if pattern.fullmatch(event_type)), None)


def judge_events(
    events: Sequence[PlatformEvent], workers: Sequence[str], start: float, end: float
) -> list[Reason]:
    """Reasons from the events between two instants, the ramp included: it shapes what follows.

    A move or a restart of a worker, a resync, or the loss of a host makes figures unknown; the
    rest is noted.
    """
    mine = frozenset(workers)
    inside = [event for event in events if start <= event.instant <= end]
    return [reason for event in inside if (reason := _reason(event, mine)) is not None]


def _reason(event: PlatformEvent, workers: frozenset[str]) -> Reason | None:
    ours = event.machine in workers
    if event.kind == "migration":
        return _moved(event) if ours else _noted(event, "another machine was moved")
    if event.kind == "ha":
        return _doubt(event, "ha_restart", "vSphere HA acted during the case")
    if event.kind == "resync":
        return _doubt(event, "resync", "vSAN was resyncing during the case")
    if event.kind == "host":
        return _doubt(event, "host_state", "a host changed its state during the case")
    if event.kind == "policy":
        return _doubt(event, "policy_change", "a storage policy changed during the case")
    if event.kind == "reconfigured":
        if ours:
            return _doubt(event, "worker_changed", "the worker was reconfigured during the case")
        return None
    return _noted(event, "an alarm changed")


def _moved(event: PlatformEvent) -> Reason:
    return _doubt(event, "vmotion", "the worker was moved to another host or datastore")


def _doubt(event: PlatformEvent, code: str, what: str) -> Reason:
    return Reason(
        code=code,
        text=what,
        worker=event.machine,
        level="unknown",
        evidence=_evidence(event),
        next_step="run the case again when the cluster is at rest",
    )


def _noted(event: PlatformEvent, what: str) -> Reason:
    return Reason(code=f"platform_{event.kind}", text=what, level="note", evidence=_evidence(event))


def _evidence(event: PlatformEvent) -> str:
    place = f" on {event.host}" if event.host else ""
    return f"{event.type}{place}: {event.text}"


def judge_placement(
    before: Mapping[str, str | None], after: Mapping[str, str | None]
) -> list[Reason]:
    """Reasons where a worker's host (by name) differs between start and end, or isn't known."""
    reasons = []
    for worker, host in before.items():
        now = after.get(worker)
        if host is not None and now is not None and host != now:
            reasons.append(
                Reason(
                    code="vmotion",
                    text="the worker was moved to another host",
                    worker=worker,
                    level="unknown",
                    evidence=f"{host} at the start, {now} at the end",
                    next_step="pin workers (workers.pin_hosts: true) and run the case again",
                )
            )
        elif host is None or now is None:
            reasons.append(
                Reason(
                    code="placement_unknown",
                    text="nobody could tell whether the worker was moved",
                    worker=worker,
                    level="note",
                    evidence=f"{host or 'unknown'} at the start, {now or 'unknown'} at the end",
                )
            )
    return reasons


def judge_resync(before: int | None, after: int | None, *, vsan: bool) -> list[Reason]:
    """Reasons from the bytes that vSAN had still to copy before and after a case."""
    if not vsan:
        return []
    if before is None or after is None:
        return [
            Reason(
                code="resync_unknown",
                text="vSAN's resync state could not be read before and after the case",
                level="note",
                next_step="see Monitor, vSAN, Resyncing Objects",
            )
        ]
    if not before and not after:
        return []
    return [
        Reason(
            code="resync",
            text="vSAN was resyncing during the case",
            level="unknown",
            threshold="0 bytes",
            evidence=f"{before} bytes before, {after} bytes after",
            next_step="wait until the resync is done, then run the case again",
        )
    ]


def judge_cache(asked: bool, cleared: bool | None, why: str) -> list[Reason]:
    """Reasons from clearing the cache: `cleared` is None where there is nothing to clear."""
    if not asked or cleared:
        return []
    if cleared is None:
        return [Reason(code="cache_none", text=f"nothing to clear: {why}", level="note")]
    return [
        Reason(
            code="cache_not_cleared",
            text="the cache was not cleared before the case as the suite asks",
            level="unknown",
            evidence=why,
            next_step="solve what the evidence names, then run the case again",
        )
    ]

"""What a run's journal says: which cases were armed, collected, decided, are over. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.clocks import ClockReading
from orchestrator.plan import warm_up_id
from orchestrator.store import Event
from orchestrator.windows import WarmUp

CASE_FINISHED = "case.finished"
CASE_ARMING = "case.arming"
CASE_DECIDED = "case.decided"
CASE_STOPPED = "case.stopped"
WARMED_UP = "case.warmed-up"
PREPARED = "prepare.finished"
WORKER_COLLECTED = "worker.collected"


def finished_cases(events: Sequence[Event]) -> dict[str, str]:
    """Cases that are over, with their outcome."""
    return {e.fields["case"]: e.fields["outcome"] for e in events if e.name == CASE_FINISHED}


def skipped_cases(events: Sequence[Event]) -> dict[str, str]:
    """Cases that were never started, with the reason: a policy, or repeats that were enough."""
    return {
        e.fields["case"]: str(e.fields["why"])
        for e in events
        if e.name == CASE_FINISHED and "why" in e.fields
    }


def agreed_start(case: str, events: Sequence[Event]) -> float | None:
    """The case's T0 by the controller's clock: that of its last attempt; None before the first."""
    instants = [
        e.fields["t0"] for e in events if e.name == CASE_ARMING and e.fields["case"] == case
    ]
    return float(instants[-1]) if instants else None


def last_arming(
    case: str, events: Sequence[Event]
) -> tuple[int, float | None, dict[str, ClockReading]]:
    """The last attempt to arm a case: its number (0: none), T0, and the clocks it used."""
    armings = [e for e in events if e.name == CASE_ARMING and e.fields["case"] == case]
    if not armings:
        return 0, None, {}
    last = armings[-1].fields
    clocks = {
        name: ClockReading(offset, uncertainty, samples=0, spread_s=0.0)
        for name, (offset, uncertainty) in last["clocks"].items()
    }
    return int(last["attempt"]), float(last["t0"]), clocks


def collected_workers(case: str, events: Sequence[Event]) -> frozenset[str]:
    """Workers whose files of a case are in the folder for good."""
    return frozenset(
        event.fields["worker"]
        for event in events
        if event.name == WORKER_COLLECTED
        and event.fields["case"] == case
        and event.fields["outcome"] != "broken"
    )


def decided(case: str, events: Sequence[Event]) -> str | None:
    """What ended a case that runs until steady: `steady` or `cap`; None for any other."""
    found = [e for e in events if e.name == CASE_DECIDED and e.fields["case"] == case]
    return str(found[-1].fields["ended_by"]) if found else None


def warmed_up(case: str, events: Sequence[Event]) -> WarmUp | None:
    """How a case's warm-up ended; None where there was none."""
    name = warm_up_id(case)
    found = [e.fields for e in events if e.name == CASE_DECIDED and e.fields["case"] == name]
    if not found:
        over = any(e.name == WARMED_UP and e.fields["case"] == case for e in events)
        why = "ended by itself before it was found steady"
        return WarmUp(ended_by="cap", seconds=None, reason=why) if over else None
    last = found[-1]
    return WarmUp(
        ended_by=str(last["ended_by"]),
        seconds=float(last["measured_s"]),
        reason=str(last["reason"]),
    )


def decided_seconds(case: str, events: Sequence[Event]) -> float:
    """Seconds that a case had measured when it was found steady; whole ones, fio ended later."""
    found = [e for e in events if e.name == CASE_DECIDED and e.fields["case"] == case]
    return float(int(found[-1].fields["measured_s"]))

"""What a run's journal says: which cases were armed, collected, decided, are over. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.clocks import ClockReading
from orchestrator.store import Event

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


def decided_seconds(case: str, events: Sequence[Event]) -> float:
    """Seconds that a case had measured when it was found steady; whole ones, fio ended later."""
    found = [e for e in events if e.name == CASE_DECIDED and e.fields["case"] == case]
    return float(int(found[-1].fields["measured_s"]))

"""Which case of a run comes next: the plan's own list, or what a search makes of its probes so far.

A search's probes are cases like others. Each is journaled as it is decided, so the plan as it
stands is the plan of the folder and the journal together, and a search goes on wherever it was
left.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from orchestrator.acceptance import parse_objective
from orchestrator.assessment import assess_case
from orchestrator.journal import finished_cases
from orchestrator.plan import Plan
from orchestrator.report.search import search_document
from orchestrator.search import (
    Finished,
    Measured,
    Probe,
    Settings,
    measured,
    next_probe,
    unfinished,
)
from orchestrator.sought import Sought, probe_case
from orchestrator.store import Event, RunFolder
from orchestrator.suites import Case

CASE_PLANNED: Final = "case.planned"
#: The search's settings, answer and curve, in its run's folder.
SEARCH: Final = "search.json"


@dataclass(frozen=True)
class Next:
    """The case to run. `probe` is set where it was decided just now and isn't in the plan yet."""

    case: Case
    probe: Probe | None = None


class Agenda(Protocol):
    """Says which case comes next."""

    def next(self, plan: Plan, folder: RunFolder) -> Next | None:
        """The first case that isn't over; None at the end of the run."""
        ...


class Listed:
    """The cases that the plan lists."""

    def next(self, plan: Plan, folder: RunFolder) -> Next | None:
        over = finished_cases(folder.events())
        return next((Next(case) for case in plan.cases if case.id not in over), None)


class Searching:
    """A search's probes; figures of those that are over are read once."""

    def __init__(self, sought: Sought) -> None:
        self.sought = sought
        self.settings = search_settings(sought)
        self._known: dict[str, Measured] = {}

    def next(self, plan: Plan, folder: RunFolder) -> Next | None:
        events = folder.events()
        over = finished_cases(events)
        for case in plan.cases:
            if case.id not in over:
                return Next(case)
        decision = next_probe(self._history(plan, folder, events), self.settings)
        if isinstance(decision, Finished):
            return None
        number = len(plan.cases) + 1
        return Next(probe_case(self.sought, number, decision.load, full=decision.full), decision)

    def outcome(self, plan: Plan, folder: RunFolder) -> Finished:
        """The search's end, or `not finished` with the curve so far; kept in search.json."""
        events = folder.events()
        history = self._history(plan, folder, events)
        open_cases = len(plan.cases) > len(history)
        decision = None if open_cases else next_probe(history, self.settings)
        found = decision if isinstance(decision, Finished) else unfinished(history, self.settings)
        document = search_document(found, self.settings)
        folder.write(SEARCH, json.dumps(document, indent=1, allow_nan=False) + "\n")
        return found

    def _history(self, plan: Plan, folder: RunFolder, events: Sequence[Event]) -> list[Measured]:
        over = finished_cases(events)
        history = []
        for case_id, probe in planned_probes(events):
            if case_id in over:
                if case_id not in self._known:
                    result = assess_case(plan, plan.case(case_id), folder, events)
                    self._known[case_id] = measured(result, probe, self.settings)
                history.append(self._known[case_id])
        return history


def agenda_of(plan: Plan) -> Agenda:
    """The plan's way to its cases."""
    return Listed() if plan.sought is None else Searching(plan.sought)


def search_settings(sought: Sought) -> Settings:
    """What the search's algorithm is told. ConfigError for an objective that isn't one."""
    return Settings(
        objectives=tuple(parse_objective(text) for text in sought.slo),
        axis=sought.axis,
        least=sought.least,
        most=sought.most,
        resolution=sought.resolution,
        most_probes=sought.most_probes,
        curve_points=sought.curve_points,
    )


def record_probe(folder: RunFolder, planned: Next) -> None:
    """Journal a probe that was decided, before anything is done for it."""
    probe = planned.probe
    if probe is not None:
        folder.record(
            CASE_PLANNED,
            case=planned.case.id,
            load=probe.load,
            full=probe.full,
            purpose=probe.purpose,
        )


def planned_probes(events: Sequence[Event]) -> list[tuple[str, Probe]]:
    """The probes decided so far, by their cases' ids."""
    return [
        (
            str(event.fields["case"]),
            Probe(event.fields["load"], event.fields["full"], event.fields["purpose"]),
        )
        for event in events
        if event.name == CASE_PLANNED
    ]


def plan_so_far(plan: Plan, events: Sequence[Event]) -> Plan:
    """The plan with the cases that its search has decided; any other plan as it is."""
    if plan.sought is None:
        return plan
    cases = tuple(
        probe_case(plan.sought, number, probe.load, full=probe.full)
        for number, (_, probe) in enumerate(planned_probes(events), start=1)
    )
    return plan.model_copy(update={"cases": cases})

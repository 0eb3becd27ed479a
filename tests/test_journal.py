"""What the journal says of a run, from its events alone."""

from __future__ import annotations

from typing import Any

from orchestrator.journal import warmed_up
from orchestrator.store import Event


def event(name: str, **fields: Any) -> Event:
    """One event."""
    return Event(0.0, name, fields)


def test_a_warm_up_is_known_by_its_last_decision() -> None:
    """Steady or at its cap, with the words of the decision; none without a warm-up."""
    asked = {"case": "c.warm-up", "measured_s": 20.0, "reason": "steady after 20 s"}
    found = warmed_up("c", [event("case.decided", ended_by="steady", **asked)])
    assert found is not None
    assert (found.ended_by, found.seconds, found.reason) == ("steady", 20.0, "steady after 20 s")
    own = {**asked, "case": "c"}
    assert warmed_up("c", [event("case.decided", ended_by="steady", **own)]) is None


def test_a_warm_up_that_ended_by_itself_was_not_found_steady() -> None:
    """fio's end without a decision counts as the cap."""
    found = warmed_up("c", [event("case.warmed-up", case="c", ended_by="cap")])
    assert found is not None
    assert (found.ended_by, found.seconds) == ("cap", None)

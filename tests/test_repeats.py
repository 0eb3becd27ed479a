"""Repeats of cases: as suites ask for them, and the gate that ends them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from orchestrator.profiles import Profile
from orchestrator.suites import Repeats, Suite, expand_suite


def _profile(name: str) -> Profile:
    return Profile.model_validate({"name": name, "block_size": "4k"})


def test_repeats_run_in_rounds() -> None:
    """Every case once, then every case again, each repeat with an id of its own."""
    suite = Suite.model_validate({"name": "s", "cases": ["a", "b"], "repeats": 2})
    ids = [case.id for case in expand_suite(suite, _profile, only=["a", "b"])]
    assert ids == ["a.repeat=1", "b.repeat=1", "a.repeat=2", "b.repeat=2"]


def test_one_repeat_keeps_the_plain_id() -> None:
    """A suite without repeats has the ids it always had."""
    suite = Suite.model_validate({"name": "s", "cases": ["a"]})
    assert [case.id for case in expand_suite(suite, _profile)] == ["a"]
    assert suite.repeats.gate is None


def test_a_gate_plans_for_its_cap() -> None:
    """`within: 2%` plans the cap; the gate knows percent as a share."""
    repeats = Repeats.model_validate({"least": 3, "most": 8, "within": "2%"})
    assert repeats.planned == 8
    assert repeats.gate is not None
    assert (repeats.gate.within, repeats.gate.least, repeats.gate.most) == (0.02, 3, 8)


@pytest.mark.parametrize(
    "wrong", [0, True, {"least": 5, "most": 3, "within": 2}, {"most": 5}, {"within": "x"}]
)
def test_wrong_repeats_are_refused(wrong: object) -> None:
    """Counts below 1, a cap below the least, a cap without a rule."""
    with pytest.raises(ValidationError):
        Repeats.model_validate(wrong)

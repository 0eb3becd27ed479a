"""Repeats of cases: as suites ask for them, and the gate that ends them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from orchestrator.expansion import expand_suite
from orchestrator.metrics import Unit, show_value
from orchestrator.profiles import Profile
from orchestrator.repetition import another_repeat, gates, spreads
from orchestrator.report.repetition import render_gates, render_spreads
from orchestrator.results import (
    CaseResult,
    DirectionResult,
    TotalResult,
    Verdict,
    VerdictValue,
)
from orchestrator.suites import Repeats, Suite


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


def _result(case: str, iops: float | None, verdict: VerdictValue = "valid") -> CaseResult:
    read = DirectionResult(ios=1, bytes=1, iops=iops, bytes_per_s=None)
    return CaseResult(
        case=case,
        outcome="done",
        verdict=Verdict(value=verdict),
        expected_workers=1,
        received_workers=1,
        total=TotalResult(read=read),
        workers={},
    )


def _repeats(*values: float | None) -> list[CaseResult]:
    return [_result(f"a.repeat={n}", value) for n, value in enumerate(values, start=1)]


def test_the_gate_ends_a_case_and_no_other() -> None:
    """Three steady repeats of `a` end it; `b` has had none and goes on."""
    repeats = Repeats.model_validate({"least": 3, "most": 5, "within": "2%"})
    earlier = _repeats(100.0, 100.2, 99.9)
    done = another_repeat("a.repeat=4", earlier, repeats)
    assert done is not None
    assert (done.go_on, done.reached) == (False, True)
    other = another_repeat("b.repeat=1", earlier, repeats)
    assert other is not None
    assert other.go_on


def test_a_noisy_case_goes_on_to_the_cap() -> None:
    """Wide intervals go on; at the cap the decision says that it gave up."""
    repeats = Repeats.model_validate({"least": 3, "most": 4, "within": "2%"})
    noisy = another_repeat("a.repeat=4", _repeats(100.0, 130.0, 70.0), repeats)
    assert noisy is not None
    assert noisy.go_on
    capped = another_repeat("a.repeat=5", _repeats(100.0, 130.0, 70.0, 110.0), repeats)
    assert capped is not None
    assert not capped.go_on
    assert "gave up" in capped.text


def test_invalid_repeats_do_not_count() -> None:
    """A repeat whose figures are invalid is no sample."""
    repeats = Repeats.model_validate({"least": 3, "most": 5, "within": "2%"})
    bad = _result("a.repeat=3", 100.0, "invalid")
    decision = another_repeat("a.repeat=4", [*_repeats(100.0, 100.1), bad], repeats)
    assert decision is not None
    assert "2 of at least 3" in decision.text


def test_nothing_to_decide() -> None:
    """Without a gate, or for a case that isn't repeated, there is no decision."""
    gated = Repeats.model_validate({"least": 2, "most": 5, "within": 2})
    assert another_repeat("a", [], gated) is None
    assert another_repeat("a.repeat=1", [], Repeats(least=3)) is None


def test_spreads_of_repeated_cases() -> None:
    """Mean and interval a metric; single cases and unknown figures are left out and counted."""
    found = spreads([*_repeats(100.0, 102.0, None), _result("b", 5.0)])
    assert [(s.case, s.metric, s.summary.count, s.lacking) for s in found] == [
        ("a", "iops", 2, 1),
        ("a", "read.iops", 2, 1),
    ]
    text = render_spreads(found)
    assert "101" in text
    assert "1 without this figure" in text
    assert render_spreads(()) == ""


def test_the_report_says_whether_the_gate_was_reached() -> None:
    """From the results alone: narrow enough, given up at the cap, or too few that count."""
    asked = Repeats(least=3, most=5, within=2.0)
    calm = _repeats(100.0, 100.1, 99.9)
    noisy = [replace(r, case=f"b.repeat={n}") for n, r in enumerate(_repeats(9, 1, 5, 2, 7), 1)]
    first, second = gates([*calm, *noisy, _result("c", 5.0)], asked)
    assert (first.case, first.metric, first.reached) == ("a", "iops", True)
    assert (second.case, second.reached) == ("b", False)
    text = render_gates([first, second])
    assert "a: iops is narrow enough\n  interval" in text
    assert "b: iops is not as narrow as asked\n  interval" in text
    assert "gave up at the cap of 5" in text
    assert gates(calm, Repeats(least=3)) == ()
    assert not gates(_repeats(1.0), asked)[0].reached


def test_mean_and_interval_are_in_one_unit() -> None:
    """A half width below 0.1 ms beside a mean of milliseconds isn't in microseconds."""
    unit: Unit = "ns"
    assert show_value(1.3e6, unit) == "1.300 ms"
    assert show_value(5e4, unit, 1.3e6) == "0.050 ms"
    assert show_value(5e4, unit) == "50.00 µs"

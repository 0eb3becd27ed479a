"""Preflight checks: all run, none hides another, and what could not run is red."""

from __future__ import annotations

import threading

import pytest

from orchestrator.errors import HostUnreachable
from orchestrator.preflight import (
    Check,
    Finding,
    Light,
    NamedCheck,
    exit_code,
    green,
    red,
    run_checks,
    worst,
    yellow,
)
from orchestrator.report.preflight import checks_document, render_checks


def _say(finding: Finding):
    return lambda: finding


def _raise(error: Exception):
    def ask() -> Finding:
        raise error

    return ask


def test_every_check_is_answered_in_the_order_given() -> None:
    """A red, a crash and a yellow hide nothing: four questions, four answers, same order."""
    checks = [
        NamedCheck("a", _say(red("no", "do"))),
        NamedCheck("b", _raise(RuntimeError("boom"))),
        NamedCheck("c", _say(yellow("hm", "look"))),
        NamedCheck("d", _say(green("fine"))),
    ]
    answers = run_checks(checks)
    assert [(check.name, check.light, check.ran) for check in answers] == [
        ("a", Light.RED, True),
        ("b", Light.RED, False),
        ("c", Light.YELLOW, True),
        ("d", Light.GREEN, True),
    ]
    assert "RuntimeError: boom" in answers[1].evidence


def test_case_51_a_check_that_hangs_is_red_with_its_limit_and_holds_up_nobody() -> None:
    """Case 51: every step has a time limit; the hanging one is named, the others are answered."""
    release = threading.Event()

    def hang() -> Finding:
        release.wait()
        return green("too late")

    told: list[str] = []
    try:
        answers = run_checks(
            [NamedCheck("policy", hang, limit=0.05), NamedCheck("dns", _say(green("ok")))],
            started=told.append,
        )
    finally:
        release.set()
    assert told == ["policy", "dns"]
    assert answers[0].light is Light.RED
    assert not answers[0].ran
    assert "no answer within 0.05 s" in answers[0].evidence
    assert answers[1].light is Light.GREEN


def test_hanging_checks_end_even_when_only_one_may_run_at_once() -> None:
    """A bound of one still asks the next check after the first one's limit passed."""
    release = threading.Event()

    def hang() -> Finding:
        release.wait()
        return green("too late")

    try:
        answers = run_checks(
            [NamedCheck("first", hang, limit=0.05), NamedCheck("second", _say(green("ok")))],
            parallel=1,
        )
    finally:
        release.set()
    assert [check.light for check in answers] == [Light.RED, Light.GREEN]


def test_a_check_whose_need_is_red_is_red_and_names_the_need() -> None:
    """What depends on a failed login is not asked, and says so, down the whole chain."""
    asked: list[str] = []

    def note() -> Finding:
        asked.append("x")
        return green("x")

    answers = run_checks(
        [
            NamedCheck("login", _raise(HostUnreachable("vc", "connect", "refused"))),
            NamedCheck("inventory", note, needs=("login",)),
            NamedCheck("policy", note, needs=("inventory",)),
        ]
    )
    assert asked == []
    assert [check.ran for check in answers] == [False, False, False]
    assert "vc: connect: refused" in answers[0].evidence
    assert "'login'" in answers[1].evidence
    assert "'inventory'" in answers[2].evidence


def test_a_yellow_need_does_not_block() -> None:
    """Only red blocks: after a warning the next question is still asked."""
    answers = run_checks(
        [
            NamedCheck("tls", _say(yellow("insecure", "pin it"))),
            NamedCheck("login", _say(green("in")), needs=("tls",)),
        ]
    )
    assert answers[1].light is Light.GREEN


@pytest.mark.parametrize(
    "checks",
    [
        [NamedCheck("a", _say(green(""))), NamedCheck("a", _say(green("")))],
        [NamedCheck("a", _say(green("")), needs=("b",)), NamedCheck("b", _say(green("")))],
    ],
)
def test_a_list_that_makes_no_sense_is_refused(checks: list[NamedCheck]) -> None:
    """Two of one name, or a need that comes later, is our own mistake and said at once."""
    with pytest.raises(ValueError):
        run_checks(checks)


def test_exit_code_tells_no_from_could_not_tell() -> None:
    """1 when a check said no, 3 when the only reds never got an answer, 0 with warnings alone."""
    good = Check("a", Light.YELLOW, "hm", "look")
    no = Check("b", Light.RED, "no", "do")
    mute = Check("c", Light.RED, "no answer", ran=False)
    assert exit_code([good]) == 0
    assert exit_code([good, mute]) == 3
    assert exit_code([good, mute, no]) == 1


def test_worst_keeps_every_text_of_the_worst_light() -> None:
    """Of many findings the worst decides, and none of that light is lost."""
    found = worst([green("a"), red("b", "x"), yellow("c", "y"), red("d", "x")], nothing="none")
    assert found == Finding(Light.RED, "b; d", "x")
    assert worst([], nothing="none") == green("none")


def test_the_table_shows_evidence_and_next_step_and_what_did_not_run() -> None:
    """Each check has its line; a next step stands under each that isn't green."""
    text = render_checks(
        [
            Check("dns", Light.GREEN, "4 names"),
            Check("capacity", Light.RED, "95 %", "smaller disks"),
            Check("policy", Light.RED, "no answer within 30 s", "look", ran=False),
        ]
    )
    assert text.splitlines() == [
        "ok    dns       4 names",
        "FAIL  capacity  95 %",
        "                next: smaller disks",
        "????  policy    no answer within 30 s",
        "                next: look",
        "",
        "3 checks: 1 green, 0 yellow, 2 red (1 could not run)",
    ]


def test_the_document_has_null_for_what_is_not_known() -> None:
    """A check that never started has no seconds: null, not 0."""
    document = checks_document([Check("a", Light.RED, "x", ran=False)])
    assert document["checks"][0]["seconds"] is None
    assert document["counts"] == {"green": 0, "yellow": 0, "red": 1}

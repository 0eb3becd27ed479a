"""What a preflight check is, and how many of them run: all, at once, each in its own time limit.

No check hides another. A check that could not run (it failed itself, it did not finish, or what
it needs failed) is red, and says why: silence is never taken for consent.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from orchestrator.errors import EXIT_GOOD, EXIT_NO, EXIT_UNKNOWN, HcioError

#: Seconds that a check may take unless it says otherwise.
DEFAULT_LIMIT: Final = 30.0
#: Checks that run at once; they mostly wait for the network.
DEFAULT_PARALLEL: Final = 16


class Light(StrEnum):
    """Green: go. Yellow: go, but know this. Red: don't, or nobody could tell."""

    GREEN = "green"
    YELLOW = "yellow"
    RED = "red"


@dataclass(frozen=True)
class Finding:
    """What a check function says: its light, what was seen, and what to do when not green."""

    light: Light
    evidence: str
    next_step: str = ""


@dataclass(frozen=True)
class Check:
    """One line of the preflight. `ran` is false when the question itself was never answered.

    `seconds` is how long it took by the caller's clock, None when it was not started.
    """

    name: str
    light: Light
    evidence: str
    next_step: str = ""
    ran: bool = True
    seconds: float | None = None


@dataclass(frozen=True)
class NamedCheck:
    """A question to ask: its name, the function that answers it, and its time limit in seconds.

    `needs` names checks that must not be red before this one makes sense.
    """

    name: str
    ask: Callable[[], Finding]
    limit: float = DEFAULT_LIMIT
    needs: tuple[str, ...] = ()


def green(evidence: str) -> Finding:
    """All is well; the evidence says what was seen."""
    return Finding(Light.GREEN, evidence)


def yellow(evidence: str, next_step: str) -> Finding:
    """It can go on, with something to know."""
    return Finding(Light.YELLOW, evidence, next_step)


def red(evidence: str, next_step: str) -> Finding:
    """It must not go on."""
    return Finding(Light.RED, evidence, next_step)


def worst(findings: Sequence[Finding], *, nothing: str) -> Finding:
    """One finding of several: the worst light, every text of that light; green texts if all are.

    `nothing` is the evidence of an empty sequence, which is green: there was nothing to object to.
    """
    if not findings:
        return green(nothing)
    light = max((finding.light for finding in findings), key=list(Light).index)
    same = [finding for finding in findings if finding.light is light]
    steps = dict.fromkeys(finding.next_step for finding in same if finding.next_step)
    return Finding(light, "; ".join(finding.evidence for finding in same), "; ".join(steps))


def exit_code(checks: Sequence[Check]) -> int:
    """0 when nothing is red, 1 when a check said no, 3 when the only reds never ran."""
    reds = [check for check in checks if check.light is Light.RED]
    if any(check.ran for check in reds):
        return EXIT_NO
    return EXIT_UNKNOWN if reds else EXIT_GOOD


def run_checks(
    checks: Sequence[NamedCheck],
    *,
    parallel: int = DEFAULT_PARALLEL,
    started: Callable[[str], None] = lambda name: None,
    finished: Callable[[Check], None] = lambda check: None,
    monotonic: Callable[[], float] = time.monotonic,
) -> list[Check]:
    """Ask every check and return the answers in the order given, never fewer than were asked.

    `started` and `finished` are told from the calling thread, so a user sees what is awaited.
    A function that hangs is left behind in a daemon thread when its limit passes. ValueError when
    two checks share a name or one needs a check that comes later or not at all.
    """
    _refuse_bad_order(checks)
    return _Round(checks, parallel, started, finished, monotonic).run()


def _refuse_bad_order(checks: Sequence[NamedCheck]) -> None:
    seen: set[str] = set()
    for check in checks:
        if check.name in seen:
            raise ValueError(f"two checks are named {check.name!r}")
        missing = [name for name in check.needs if name not in seen]
        if missing:
            raise ValueError(f"check {check.name!r} needs {missing[0]!r}, which is not before it")
        seen.add(check.name)


class _Round:
    """One run over a list of checks: what waits, what runs since when, and what was answered."""

    def __init__(
        self,
        checks: Sequence[NamedCheck],
        parallel: int,
        started: Callable[[str], None],
        finished: Callable[[Check], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._checks = checks
        self._parallel = parallel
        self._started = started
        self._finished = finished
        self._monotonic = monotonic
        self._waiting = list(checks)
        self._running: dict[str, tuple[NamedCheck, float]] = {}
        self._answers: dict[str, Check] = {}
        self._inbox: queue.SimpleQueue[tuple[str, Finding | Exception]] = queue.SimpleQueue()

    def run(self) -> list[Check]:
        while len(self._answers) < len(self._checks):
            self._start_ready()
            if self._running:
                self._receive()
                self._expire()
        return [self._answers[check.name] for check in self._checks]

    def _start_ready(self) -> None:
        for check in list(self._waiting):
            if any(name not in self._answers for name in check.needs):
                continue
            failed = _failed_need(check, self._answers)
            if failed is None and len(self._running) >= self._parallel:
                continue
            self._waiting.remove(check)
            if failed is not None:
                self._record(_blocked(check, failed))
            else:
                self._start(check)

    def _start(self, check: NamedCheck) -> None:
        self._started(check.name)
        self._running[check.name] = (check, self._monotonic())
        threading.Thread(
            target=_ask, args=(check, self._inbox), name=f"check {check.name}", daemon=True
        ).start()

    def _receive(self) -> None:
        now = self._monotonic()
        left = min(since + check.limit - now for check, since in self._running.values())
        try:
            name, answer = self._inbox.get(timeout=max(0.0, left))
        except queue.Empty:
            return
        if name in self._running:  # an answer after its limit is too late: it is already red
            check, since = self._running.pop(name)
            self._record(_answered(check, answer, self._monotonic() - since))

    def _expire(self) -> None:
        now = self._monotonic()
        for check, since in list(self._running.values()):
            if now - since >= check.limit:
                del self._running[check.name]
                self._record(_overdue(check, now - since))

    def _record(self, answer: Check) -> None:
        self._answers[answer.name] = answer
        self._finished(answer)


def _ask(check: NamedCheck, inbox: queue.SimpleQueue[tuple[str, Finding | Exception]]) -> None:
    try:
        answer: Finding | Exception = check.ask()
    except Exception as error:  # noqa: BLE001 - a check that crashes is an answer, not the end
        answer = error
    inbox.put((check.name, answer))


def _answered(check: NamedCheck, answer: Finding | Exception, seconds: float) -> Check:
    if isinstance(answer, Finding):
        return Check(check.name, answer.light, answer.evidence, answer.next_step, seconds=seconds)
    if isinstance(answer, HcioError):
        text = answer.what + (f" ({answer.means})" if answer.means else "")
        return Check(check.name, Light.RED, text, answer.next_step, ran=False, seconds=seconds)
    return Check(
        check.name,
        Light.RED,
        f"could not run: {type(answer).__name__}: {answer}",
        "report it: a check must not end this way",
        ran=False,
        seconds=seconds,
    )


def _overdue(check: NamedCheck, seconds: float) -> Check:
    return Check(
        check.name,
        Light.RED,
        f"no answer within {check.limit:g} s",
        "see whether what it asks for is reachable and not overloaded, then check again",
        ran=False,
        seconds=seconds,
    )


def _failed_need(check: NamedCheck, answers: Mapping[str, Check]) -> str | None:
    return next((name for name in check.needs if answers[name].light is Light.RED), None)


def _blocked(check: NamedCheck, failed: str) -> Check:
    return Check(
        check.name,
        Light.RED,
        f"could not run: {failed!r} is red",
        f"solve {failed!r} first",
        ran=False,
    )

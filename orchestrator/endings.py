"""How a case ended on one worker: its outcome in a word, and the reason."""

from __future__ import annotations

from orchestrator.worker.states import FULL_BYTES, CaseState, Ending


def outcome_of(state: CaseState) -> tuple[str, str | None]:
    """A worker's outcome and its reason. fio's own failures are the analysis's to judge."""
    ending = state.ending
    if state.state == "staged":
        return "broken", "it missed T0: the machine was asleep or too busy; nothing was run there"
    if state.state == "lost":
        full = state.free is not None and state.free < FULL_BYTES
        if full:
            return "broken", "the worker's own disk is full: the case could not end there"
        return "broken", "the case's process on the worker died (killed, or a reboot)"
    if state.state != "done" or ending is None:
        return "broken", f"the case is {state.state} there, not done"
    if ending.disk_full:
        return "broken", "the worker's own disk was full when the case ended"
    if ending.by == "refused":
        return "broken", f"a target changed before the start: {ending.why}"
    if ending.by == "stopped":
        return "skipped", "stopped before its end"
    if ending.by == "deadline":
        return "failed", "fio did not end before its deadline (hung); the worker ended it"
    if ending.by == "signal":
        return "failed", f"fio was killed by signal {ending.signal}"
    return "done", None


def ended_by(ending: Ending | None) -> str:
    """What ended it, as evidence has it (`signal:9`); empty when it isn't known."""
    if ending is None:
        return ""
    return f"signal:{ending.signal}" if ending.by == "signal" else ending.by


def ended_at(ending: Ending | None) -> float | None:
    """When the case ended, by the worker's clock as it was at the start, whoever set it since."""
    if ending is None or ending.ended is None:
        return None
    return ending.ended - (ending.clock_step_s - ending.start_step_s)


def started_at(state: CaseState | None) -> float | None:
    """When fio was executed, by the worker's clock; None when it wasn't, or isn't known."""
    return state.ending.started if state is not None and state.ending is not None else None

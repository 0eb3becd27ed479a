"""What a worker says of its cases: staged, armed, running, done, lost, and how each ended."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.errors import WorkerError
from orchestrator.worker.eta import Eta, last_eta
from orchestrator.worker.reply import Section

#: `gone`: no folder of this case there; `empty`: a folder without a whole stage; `lost`: its owner
#: died (killed, reboot) and left no done marker.
STATES = frozenset({"gone", "empty", "staged", "armed", "running", "done", "lost"})
#: Less free space than this at the end means that the disk was full (the reserve of a case).
FULL_BYTES = 65536


@dataclass(frozen=True)
class Ending:
    """A done marker. `by` is exited, signal, deadline, stopped or refused (then `why` says it).

    Instants are the worker's own clock, seconds since the epoch; `started` is None when fio was
    never executed. `exit` is fio's status (128 + n by signal n); None when fio could not be ended.
    `output_size` and `output_sha256` are of fio's JSON; None when there is none.
    """

    by: str
    exit: int | None
    signal: int | None
    attempt: int
    t0: float | None
    started: float | None
    ended: float | None
    #: by how much that clock was set between the arming and the start, and up to the end
    start_step_s: float
    clock_step_s: float
    output_size: int | None
    output_sha256: str | None
    free: int | None
    why: str

    @property
    def disk_full(self) -> bool:
        """Was the worker's own disk (not a target) full at the end?"""
        return self.free is not None and self.free < FULL_BYTES


@dataclass(frozen=True)
class CaseState:
    """One case on one worker. `now` and `began` by the worker's clock; `alive` is the number of
    processes (None: not looked at); `eta` the last progress line, `eta_line` as fio wrote it."""

    case: str
    state: str
    attempt: int | None
    now: float
    began: float | None = None
    alive: int | None = None
    eta_line: str = ""
    eta: Eta | None = None
    free: int | None = None
    #: bytes that fio has read and written so far, as the kernel counts them
    io_bytes: int | None = None
    ending: Ending | None = None

    @property
    def elapsed_s(self) -> float | None:
        """Seconds since fio was executed (until it ended); None when it wasn't."""
        if self.began is None:
            return None
        end = self.ending.ended if self.ending and self.ending.ended is not None else self.now
        return end - self.began


@dataclass(frozen=True)
class ArmReply:
    """The answer to arm: `armed`; `already` (state says what the case does, nothing was changed);
    `late` (T0 is past or too near); `refused` (a target changed, `why`); `rebooted` (stage again);
    `unstaged`; `used` (that attempt's number was used: take the next)."""

    answer: str
    state: CaseState
    why: str = ""
    t0: float | None = None

    @property
    def armed(self) -> bool:
        """Will the case start at `t0` (or did it)? An earlier arm counts as well."""
        return self.answer == "armed" or (self.answer == "already" and self.t0 is not None)


@dataclass(frozen=True)
class StageReply:
    """One staged case. `kept`: it was armed or ran already and was left alone. `parses` and `said`
    are fio's own judgement of the job file (None: not asked)."""

    state: CaseState
    kept: bool
    parses: bool | None
    said: str
    missing_engines: tuple[str, ...]
    engines: tuple[str, ...]

    def check(self, host: str) -> StageReply:
        """Return self; raise WorkerError when fio can't run this job here."""
        step = f"stage case {self.state.case}"
        if self.missing_engines:
            raise WorkerError(
                host,
                step,
                f"fio there has no engine {', '.join(self.missing_engines)}",
                means=f"the job can't run; available: {', '.join(self.engines)}",
                next_step="install a fio with that engine, or set ioengine to one of these",
            )
        if self.parses is False:
            raise WorkerError(
                host,
                step,
                f"fio refuses the job file: {self.said.strip()}",
                means="nothing was started",
                next_step="correct the profile or its fio options",
            )
        return self


def read_state(section: Section) -> CaseState:
    """One case from a section of `poll` (or the head of another reply). Raises ValueError."""
    state, now = section.fields.get("state", ""), section.number("now")
    if state not in STATES or now is None:
        raise ValueError(f"case {section.name}: no state in {section.fields}")
    line = section.fields.get("eta", "")
    return CaseState(
        case=section.name,
        state=state,
        attempt=section.whole("attempt"),
        now=now,
        began=section.number("began"),
        alive=section.whole("alive"),
        eta_line=line.rpartition("\x1e")[2] if not line.endswith("\x1e") else line.strip("\x1e"),
        eta=last_eta(line),
        free=section.whole("free"),
        io_bytes=section.whole("io_bytes"),
        ending=_ending(section) if state == "done" and "done.whole" in section.fields else None,
    )


def _ending(section: Section) -> Ending:
    fields = {k.removeprefix("done."): v for k, v in section.fields.items() if "done." in k}
    done = Section(section.name, fields)
    return Ending(
        by=fields.get("ended_by", ""),
        exit=done.whole("exit"),
        signal=done.whole("signal"),
        attempt=done.whole("attempt") or 0,
        t0=done.number("t0"),
        started=done.number("started"),
        ended=done.number("ended"),
        start_step_s=(done.whole("start_step_us") or 0) / 1e6,
        clock_step_s=(done.whole("clock_step_us") or 0) / 1e6,
        output_size=done.whole("output_size"),
        output_sha256=fields.get("output_sha256") or None,
        free=done.whole("free"),
        why=fields.get("why", ""),
    )


def read_stage(section: Section, engines: tuple[str, ...]) -> StageReply:
    """One case from a section of `stage`. Raises ValueError."""
    kept = section.fields.get("kept") == "1"
    return StageReply(
        state=read_state(section),
        kept=kept,
        parses={"1": True, "0": False}.get(section.fields.get("parses", "")),
        said=section.texts.get("said", ""),
        missing_engines=tuple(section.fields.get("missing_engines", "").split()),
        engines=engines,
    )

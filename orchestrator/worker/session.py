"""A run's side of one worker: each verb of its program, spoken over a Transport."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from orchestrator.clocks import ClockReading, Sample, read_clock
from orchestrator.errors import TransferFailed, WorkerError
from orchestrator.transport.base import Command, CommandResult, Transport
from orchestrator.worker.facts import WorkerFacts, read_facts
from orchestrator.worker.reply import Reply, ReplyError, parse_reply
from orchestrator.worker.states import ArmReply, CaseState, StageReply, read_stage, read_state
from orchestrator.worker.stream import BOOTSTRAP, StagedCase, build_stream, read_program

#: Where runs live on a worker. Not /tmp: it can be emptied at boot, or be a memory disk.
DEFAULT_BASE = "/var/tmp/hcio"  # noqa: S108 - a folder of ours, its owner is checked
T = TypeVar("T")

MARGIN_S = 0.5
GRACE_S = 10.0
CLOCK_ROUNDS = 8


@dataclass(frozen=True)
class Fetched:
    """A case's result files by their path in the case's folder (`out/fio.json`), and its state."""

    state: CaseState
    files: dict[str, bytes]


class WorkerSession:
    """One run on one worker. Every verb is one command that may be repeated when the connection is
    lost (a second stage, arm or stop changes nothing); it raises TransportError when the host can't
    be used and WorkerError (host, step) when its program says no or answers nonsense.

    `timeout` is always the command's own deadline in seconds.
    """

    def __init__(
        self, transport: Transport, run: str, *, base: str = DEFAULT_BASE, fio: str = "fio"
    ) -> None:
        """`fio` is the program there: a name on the PATH, or a path."""
        self.transport = transport
        self.run = run
        self.base = base
        self._shell = ("sh",) if fio == "fio" else ("env", f"HCIO_FIO={fio}", "sh")

    @property
    def host(self) -> str:
        """The worker's name."""
        return self.transport.host

    def facts(
        self, *, files: Sequence[str] = (), devices: Sequence[str] = (), timeout: float = 60
    ) -> WorkerFacts:
        """Everything about the machine, its disks and the `files`; real paths of `devices`.
        Writes nothing there; needs no stage before."""
        wanted = [f"file:{path}" for path in files] + [f"device:{path}" for path in devices]
        reply = self._unstaged("facts", *wanted, timeout=timeout)
        return self._read("facts", lambda: read_facts(self.host, reply))

    def stage(
        self, cases: Sequence[StagedCase], *, check: bool = True, timeout: float = 120
    ) -> dict[str, StageReply]:
        """Write all files of `cases` in one command, by rename, checked. Repeating is harmless;
        a case that is armed or ran is left alone. With `check`, fio there judges each job file
        (0.2 s of its CPU in all); its judgement is in each reply."""
        program = read_program()
        stream, digest = build_stream(program, cases)
        size, word = str(len(program)), "check" if check else "write"
        command = Command.of(
            "stage", "sh", "-c", BOOTSTRAP, "hcio", self.base, self.run, size, digest, word
        )
        reply = self._reply("stage", self.transport.run(command, timeout=timeout, stdin=stream))
        engines = tuple(reply.head.fields.get("engines", "").split())
        return self._read(
            "stage",
            lambda: {case.name: read_stage(reply.sections[case.name], engines) for case in cases},
        )

    def arm(
        self,
        case: str,
        *,
        t0: float,
        deadline_s: float,
        attempt: int,
        margin_s: float = MARGIN_S,
        grace_s: float = GRACE_S,
        timeout: float = 30,
    ) -> ArmReply:
        """Let the case start at `t0` (the worker's own clock), detached, ended by TERM after
        `deadline_s` and by KILL `grace_s` later. A second arm changes nothing and says so."""
        times = [_us(t0), _us(deadline_s), str(attempt), _us(margin_s), _us(grace_s)]
        reply = self._staged("arm", case, *times, timeout=timeout)
        head = reply.head
        return self._read(
            "arm",
            lambda: ArmReply(
                answer=head.fields["answer"],
                state=_named(case, read_state(head)),
                why=head.fields.get("why", ""),
                t0=head.number("t0"),
            ),
        )

    def poll(self, cases: Sequence[str], *, timeout: float = 30) -> dict[str, CaseState]:
        """State, progress and ending of several cases by one short command."""
        reply = self._staged("poll", *cases, timeout=timeout)
        return self._read(
            "poll", lambda: {case: read_state(reply.sections[case]) for case in cases}
        )

    def disarm(self, case: str, *, timeout: float = 30) -> CaseState:
        """Cancel before T0. The state is `staged` when that succeeded; `running` (or later) when
        the start was first. Arm again with the next attempt."""
        reply = self._staged("disarm", case, timeout=timeout)
        return self._read("disarm", lambda: _named(case, read_state(reply.head)))

    def stop(self, case: str, *, grace_s: float = GRACE_S, timeout: float = 60) -> CaseState:
        """End this case's processes and no others: TERM to fio, so that it writes its JSON, KILL
        after `grace_s`. Before T0 it is a disarm. Returns the state afterwards."""
        reply = self._staged("stop", case, _us(grace_s), timeout=timeout)
        return self._read("stop", lambda: _named(case, read_state(reply.head)))

    def fetch(self, case: str, *, partial: bool = False, timeout: float = 300) -> Fetched:
        """All result files in one command, each checked. Refused (WorkerError) without the done
        marker unless `partial`; TransferFailed when fio's output isn't what the marker says."""
        reply = self._staged("fetch", case, "partial" if partial else "whole", timeout=timeout)
        state = self._read("fetch", lambda: _named(case, read_state(reply.head)))
        marker = _fields(reply.files.get("done", b""))
        output = reply.files.get("out/fio.json")
        wanted = marker.get("output_sha256", "")
        if wanted and (output is None or hashlib.sha256(output).hexdigest() != wanted):
            raise TransferFailed(
                self.host,
                f"fetch case {case}",
                "fio's output is not the one that the done marker names",
                means="the file was changed or lost after the case ended (a crash of the worker?)",
                next_step="fetch it once more; if it stays so, run the case again",
            )
        return Fetched(state, reply.files)

    def make_file(self, path: str, size: int, *, timeout: float = 600) -> str:
        """Make a file target of `size` bytes, preallocated, with hcio's marker beside it; returns
        `made` or `kept`. A file that isn't ours, or too little space, is a WorkerError."""
        reply = self._unstaged("make_file", path, str(size), timeout=timeout)
        return reply.head.fields.get("answer", "")

    def clean(self, *, timeout: float = 120) -> int:
        """Remove the run's folder there and the files that hcio made for it (their number is
        returned). WorkerError while one of its cases is at work."""
        reply = self._unstaged("clean", timeout=timeout)
        return reply.head.whole("files") or 0

    def list(self, *, timeout: float = 60) -> dict[str, dict[str, str]]:
        """Every run below the base: run to case to state."""
        reply = self._unstaged("list", timeout=timeout)
        return {name: dict(section.fields) for name, section in reply.sections.items()}

    def measure_clock(self, *, rounds: int = CLOCK_ROUNDS, timeout: float = 30) -> ClockReading:
        """Offset and uncertainty of the worker's clock from `rounds` exchanges. After stage."""
        return measure_clock(
            self.transport, self.run, base=self.base, rounds=rounds, timeout=timeout
        )

    def _staged(self, verb: str, *arguments: str, timeout: float) -> Reply:
        program = f"{self.base}/{self.run}/program.sh"
        command = Command.of(
            verb, *self._shell, program, verb, self.base, self.run, *arguments, repeatable=True
        )
        return self._reply(verb, self.transport.run(command, timeout=timeout))

    def _unstaged(self, verb: str, *arguments: str, timeout: float) -> Reply:
        """The program comes on stdin: its last line runs it, so half a program does nothing."""
        command = Command.of(
            verb, *self._shell, "-s", verb, self.base, self.run, *arguments, repeatable=True
        )
        return self._reply(verb, self.transport.run(command, timeout=timeout, stdin=read_program()))

    def _reply(self, verb: str, result: CommandResult) -> Reply:
        try:
            reply = parse_reply(result.stdout, verb)
        except ReplyError as error:
            said = (result.error_text or result.text)[-500:].strip()
            raise WorkerError(
                self.host,
                verb,
                f"{error} (exit status {result.status})" + (f": {said}" if said else ""),
                means="the worker's program is not there, or the login printed something else",
                next_step="stage the run again, or try the command by hand on that worker",
            ) from error
        fields = reply.head.fields
        if "error" in fields:
            raise WorkerError(
                self.host, verb, fields.get("text", ""), next_step=_NEXT.get(fields["error"], "")
            )
        return reply

    def _read(self, verb: str, build: Callable[[], T]) -> T:
        try:
            return build()
        except (ReplyError, ValueError, KeyError) as error:
            raise WorkerError(self.host, verb, f"an answer that can't be read: {error}") from error


def _us(seconds: float) -> str:
    return str(round(seconds * 1_000_000))


def _named(case: str, state: CaseState) -> CaseState:
    return replace(state, case=case)


def _fields(marker: bytes) -> dict[str, str]:
    lines = marker.decode("utf-8", "replace").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


#: What to do next, by the program's own error code.
_NEXT = {
    "base": "set `base` of this worker in the inventory to a folder of its own",
    "space": "free some space on that worker, or set another `base`",
    "checksum": "stage again; if it happens again, look at the network and the worker's disk",
    "fio": "install fio 3 on that worker",
    "busy": "stop the run first",
    "foreign": "name another path in the inventory, or remove the file yourself",
    "unfinished": "wait for its end, or ask for what is there (partial)",
}


def measure_clock(
    transport: Transport,
    run: str,
    *,
    base: str = DEFAULT_BASE,
    rounds: int = CLOCK_ROUNDS,
    timeout: float,
) -> ClockReading:
    """Read a worker's clock by `rounds` exchanges, the least round trip kept."""
    program = f"{base}/{run}/program.sh"
    command = Command.of("clock", "sh", program, "clock", base, run, repeatable=True)
    exchanges = transport.exchange(command, [b"?"] * rounds, timeout=timeout)
    samples = []
    for each in exchanges:
        try:
            samples.append(Sample(each.sent, float(each.reply), each.received))
        except ValueError:
            continue  # a greeting of the login
    try:
        return read_clock(samples)
    except ValueError as error:
        raise WorkerError(transport.host, "clock", str(error)) from error

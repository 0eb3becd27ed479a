"""A worker's raw folder: which files stand in it, and how they become evidence.

`evidence.json` is the conductor's own part: clocks, instants, how it ended. The others are the
worker's, verbatim: `fio.json` (fio's output), `eta.log`, `stderr.log`, `job.fio`, `done`, ...
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from orchestrator.evidence import WorkerEvidence

EVIDENCE = "evidence.json"
OUTPUT = "fio.json"
STDERR = "stderr.log"


@dataclass(frozen=True)
class Ended:
    """How a case ended on one worker, as the conductor saw it. Instants as in WorkerEvidence."""

    worker: str
    outcome: str
    reason: str | None = None
    group: str | None = None
    host: str | None = None
    attempt: int | None = None
    state: str = ""
    exit_status: int | None = None
    ended_by: str = ""
    t0: float | None = None
    started: float | None = None
    ended: float | None = None
    clock_offset_s: float | None = None
    clock_uncertainty_s: float | None = None
    clock_step_s: float | None = None
    fio_version: str | None = None
    targets: Mapping[str, str] | None = None
    seed: int | None = None


def raw_files(ended: Ended, fetched: Mapping[str, bytes]) -> dict[str, bytes]:
    """Everything that goes into the worker's raw folder, by file name."""
    files = {name.rpartition("/")[2]: content for name, content in fetched.items()}
    files[EVIDENCE] = json.dumps(asdict(ended), indent=1, allow_nan=False).encode() + b"\n"
    return files


def read_ended(files: Mapping[str, bytes]) -> Ended | None:
    """The conductor's part of a raw folder; None when it isn't there."""
    content = files.get(EVIDENCE)
    return None if content is None else Ended(**json.loads(content))


def read_evidence(worker: str, files: Mapping[str, bytes] | None) -> WorkerEvidence:
    """A raw folder as evidence; nothing collected is a worker that is missing."""
    ended = read_ended(files) if files is not None else None
    if files is None or ended is None:
        return WorkerEvidence(worker, outcome="broken", reason="nothing was collected")
    return WorkerEvidence(
        worker=worker,
        outcome=ended.outcome,
        reason=ended.reason,
        output=files.get(OUTPUT),
        stderr=files.get(STDERR, b""),
        exit_status=ended.exit_status,
        ended_by=ended.ended_by,
        group=ended.group,
        host=ended.host,
        t0=ended.t0,
        started=ended.started,
        ended=ended.ended,
        clock_offset_s=ended.clock_offset_s,
        clock_uncertainty_s=ended.clock_uncertainty_s,
        clock_step_s=ended.clock_step_s,
        fio_version=ended.fio_version,
    )

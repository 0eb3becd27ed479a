"""Why a worker's figures must stay out of the totals, and what fio itself said about it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from orchestrator.checks.base import SHOWN
from orchestrator.evidence import WorkerEvidence
from orchestrator.measured import WorkerOutput


def worker_failures(evidence: WorkerEvidence, output: WorkerOutput | None) -> Iterator[str]:
    """Why a worker's figures must stay out of the totals; nothing when they may count.

    A worker is good only when fio ran to its end, every job has error 0, and fio's own status
    is 0.
    """
    if evidence.outcome != "done":
        yield evidence.reason or evidence.outcome
    ended = evidence.ended_by
    if ended == "deadline":
        yield "fio did not end before its deadline and was killed"
    elif ended == "stopped":
        yield "stopped before its end"
    elif ended.startswith("signal:"):
        yield f"fio was killed by signal {ended.removeprefix('signal:')}"
    found = [] if output is None else list(_output_failures(output))
    yield from found
    if evidence.exit_status:
        whole = "" if output is None or found else " although the JSON is complete"
        yield f"exit status {evidence.exit_status}{whole}"


def _output_failures(output: WorkerOutput) -> Iterator[str]:
    if not output.complete:
        yield (
            f"incomplete: the last JSON document is cut; {output.documents} complete before it "
            "are totals of a part of the run"
        )
    for job in output.jobs:
        if job.error:
            yield f"job {job.key!r} error {job.error} ({_strerror(job.error)})"
    if not output.jobs:
        yield "the output holds no job"
    for note in output.notes:
        if note.code == "rate-unknown":
            yield note.text


def _strerror(number: int) -> str:
    try:
        return os.strerror(number)
    except OverflowError:
        return "no error of this system"


def fio_said(evidence: WorkerEvidence, output: WorkerOutput | None) -> str | None:
    """The end of fio's own text, to stand beside a failure."""
    lines = [] if output is None else [*output.text_before, *output.text_after]
    lines += evidence.stderr.decode("utf-8", "replace").splitlines()
    said = "\n".join(line for line in lines if line.strip())
    return said[-SHOWN:] or None

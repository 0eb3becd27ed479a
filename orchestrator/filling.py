"""Proving a fill on its worker, and the file that remembers which disks were filled.

The file lies beside the runs, so that a resume and another suite know of it. It is read and
written under a lock; the pure part is `preparation`.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.preparation import (
    DiskIdentity,
    Fill,
    Prepared,
    Sample,
    judge_fill,
    parse_samples,
    read_records,
    sample_offsets,
    sample_script,
    why_fill,
    why_void,
    write_records,
)
from orchestrator.store import write_atomic
from orchestrator.transport.base import Command, Transport

RECORDS: Final = "prepared.json"
#: Seconds for reading 16 blocks of one disk back, however slow it is.
READ_BACK_LIMIT: Final = 120.0


@dataclass(frozen=True)
class FilledTarget:
    """A target on its worker: its label, its path there now, and what stays with it."""

    label: str
    path: str
    disk: DiskIdentity


def read_back(transport: Transport, target: FilledTarget, seed: int) -> tuple[list[Sample], int]:
    """Samples of a target, and how many were asked for. TransportErrors; a block that can't be
    read is missing."""
    offsets = sample_offsets(target.disk.size, seed)
    script = sample_script(target.path, offsets)
    step = Command.of(f"read back {target.label}", "sh", "-c", script)
    result = transport.run(step, timeout=READ_BACK_LIMIT)
    return parse_samples(result.text), len(offsets)


def verify_fill(
    transport: Transport, target: FilledTarget, fill: Fill, written: int | None, *, seed: int
) -> list[str]:
    """What is wrong with a fill that fio called done; `written` is fio's own count of bytes."""
    samples, expected = read_back(transport, target, seed)
    return judge_fill(fill, target.disk.size, written, samples, expected)


def why_fill_again(
    transport: Transport,
    target: FilledTarget,
    wanted: Fill,
    records: Mapping[str, Prepared],
    *,
    seed: int,
) -> str | None:
    """Why a target must be filled, None when its record holds and the disk agrees with it."""
    reason = why_fill(wanted, target.disk, records)
    if reason is not None or wanted.method == "none":
        return reason
    samples, _ = read_back(transport, target, seed)
    return why_void(records[target.disk.key or ""], samples)


def bytes_written(jobs: Mapping[str, int | None], label: str) -> int | None:
    """Bytes that fio wrote to a target, by section: its own and its tail's (`disk0-tail`)."""
    if jobs.get(label) is None:
        return None
    return (jobs[label] or 0) + (jobs.get(f"{label}-tail") or 0)


class FillRecords:
    """Which disks were filled, in a file of the runs' folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / RECORDS

    def read(self) -> dict[str, Prepared]:
        """All records, by the disk's key. StoreError when the file is damaged."""
        try:
            text = self.path.read_text()
        except FileNotFoundError:
            return {}
        return read_records(text, str(self.path))

    def add(self, records: Iterable[Prepared]) -> None:
        """Add or replace records; a disk that nothing tells apart has none."""
        self._change(lambda known: known | {r.disk.key: r for r in records if r.disk.key})

    def forget(self, disks: Iterable[DiskIdentity]) -> None:
        """Drop records, before a disk is filled anew: a fill that is cut short leaves none."""
        gone = {disk.key for disk in disks}
        self._change(lambda known: {key: r for key, r in known.items() if key not in gone})

    def _change(self, change: Callable[[dict[str, Prepared]], dict[str, Prepared]]) -> None:
        with self._locked():
            write_atomic(self.path, write_records(change(self.read()).values()).encode())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_name(f".{RECORDS}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

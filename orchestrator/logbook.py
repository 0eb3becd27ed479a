"""A campaign's logbook: which run carries out which step and how that ended, one JSON line each."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from orchestrator.campaign import Record
from orchestrator.errors import StoreError

RECORDS = "records.jsonl"


class Logbook:
    """A campaign's folder, `runs/campaigns/<name>`; its runs stand beside it like any other."""

    def __init__(self, runs: Path, campaign: str) -> None:
        self.path = runs / "campaigns" / campaign

    def records(self) -> list[Record]:
        """All records in order; a last line that a crash cut is none. StoreError when damaged."""
        path = self.path / RECORDS
        content = path.read_bytes() if path.exists() else b""
        found = []
        for number, line in enumerate(content.rpartition(b"\n")[0].splitlines(), start=1):
            try:
                found.append(Record.model_validate_json(line))
            except ValidationError as error:
                raise StoreError(
                    path,
                    f"line {number} is damaged",
                    means="it isn't known which run carries out which step",
                    next_step="take the line out; its step is carried out again",
                ) from error
        return found

    def add(self, record: Record) -> None:
        """Append a record and wait until the disk has it."""
        with (self.path / RECORDS).open("ab") as file:
            file.write(record.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the campaign's lock, its folder made; StoreError when another process runs it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreError(
                    self.path,
                    "another hcio runs this campaign",
                    next_step="wait for it, or press Ctrl-C there",
                ) from None
            self._mend()
            yield

    def _mend(self) -> None:
        """Drop a last line that a crash cut, so that the next one starts on a line of its own."""
        path = self.path / RECORDS
        content = path.read_bytes() if path.exists() else b""
        if content and not content.endswith(b"\n"):
            with path.open("r+b") as file:
                file.truncate(content.rfind(b"\n") + 1)

"""The run folder: what a run leaves behind, and where `resume`, `collect` and `report` start.

    runs/<id>/
      plan.yaml                 the resolved plan, written before the first host is touched
      state.jsonl               the journal: one event a line, appended and fsynced
      raw/<case>/<worker>/      what the worker sent, verbatim; a folder appears whole, by rename
      platform.json             the cluster and the workers' VMs, at the run's start and end
      platform/<case>/*.json    what attendants said of a case: the platform, the cache
      series/<case>.parquet     the case second by second
      result.json               everything after raw can be rebuilt from it
      lock                      held by the process that conducts the run

Every other file appears by rename too. A journal line cut by a crash is not an event: it is
dropped when the folder is opened, and the next event takes its place.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.errors import StoreError

PLAN = "plan.yaml"
JOURNAL = "state.jsonl"
RESULT = "result.json"
PLATFORM = "platform.json"
LATEST = "latest"


@dataclass(frozen=True)
class Event:
    """One line of the journal: when (controller, seconds since the epoch), what, details."""

    at: float
    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def line(self) -> bytes:
        """The event as one JSON line."""
        record = {"at": round(self.at, 6), "event": self.name, **self.fields}
        return json.dumps(record, sort_keys=False, allow_nan=False).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Event:
        """Read one line back; ValueError when it isn't an event."""
        record = json.loads(line)
        if not isinstance(record, dict) or "event" not in record:
            raise ValueError("not an event")
        return cls(float(record.pop("at", 0.0)), str(record.pop("event")), record)


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


class RawFiles(Mapping[str, bytes]):
    """A worker's files of a case by name, each read when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(path.name for path in self._folder.iterdir()))

    def __len__(self) -> int:
        return sum(1 for _ in self._folder.iterdir())


class RunFolder:
    """One run's folder. `observe` is told each event after it is safely on disk."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float] = time.time,
        observe: Callable[[Event], None] | None = None,
    ) -> None:
        self.path = path
        self._clock = clock
        self._observe = observe
        self._recording = threading.Lock()

    @property
    def id(self) -> str:
        """The run's id: the folder's name."""
        return self.path.name

    # -- the plan and the result ------------------------------------------------------------

    def read_plan(self) -> str:
        """The plan's text, as written before the run began."""
        return self._read(PLAN, "no plan: this is not a run folder")

    def read_result(self) -> str | None:
        """The result's text, or None while there is none."""
        return self.read(RESULT)

    def write(self, name: str, content: str) -> Path:
        """Write one of the folder's own files (result.json, report.txt, ...) by rename."""
        path = self.path / name
        write_atomic(path, content.encode())
        return path

    def read(self, name: str) -> str | None:
        """One of the folder's own files, None while it isn't there."""
        path = self.path / name
        return path.read_text() if path.exists() else None

    def _read(self, name: str, missing: str) -> str:
        try:
            return (self.path / name).read_text()
        except FileNotFoundError:
            raise StoreError(
                self.path, missing, next_step="`hcio list` shows the runs there are"
            ) from None

    # -- the journal ------------------------------------------------------------------------

    def record(self, name: str, /, **fields: Any) -> Event:
        """Append one event and wait until the disk has it."""
        with self._recording:  # workers' results are recorded as they arrive, by several threads
            event = Event(self._clock(), name, fields)
            with (self.path / JOURNAL).open("ab") as file:
                file.write(event.line())
                file.flush()
                os.fsync(file.fileno())
            if self._observe is not None:
                self._observe(event)
        return event

    def events(self) -> list[Event]:
        """All whole events in order; a cut last line is left out, a damaged one is an error."""
        try:
            content = (self.path / JOURNAL).read_bytes()
        except FileNotFoundError:
            return []
        whole, _, _ = content.rpartition(b"\n")
        events = []
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                events.append(Event.parse(line))
            except ValueError as error:
                raise StoreError(
                    self.path / JOURNAL,
                    f"line {number} is damaged ({error})",
                    means="the run's history can't be trusted past this line",
                    next_step="`hcio report` still works from raw/; start a new run",
                ) from error
        return events

    def mend_journal(self) -> None:
        """Drop a last line that a crash cut, so that the next event starts on a line of its own."""
        path = self.path / JOURNAL
        if not path.exists():
            return
        content = path.read_bytes()
        if content and not content.endswith(b"\n"):
            write_atomic(path, content[: content.rfind(b"\n") + 1])

    # -- raw results ------------------------------------------------------------------------

    def write_raw(self, case: str, worker: str, files: Mapping[str, bytes]) -> Path:
        """Keep a worker's files of a case verbatim, in place of older ones; they appear whole."""
        folder = self.path / "raw" / case / worker
        part = folder.with_name(f".{worker}.{os.getpid()}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for name, content in files.items():
            (part / name).write_bytes(content)
        if folder.exists():
            old = folder.with_name(f".{worker}.{os.getpid()}.old")
            folder.rename(old)
            part.rename(folder)
            shutil.rmtree(old)
        else:
            part.rename(folder)
        return folder

    def raw(self, case: str, worker: str) -> Mapping[str, bytes] | None:
        """A worker's files of a case, or None when nothing was collected. A file is read when it
        is asked for: logs are large."""
        folder = self.path / "raw" / case / worker
        return RawFiles(folder) if folder.is_dir() else None

    def series(self, case: str) -> Path:
        """Where a case's series stands (or will); its folder is there."""
        folder = self.path / "series"
        folder.mkdir(exist_ok=True)
        return folder / f"{case}.parquet"

    def write_platform(self, case: str, name: str, content: bytes) -> None:
        """Keep what an attendant said of a case."""
        folder = self.path / "platform" / case
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / f"{name}.json", content + b"\n")

    def platform(self, case: str) -> dict[str, bytes]:
        """What attendants said of a case, by their names."""
        folder = self.path / "platform" / case
        files = sorted(folder.glob("*.json")) if folder.is_dir() else []
        return {file.stem: file.read_bytes() for file in files}

    # -- one conductor at a time --------------------------------------------------------------

    @contextlib.contextmanager
    def conducting(self) -> Iterator[None]:
        """Hold the run's lock; StoreError when another process conducts it."""
        with (self.path / "lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                owner = file.read().strip() or "unknown"
                raise StoreError(
                    self.path,
                    f"another hcio (process {owner}) conducts this run",
                    next_step="wait for it, watch it with `hcio status`, or press Ctrl-C there",
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            self.mend_journal()
            yield


class RunStore:
    """All runs below one folder (`--runs`, HCIO_RUNS, ./runs)."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(
        self,
        run_id: str,
        plan: str,
        *,
        clock: Callable[[], float] = time.time,
        observe: Callable[[Event], None] | None = None,
    ) -> RunFolder:
        """Make a run's folder with its plan, and point `latest` at it."""
        path = self.path / run_id
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise StoreError(path, "this run exists already") from None
        folder = RunFolder(path, clock=clock, observe=observe)
        folder.write(PLAN, plan)
        self._point_latest(run_id)
        return folder

    def _point_latest(self, run_id: str) -> None:
        link = self.path / f".latest.{os.getpid()}"
        link.unlink(missing_ok=True)
        link.symlink_to(run_id)
        link.replace(self.path / LATEST)

    def find(self, reference: str, **kwargs: Any) -> RunFolder:
        """A run by id, by path, by a unique beginning of its id, or `latest`."""
        direct = Path(reference)
        if (direct / PLAN).is_file():
            return RunFolder(direct.resolve(), **kwargs)
        named = self.path / reference
        if (named / PLAN).is_file():
            return RunFolder(named.resolve(), **kwargs)
        matches = [path for path in self.runs() if path.name.startswith(reference)]
        if len(matches) == 1:
            return RunFolder(matches[0].resolve(), **kwargs)
        what = "several runs begin like this" if matches else f"no run like this below {self.path}"
        raise StoreError(
            reference, what, next_step="`hcio list` shows the runs; --runs DIR looks elsewhere"
        )

    def runs(self) -> list[Path]:
        """The folders of all runs, oldest first."""
        if not self.path.is_dir():
            return []
        return sorted(
            path
            for path in self.path.iterdir()
            if not path.is_symlink() and (path / PLAN).is_file()
        )

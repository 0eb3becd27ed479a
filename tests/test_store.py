"""The run folder: nothing that was recorded is lost, nothing half-written is believed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.errors import StoreError
from orchestrator.store import JOURNAL, Event, RunFolder, RunStore


def new_run(tmp_path: Path, run_id: str = "r1") -> RunFolder:
    return RunStore(tmp_path).create(run_id, "plan: 1\n", clock=lambda: 12.5)


def test_events_come_back_in_order(tmp_path: Path) -> None:
    """What is recorded is read back, with its time and details."""
    run = new_run(tmp_path)
    run.record("run.started", suite="smoke")
    run.record("case.done", case="a")
    assert run.events() == [
        Event(12.5, "run.started", {"suite": "smoke"}),
        Event(12.5, "case.done", {"case": "a"}),
    ]


def test_a_cut_last_line_is_no_event(tmp_path: Path) -> None:
    """A line that a crash cut is dropped, and the next event stands on a line of its own."""
    run = new_run(tmp_path)
    run.record("one")
    journal = run.path / JOURNAL
    journal.write_bytes(journal.read_bytes() + b'{"at": 3, "event": "tw')
    assert [event.name for event in run.events()] == ["one"]
    with run.conducting():
        run.record("three")
    assert [event.name for event in run.events()] == ["one", "three"]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    """Damage in the middle of the journal is an error that names the line."""
    run = new_run(tmp_path)
    (run.path / JOURNAL).write_bytes(b'{"at": 1, "event": "one"}\nnonsense\n')
    with pytest.raises(StoreError, match="line 2"):
        run.events()


def test_the_observer_sees_only_what_is_on_disk(tmp_path: Path) -> None:
    """The observer is told of an event after the journal holds it."""
    seen: list[str] = []

    def observe(event: Event) -> None:
        lines = (tmp_path / "r1" / JOURNAL).read_text().splitlines()
        seen.append(json.loads(lines[-1])["event"])

    run = RunStore(tmp_path).create("r1", "plan: 1\n", observe=observe)
    run.record("one")
    run.record("two")
    assert seen == ["one", "two"]


def test_one_conductor_at_a_time(tmp_path: Path) -> None:
    """A second process that wants to conduct the same run is refused by name."""
    run = new_run(tmp_path)
    with run.conducting(), pytest.raises(StoreError, match="another hcio"), run.conducting():
        pass
    with run.conducting():
        pass


def test_raw_files_are_verbatim_and_replaced_whole(tmp_path: Path) -> None:
    """Raw files come back byte for byte; a second collection replaces the first whole."""
    run = new_run(tmp_path)
    assert run.raw("c", "w1") is None
    run.write_raw("c", "w1", {"out.json": b"\xff\x00", "err": b""})
    run.write_raw("c", "w1", {"out.json": b"second"})
    files = run.raw("c", "w1")
    assert files == {"out.json": b"second"}
    assert (list(files or ()), (files or {}).get("none")) == (["out.json"], None)
    assert [path.name for path in (run.path / "raw" / "c").iterdir()] == ["w1"]


def test_runs_are_found_by_id_path_beginning_and_latest(tmp_path: Path) -> None:
    """Every way to name a run leads to it; an unclear one is refused."""
    store = RunStore(tmp_path)
    store.create("2026-a", "plan: 1\n")
    second = store.create("2026-b", "plan: 2\n")
    assert store.find("2026-a").read_plan() == "plan: 1\n"
    assert store.find("latest").id == second.id
    assert store.find(str(second.path)).id == "2026-b"
    with pytest.raises(StoreError, match="several"):
        store.find("2026")
    with pytest.raises(StoreError, match="no run"):
        store.find("nothing")
    assert [path.name for path in store.runs()] == ["2026-a", "2026-b"]


def test_an_existing_run_is_never_overwritten(tmp_path: Path) -> None:
    """A run id that exists is refused; its plan stays."""
    new_run(tmp_path)
    with pytest.raises(StoreError, match="exists"):
        new_run(tmp_path)

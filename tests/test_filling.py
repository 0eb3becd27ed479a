"""Fills proved on the worker, and remembered beside the runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.errors import StoreError
from orchestrator.filling import (
    FilledTarget,
    FillRecords,
    bytes_written,
    verify_fill,
    why_fill_again,
)
from orchestrator.preparation import SAMPLE_BYTES, DiskIdentity, Fill, Prepared
from orchestrator.transport.base import Transport
from orchestrator.transport.local import open_local

SIZE = 32 * SAMPLE_BYTES
RANDOM = Fill("random")


@pytest.fixture
def worker() -> Iterator[Transport]:
    """This machine as a worker."""
    with open_local("w1") as transport:
        yield transport


@pytest.fixture
def target(tmp_path: Path) -> FilledTarget:
    """A file of random data."""
    path = tmp_path / "disk"
    path.write_bytes(os.urandom(SIZE))
    return FilledTarget("disk0", str(path), DiskIdentity("w1", SIZE, path=str(path)))


def _record(target: FilledTarget) -> Prepared:
    return Prepared(target.disk, RANDOM, SIZE, 1.0, "run-1")


def test_a_real_fill_is_proved_and_a_claimed_one_is_not(
    worker: Transport, target: FilledTarget
) -> None:
    """The disk itself is asked: what fio says it wrote is not enough."""
    assert verify_fill(worker, target, RANDOM, SIZE, seed=1) == []
    [wrong] = verify_fill(worker, target, Fill("zero"), SIZE, seed=1)
    assert "other than zeros" in wrong
    gone = replace(target, path="/nonexistent")
    assert verify_fill(worker, gone, RANDOM, SIZE, seed=1)


def test_a_record_spares_the_fill_until_the_disk_reads_zeros(
    worker: Transport, target: FilledTarget, tmp_path: Path
) -> None:
    """Resume and the next suite keep a fill; a disk that was reset is filled again."""
    records = FillRecords(tmp_path / "runs")
    assert why_fill_again(worker, target, RANDOM, records.read(), seed=1) is not None
    records.add([_record(target)])
    assert why_fill_again(worker, target, RANDOM, records.read(), seed=1) is None
    assert why_fill_again(worker, target, Fill("none"), records.read(), seed=1) is None
    Path(target.path).write_bytes(bytes(SIZE))
    why = why_fill_again(worker, target, RANDOM, records.read(), seed=1)
    assert why == "16 of 16 samples are zeros again"


def test_a_fill_that_begins_forgets_the_last_one(target: FilledTarget, tmp_path: Path) -> None:
    """Cut short, it must not pass for the whole one before it."""
    records = FillRecords(tmp_path)
    other = replace(_record(target), disk=DiskIdentity("w2", SIZE, serial="s"))
    records.add([_record(target), other])
    records.forget([target.disk])
    assert list(records.read()) == [other.disk.key]


def test_records_of_two_runs_at_once_are_both_kept(tmp_path: Path) -> None:
    """Each adds its own; none is lost."""
    disks = [DiskIdentity("w", SIZE, serial=f"s{n}") for n in range(16)]

    def add(disk: DiskIdentity) -> None:
        FillRecords(tmp_path).add([Prepared(disk, RANDOM, SIZE, 1.0, "r")])

    threads = [threading.Thread(target=add, args=(disk,)) for disk in disks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(FillRecords(tmp_path).read()) == 16


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    """It is not taken for an empty one."""
    (tmp_path / "prepared.json").write_text("{")
    with pytest.raises(StoreError, match=r"prepared\.json"):
        FillRecords(tmp_path).read()


def test_bytes_of_a_target_include_its_tail() -> None:
    """The fill writes an odd end in a section of its own; a target without a figure has none."""
    assert bytes_written({"disk0": 100, "disk0-tail": 5, "disk1": 7}, "disk0") == 105
    assert bytes_written({"disk1": 7}, "disk1") == 7
    assert bytes_written({"disk1": None}, "disk1") is None

"""Filled disks: records that hold or are void, samples read back, how far a fill is."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.errors import StoreError
from orchestrator.jobfile import FILL_TEMPLATE, TemplateSource, render_fill
from orchestrator.preparation import (
    SAMPLE_BYTES,
    DiskIdentity,
    Fill,
    Method,
    Prepared,
    Sample,
    fill_progress,
    judge_fill,
    parse_samples,
    read_records,
    sample_offsets,
    sample_script,
    why_fill,
    why_void,
    write_records,
)
from orchestrator.sections import JobTarget

SIZE = 64 * SAMPLE_BYTES
DISK = DiskIdentity("w1", SIZE, serial="6000C29", wwn="0x5000")
RANDOM = Fill("random")
RECORD = Prepared(DISK, RANDOM, SIZE, 1.5e9, "r1")


def _records(*records: Prepared) -> dict[str, Prepared]:
    return read_records(write_records(records), "prepared.json")


def test_a_disk_on_record_is_not_filled_again_wherever_it_is_attached() -> None:
    """Resume and a second suite keep a fill: the record follows the serial, not the worker."""
    assert why_fill(RANDOM, DISK, _records(RECORD)) is None
    assert why_fill(RANDOM, replace(DISK, worker="w9"), _records(RECORD)) is None


@pytest.mark.parametrize(
    ("wanted", "disk", "said"),
    [
        (RANDOM, replace(DISK, serial="other"), "no fill of this disk"),
        (RANDOM, replace(DISK, size=SIZE * 2), "its size changed"),
        (Fill("zero"), DISK, "it was filled random, asked is zero"),
        (Fill("compressible", 50, 50), DISK, "asked is compressible (50 % compress, 50 % dedupe)"),
        (RANDOM, DiskIdentity("w1", SIZE), "nothing tells this disk"),
    ],
)
def test_a_record_is_void_when_disk_or_method_changed(
    wanted: Fill, disk: DiskIdentity, said: str
) -> None:
    """Another disk, another size, another method: filled again, with the reason."""
    why = why_fill(wanted, disk, _records(RECORD))
    assert why is not None
    assert said in why


def test_a_fill_that_was_cut_short_is_no_fill() -> None:
    """Fewer bytes written than the disk holds: not reused."""
    why = why_fill(RANDOM, DISK, _records(replace(RECORD, written_bytes=SIZE - 1)))
    assert why is not None
    assert "only" in why


def test_none_asks_for_nothing() -> None:
    """Without preparation no disk needs a fill, known or not."""
    assert why_fill(Fill("none"), DISK, {}) is None


def test_files_are_told_apart_by_worker_and_path() -> None:
    """A file's record belongs to its path on its worker alone."""
    file = DiskIdentity("w1", SIZE, path="/data/f")
    records = _records(replace(RECORD, disk=file))
    assert why_fill(RANDOM, file, records) is None
    assert why_fill(RANDOM, replace(file, worker="w2"), records) is not None


def test_zeros_where_data_was_written_make_a_record_void() -> None:
    """A reverted or trimmed disk reads zeros again; cases' own writes don't matter."""
    data, empty = Sample(0, "ab" * 32, 65000), _zero(0)
    assert why_void(RECORD, [data, data]) is None
    assert why_void(RECORD, [data, empty]) == "1 of 2 samples are zeros again"
    assert why_void(RECORD, []) == "nothing could be read back"
    assert why_void(replace(RECORD, fill=Fill("zero")), [empty]) is None


@pytest.mark.parametrize(
    "text", ["", "{}", '{"schema": 9, "disks": []}', '{"schema": 1, "disks": [1]}']
)
def test_damaged_records_are_an_error_and_never_an_empty_list(text: str) -> None:
    """What can't be read is said, with the way out."""
    with pytest.raises(StoreError, match=r"prepared\.json"):
        read_records(text, "prepared.json")


def _zero(offset: int) -> Sample:
    return parse_samples(
        "sample 0 de2f256064a0af797747c2b97505dc0b9f3df0de4f489eac731c23ae9ca9cc31 100"
    )[0]


def _read_back(path: Path, size: int) -> list[Sample]:
    offsets = sample_offsets(size, seed=1)
    done = subprocess.run(
        ["sh", "-c", sample_script(str(path), offsets)], capture_output=True, check=True
    )
    return parse_samples(done.stdout.decode())


@pytest.mark.parametrize(
    ("content", "good"),
    [
        ("random", {"random", "compressible 0"}),
        ("zeros", {"zero"}),
        ("half", {"compressible 50"}),
    ],
)
def test_samples_tell_what_a_file_really_holds(
    tmp_path: Path, content: str, good: set[str]
) -> None:
    """Blocks that the real script read prove exactly the methods that could have made them."""
    half = SAMPLE_BYTES // 2
    blocks = {
        "random": lambda: os.urandom(SAMPLE_BYTES),
        "zeros": lambda: bytes(SAMPLE_BYTES),
        "half": lambda: os.urandom(half) + b"\xaa" * half,
    }
    path = tmp_path / "it's a file"
    path.write_bytes(b"".join(blocks[content]() for _ in range(64)))
    samples = _read_back(path, SIZE)
    assert [sample.offset for sample in samples] == list(sample_offsets(SIZE, seed=1))
    fills = {
        "zero": Fill("zero"),
        "random": Fill("random"),
        "compressible 50": Fill("compressible", 50),
        "compressible 0": Fill("compressible", 0),
    }
    proved = {name for name, fill in fills.items() if not judge_fill(fill, SIZE, SIZE, samples, 16)}
    assert proved == good


@pytest.mark.parametrize("method", ["random", "compressible"])
def test_case_29_a_never_written_disk_does_not_pass_for_filled(
    tmp_path: Path, method: Method
) -> None:
    """Case 29: a sparse file reads zeros, which is what a skipped fill looks like."""
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(SIZE)
    [wrong] = judge_fill(Fill(method, 50, 50), SIZE, SIZE, _read_back(path, SIZE), 16)
    assert wrong == "16 of 16 samples hold zeros, as if never written"


def test_bytes_missing_and_samples_missing_are_both_said() -> None:
    """A fill is proved by its bytes and by its samples; each lack is named."""
    wrong = judge_fill(RANDOM, SIZE, None, [], 16)
    assert wrong == [
        f"an unknown number of {SIZE} bytes were written",
        "0 of 16 samples could be read back",
    ]


def test_offsets_are_whole_blocks_inside_with_both_ends() -> None:
    """The first and the last whole block are always read; a small file is read whole."""
    offsets = sample_offsets(SIZE + 512, seed=7)
    assert (offsets[0], offsets[-1], len(set(offsets))) == (0, SIZE - SAMPLE_BYTES, 16)
    assert all(offset % SAMPLE_BYTES == 0 for offset in offsets)
    assert sample_offsets(SIZE, seed=7) == sample_offsets(SIZE, seed=7)
    assert sample_offsets(3 * SAMPLE_BYTES, seed=1) == (0, SAMPLE_BYTES, 2 * SAMPLE_BYTES)
    assert sample_offsets(100, seed=1) == ()


def test_progress_is_bytes_over_all_and_the_slowest_workers_time() -> None:
    """The whole fill ends with its slowest worker."""
    progress = fill_progress(
        {"w1": 1000, "w2": 1000}, {"w1": 500, "w2": 250}, {"w1": 10.0, "w2": 10.0}
    )
    assert (progress.written_bytes, progress.total_bytes, progress.percent) == (750, 2000, 37.5)
    assert (progress.seconds_left, progress.slowest) == (30.0, "w2")


def test_progress_leaves_the_time_open_until_every_worker_said_something() -> None:
    """Unknown is None; a worker that is done has nothing left."""
    silent = fill_progress({"w1": 1000, "w2": 1000}, {"w1": 500}, {"w1": 10.0})
    assert (silent.seconds_left, silent.slowest) == (None, None)
    done = fill_progress({"w1": 1000}, {"w1": 1004}, {"w1": 10.0})
    assert (done.seconds_left, done.written_bytes) == (0.0, 1000)
    assert fill_progress({}, {}, {}).percent is None


@pytest.mark.real
@pytest.mark.parametrize(
    "fill",
    [Fill("zero"), Fill("random"), Fill("compressible", 50, 30)],
    ids=lambda fill: fill.method,
)
def test_what_fio_writes_is_proved_by_its_own_samples_alone(tmp_path: Path, fill: Fill) -> None:
    """A real fill of a file passes its own judgement, and not that of another method."""
    path = tmp_path / "target"
    assert fill.method != "none"
    template = Path(__file__).parents[1] / "templates" / "jobfile" / FILL_TEMPLATE
    job = render_fill(
        fill.method,
        [JobTarget("disk0", str(path), SIZE, "file")],
        seed=7,
        template=TemplateSource(FILL_TEMPLATE, template.read_text()),
        engine="psync",
        direct=False,
        compress=fill.compress_percent,
        dedupe=fill.dedupe_percent,
    )
    (tmp_path / "fill.fio").write_text(job)
    subprocess.run(["fio", str(tmp_path / "fill.fio")], check=True, capture_output=True)
    samples = _read_back(path, SIZE)
    others = {Fill("zero"), Fill("random"), Fill("compressible", 50, 30)} - {fill}
    assert judge_fill(fill, SIZE, path.stat().st_size, samples, 16) == []
    assert all(judge_fill(other, SIZE, SIZE, samples, 16) for other in others)

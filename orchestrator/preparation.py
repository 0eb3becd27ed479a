"""What is known of a filled disk: how it was written, whether that still holds, how far a fill is.

A record belongs to a disk by its identity and is void when the disk changed. A fill is proved by
the bytes fio wrote and by samples read back; a sample is judged by what it holds. Pure.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from orchestrator.errors import StoreError

SCHEMA: Final = 1

Method = Literal["none", "zero", "random", "compressible"]

#: Samples of a disk that are read back, and the bytes of each: a power of two of any sector size.
SAMPLES: Final = 16
SAMPLE_BYTES: Final = 64 * 1024
#: A sample that gzip shrinks below this part of its size is not random: fio's own random data
#: shrinks by nothing.
RANDOM_LEAST_RATIO: Final = 0.95
#: How far the compressed size of the samples may be from the asked one, in percent points: gzip
#: finds other repeats than the storage does.
COMPRESS_SLACK: Final = 25.0

_ZEROS: Final = hashlib.sha256(bytes(SAMPLE_BYTES)).hexdigest()
_SAMPLE_LINE: Final = re.compile(r"^sample (\d+) ([0-9a-f]{64}) (\d+)$")


@dataclass(frozen=True)
class Fill:
    """How a disk is filled. Percents belong to `compressible` alone."""

    method: Method
    compress_percent: int | None = None
    dedupe_percent: int | None = None

    def __str__(self) -> str:
        if self.method != "compressible":
            return self.method
        return (
            f"compressible ({self.compress_percent or 0} % compress, "
            f"{self.dedupe_percent or 0} % dedupe)"
        )


@dataclass(frozen=True)
class DiskIdentity:
    """What stays with a disk: its serial and WWN, or the path of a file on its worker.

    `size` in bytes. A serial is a disk's own, wherever it is attached; a path is the worker's.
    """

    worker: str
    size: int
    serial: str | None = None
    wwn: str | None = None
    path: str | None = None

    @property
    def key(self) -> str | None:
        """What a record is found by; None when nothing tells this disk from another."""
        if self.serial or self.wwn:
            return f"disk:{self.serial or ''}:{self.wwn or ''}"
        return None if self.path is None else f"path:{self.worker}:{self.path}"


@dataclass(frozen=True)
class Prepared:
    """One disk that was filled and verified. `at` in seconds since the epoch."""

    disk: DiskIdentity
    fill: Fill
    written_bytes: int
    at: float
    run: str


@dataclass(frozen=True)
class Sample:
    """A block read back: its offset, SHA-256, and size after gzip -1, in bytes."""

    offset: int
    sha256: str
    gzip_bytes: int

    @property
    def is_zero(self) -> bool:
        """Whether the block holds zeros alone (as a block that was never written does)."""
        return self.sha256 == _ZEROS


@dataclass(frozen=True)
class FillProgress:
    """How far a fill is. Bytes over all workers; `seconds_left` is the slowest worker's, None
    while it can't be told."""

    written_bytes: int
    total_bytes: int
    seconds_left: float | None
    slowest: str | None

    @property
    def percent(self) -> float | None:
        """Part of the whole, None when there is nothing to write."""
        return 100 * self.written_bytes / self.total_bytes if self.total_bytes else None


# -- records -------------------------------------------------------------------------------------


def why_fill(wanted: Fill, disk: DiskIdentity, records: Mapping[str, Prepared]) -> str | None:
    """Why a disk must be filled, None when its record still holds."""
    if wanted.method == "none":
        return None
    if disk.key is None:
        return "nothing tells this disk from another (no serial, WWN or path)"
    record = records.get(disk.key)
    if record is None:
        return "no fill of this disk is on record"
    if record.disk.size != disk.size:
        return f"its size changed from {record.disk.size} to {disk.size} bytes"
    if record.fill != wanted:
        return f"it was filled {record.fill}, asked is {wanted}"
    if record.written_bytes < disk.size:
        return f"only {record.written_bytes} of {disk.size} bytes were written"
    return None


def why_void(record: Prepared, samples: Sequence[Sample]) -> str | None:
    """Why a record of an earlier fill no longer holds, None when the samples agree with it.

    Cases write over a fill, so contents differ; what was written never turns into zeros again,
    unless the disk was replaced, trimmed or reverted.
    """
    if record.fill.method == "zero":
        return None
    if not samples:
        return "nothing could be read back"
    zeros = sum(sample.is_zero for sample in samples)
    return f"{zeros} of {len(samples)} samples are zeros again" if zeros else None


def write_records(records: Iterable[Prepared]) -> str:
    """The records as a JSON document."""
    document = {"schema": SCHEMA, "disks": [asdict(record) for record in records]}
    return json.dumps(document, indent=1) + "\n"


def read_records(text: str, source: str) -> dict[str, Prepared]:
    """Read `write_records`' form, by key. StoreError names `source` when it is something else."""
    try:
        document = json.loads(text)
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']}, this hcio knows {SCHEMA}")
        records = [_record(entry) for entry in document["disks"]]
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            source,
            f"the records of filled disks can't be read ({error})",
            means="which disks were filled is not known",
            next_step="remove the file: the next run fills the disks again",
        ) from error
    return {record.disk.key: record for record in records if record.disk.key is not None}


def _record(entry: Mapping[str, Any]) -> Prepared:
    return Prepared(
        disk=DiskIdentity(**entry["disk"]),
        fill=Fill(**entry["fill"]),
        written_bytes=int(entry["written_bytes"]),
        at=float(entry["at"]),
        run=str(entry["run"]),
    )


# -- read-back -----------------------------------------------------------------------------------


def sample_offsets(size: int, seed: int, count: int = SAMPLES) -> tuple[int, ...]:
    """Offsets of whole blocks to read back: the first, the last, and others by the seed."""
    blocks = size // SAMPLE_BYTES
    if blocks <= count:
        return tuple(block * SAMPLE_BYTES for block in range(blocks))
    inner = random.Random(seed).sample(range(1, blocks - 1), count - 2)  # noqa: S311 - no secret
    return tuple(block * SAMPLE_BYTES for block in sorted([0, *inner, blocks - 1]))


def sample_script(path: str, offsets: Iterable[int]) -> str:
    """A shell script that reads blocks past the page cache and prints a line for each.

    A line is `sample OFFSET SHA256 GZIPPED`; a block that can't be read prints nothing.
    """
    blocks = " ".join(str(offset // SAMPLE_BYTES) for offset in offsets)
    return f"""\
target={shlex.quote(path)}
flag=iflag=direct
dd if="$target" of=/dev/null bs={SAMPLE_BYTES} count=1 $flag 2>/dev/null || flag=
read_block() {{ dd if="$target" bs={SAMPLE_BYTES} skip="$1" count=1 $flag 2>/dev/null; }}
for block in {blocks}; do
  sum=$(read_block "$block" | sha256sum); size=$(read_block "$block" | gzip -1 | wc -c)
  echo sample $((block * {SAMPLE_BYTES})) "${{sum%% *}}" $size
done
"""


def parse_samples(text: str) -> list[Sample]:
    """The samples that the script printed; lines of another form are left out."""
    matches = (_SAMPLE_LINE.match(line.strip()) for line in text.splitlines())
    return [Sample(int(m[1]), m[2], int(m[3])) for m in matches if m is not None]


def judge_fill(
    fill: Fill, size: int, written_bytes: int | None, samples: Sequence[Sample], expected: int
) -> list[str]:
    """What is wrong with a fill that fio called done; empty when it is proved.

    `written_bytes` is fio's own count, `expected` the number of samples asked for.
    """
    wrong = []
    if written_bytes is None or written_bytes < size:
        wrong.append(f"{written_bytes or 'an unknown number'} of {size} bytes were written")
    if len(samples) < expected:
        wrong.append(f"{len(samples)} of {expected} samples could be read back")
    if samples:
        wrong += _judge_contents(fill, samples)
    return wrong


def _judge_contents(fill: Fill, samples: Sequence[Sample]) -> list[str]:
    zeros = sum(sample.is_zero for sample in samples)
    if fill.method == "zero":
        others = len(samples) - zeros
        return [f"{others} of {len(samples)} samples hold other than zeros"] if others else []
    if zeros:
        return [f"{zeros} of {len(samples)} samples hold zeros, as if never written"]
    shrunk = [sample.gzip_bytes for sample in samples if sample.gzip_bytes]
    if not shrunk:  # no gzip there: the bytes and the zeros have to do
        return []
    ratio = sum(shrunk) / (len(shrunk) * SAMPLE_BYTES)
    if fill.method == "random" and ratio < RANDOM_LEAST_RATIO:
        return [f"samples shrink to {100 * ratio:.0f} % though they should be random"]
    if fill.method == "compressible":
        wanted = 100 - (fill.compress_percent or 0)
        if abs(100 * ratio - wanted) > COMPRESS_SLACK:
            return [f"samples shrink to {100 * ratio:.0f} %, asked were {wanted} %"]
    return []


# -- progress ------------------------------------------------------------------------------------


def fill_progress(
    totals: Mapping[str, int],
    written: Mapping[str, int | None],
    elapsed: Mapping[str, float | None],
) -> FillProgress:
    """How far the fill of all workers is, from bytes written and seconds since each began.

    A worker that didn't say counts as 0 bytes, and leaves the time open.
    """
    left: dict[str, float | None] = {}
    for worker, total in totals.items():
        done, seconds = written.get(worker), elapsed.get(worker)
        if done and done >= total:
            left[worker] = 0.0
        elif done and seconds:
            left[worker] = (total - done) * seconds / done
        else:
            left[worker] = None
    known = {worker: value for worker, value in left.items() if value is not None}
    slowest = max(known, key=lambda worker: known[worker], default=None)
    complete = slowest is not None and len(known) == len(totals)
    return FillProgress(
        written_bytes=sum(min(written.get(w) or 0, total) for w, total in totals.items()),
        total_bytes=sum(totals.values()),
        seconds_left=known[slowest] if complete and slowest is not None else None,
        slowest=slowest if complete else None,
    )

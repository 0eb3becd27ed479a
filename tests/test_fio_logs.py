"""fio's logs: options and names as a real fio takes and makes them, and parsing that survives."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.fio_logs import (
    HISTOGRAM_COARSENESS,
    histogram_interval_s,
    log_name,
    log_options,
    parse_log_name,
)
from orchestrator.histogram import BINS, Histogram, bin_indexes
from orchestrator.log_rows import coarse_percentiles, coarse_values, parse_histograms, parse_rows

DIP = Path(__file__).parent / "data" / "fio_logs" / "dip"
HISTOGRAM = (DIP / "series_clat_hist.1.log").read_bytes()


@pytest.mark.real
def test_real_fio_makes_the_logs_that_are_expected(tmp_path: Path) -> None:
    """With these options a fio with a job and two clones writes one set of named logs for each,
    epoch times inside the run, and histograms that count what iops counts."""
    options = "".join(f"{key}={value}\n" for key, value in log_options(3.0).items())
    (tmp_path / "job.fio").write_text(
        f"[global]\nioengine=null\nsize=16m\nruntime=3\ntime_based=1\nthread=1\n"
        f"group_reporting=0\nrate_iops=500\n{options}"
        "[disk 0]\nrw=randrw\n[disk1]\nrw=read\nnumjobs=2\n"
    )
    subprocess.run(
        ["fio", "--output=fio.json", "--output-format=json+", "job.fio"],
        cwd=tmp_path,
        check=True,
        timeout=60,
    )
    kinds = ("iops", "bw", "lat", "clat", "slat", "hist")
    expected = {log_name(kind, job) for kind in kinds for job in (1, 2, 3)}  # type: ignore[arg-type]
    assert {path.name for path in tmp_path.glob("*.log")} == expected
    iops = parse_rows([(tmp_path / log_name("iops", 1)).read_bytes()])
    assert set(iops.direction) == {0, 1}
    assert (iops.time_ms > 1_600_000_000_000).all()
    assert iops.dropped == 0
    rows = parse_histograms((tmp_path / log_name("hist", 1)).read_bytes())
    assert rows is not None
    assert rows.coarseness == HISTOGRAM_COARSENESS
    assert len(rows) >= 2
    mean = rows.counts.sum() / len(rows)
    assert mean == pytest.approx(iops.value.mean(), rel=0.5)


def test_names_are_told_both_ways() -> None:
    """Every name that is made is read back; other files are none; gzipped ones are known."""
    for kind in ("iops", "bw", "lat", "clat", "slat", "hist"):
        name = log_name(kind, 12)  # type: ignore[arg-type]
        parsed = parse_log_name(name)
        assert parsed is not None
        assert (parsed.kind, parsed.job, parsed.gzipped) == (kind, 12, False)
        packed = parse_log_name(f"{name}.gz")
        assert packed is not None
        assert packed.gzipped
    for other in ("fio.json", "eta.log", "stderr.log", "series_bw.log", "series_xx.1.log"):
        assert parse_log_name(other) is None


@pytest.mark.parametrize(
    ("runtime_s", "step_s"), [(0, 1), (60, 1), (600, 1), (601, 2), (3600, 6), (86_400, 144)]
)
def test_histogram_interval_bounds_the_rows(runtime_s: float, step_s: int) -> None:
    """Never more than 600 rows, never less than a second."""
    assert histogram_interval_s(runtime_s) == step_s


def test_older_forms_of_rows_are_read() -> None:
    """Three, four, five and six columns, with and without spaces: the first three count."""
    text = b"1000, 5, 0\n2000,6,1\n3000, 7, 0, 4096\n4000, 8, 0, 4096, 0\n5000, 9, 2, 0, 0, 7\n"
    rows = parse_rows([text])
    assert rows.time_ms.tolist() == [1000, 2000, 3000, 4000, 5000]
    assert rows.value.tolist() == [5, 6, 7, 8, 9]
    assert rows.direction.tolist() == [0, 1, 0, 0, 2]
    assert rows.dropped == 0


_WIDTHS = st.integers(1, 16).map(lambda width: 10 ** (width - 1))
_BLOCKS = st.lists(
    st.lists(
        st.tuples(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 3)), max_size=9
    ),
    max_size=4,
)


@given(blocks=_BLOCKS, width=_WIDTHS, odd=st.booleans())
def test_regular_rows_come_back_as_written(
    blocks: list[list[tuple[int, int, int]]], width: int, odd: bool
) -> None:
    """Both ways to read, of which regular lines take the quicker, give what was written: times of
    any width up to 16 digits, values of any size, a fourth direction dropped."""
    made = [[(width + past % (9 * width), n, way) for past, n, way in rows] for rows in blocks]
    texts = ["".join(f"{at}, {n}, {way}, 0, 0\n" for at, n, way in rows).encode() for rows in made]
    if odd:
        texts.append(b"not a row\n")
    rows = parse_rows(texts)
    wanted = [(*row, place) for place, part in enumerate(made) for row in part if row[2] < 3]
    assert [*zip(rows.time_ms, rows.value, rows.direction, rows.source, strict=True)] == wanted
    assert rows.dropped == odd + sum(row[2] == 3 for part in made for row in part)


def test_damaged_lines_are_dropped_and_counted() -> None:
    """Cut, empty, foreign and impossible lines go; the rows of each block stay with it."""
    rows = parse_rows(
        [
            b"1000, 5, 0, 0, 0\n\n2000, x, 0, 0, 0\n3000, 7, 1, 0, 0\n40",
            b"",
            b"1000, 99999999999999999999999, 0\n5,\n\x00\xff,1,1\n-1, 5, 0\n9, 5, 7\n1000, 6, 0\n",
        ]
    )
    assert rows.time_ms.tolist() == [1000, 3000, 1000]
    assert rows.value.tolist() == [5, 7, 6]
    assert rows.source.tolist() == [0, 0, 2]
    assert rows.dropped >= 5


def test_recorded_histogram_log_counts_what_json_counts() -> None:
    """464 bins a row, and no more I/Os than the whole run had."""
    rows = parse_histograms(HISTOGRAM)
    assert rows is not None
    assert (rows.coarseness, rows.counts.shape[1], rows.dropped) == (2, 464, 0)
    assert 4500 < rows.counts[rows.direction == 0].sum() <= 5565


def test_histograms_of_another_fio_are_refused() -> None:
    """fio 2's 1,216 bins are other bins: nothing is better than wrong latencies."""
    row = b"1000, 0, 4096, " + b", ".join([b"1"] * 1216) + b"\n"
    assert parse_histograms(row) is None
    assert parse_histograms(b"") is None
    assert parse_histograms(b"1000, 0, 4096, 1") is None


@given(
    counts=st.lists(
        st.lists(st.integers(0, 10**9), min_size=29, max_size=29), min_size=1, max_size=5
    ),
    tail=st.sampled_from(["", "12, 0, 40"]),
)
def test_histogram_rows_come_back_as_written(counts: list[list[int]], tail: str) -> None:
    """Whatever the counts, a row's numbers are read as they stand; a cut row is left out."""
    lines = [f"{1000 + n}, 1, 4096, {', '.join(map(str, row))}\n" for n, row in enumerate(counts)]
    rows = parse_histograms(("".join(lines) + tail).encode())
    assert rows is not None
    assert rows.counts.tolist() == counts
    assert rows.time_ms.tolist() == [1000 + n for n in range(len(counts))]
    assert set(rows.direction) == {1}


def test_irregular_row_is_dropped_and_the_others_kept() -> None:
    """One damaged row of six doesn't take the others with it."""
    lines = HISTOGRAM.splitlines(keepends=True)
    broken = b"".join([*lines[:2], lines[2].replace(b", 0, 0,", b", x, 0,", 1), *lines[3:]])
    good, damaged = parse_histograms(HISTOGRAM), parse_histograms(broken)
    assert good is not None
    assert damaged is not None
    assert damaged.dropped == 1
    assert len(damaged) == len(good) - 1


@given(
    st.sampled_from([HISTOGRAM[:4000], (DIP / "series_lat.1.log").read_bytes()]),
    st.lists(st.tuples(st.integers(0, 3999), st.integers(0, 255)), max_size=8),
    st.integers(0, 4000),
)
def test_mutants_never_crash(data: bytes, changes: list[tuple[int, int]], end: int) -> None:
    """Changed and cut bytes are read or dropped, never an exception, never a negative number."""
    mutant = bytearray(data[:end])
    for place, value in changes:
        if place < len(mutant):
            mutant[place] = value
    rows = parse_rows([bytes(mutant)])
    assert (rows.value >= 0).all()
    assert (rows.direction < 3).all()
    histograms = parse_histograms(bytes(mutant))
    assert histograms is None or (histograms.counts >= 0).all()


@given(st.integers(0, 2**32), st.floats(0.1, 3), st.integers(200, 10**7))
def test_coarse_percentiles_are_within_their_error(seed: int, width: float, middle: int) -> None:
    """Four bins in one: at most 3.2 % from the exact bin's value (plus that bin's own 0.8 %)."""
    drawn = middle * np.random.default_rng(seed).lognormal(0, width, 2000)
    samples = np.clip(drawn, 128, 1e10).astype(np.int64)
    exact = Histogram.of_samples(samples.tolist())
    every = np.bincount(bin_indexes(samples), minlength=BINS)
    coarse = every.reshape(-1, 4).sum(axis=1)[None, :]
    percents = (50.0, 95.0, 99.0)
    found = coarse_percentiles(coarse, 2, percents)[0]
    for percent, value in zip(percents, found, strict=True):
        assert value == pytest.approx(exact.percentile(percent), rel=0.04)


def test_percentile_that_a_row_cannot_carry_is_not_given() -> None:
    """Ten I/Os have a median and no p99; an empty row has nothing."""
    counts = np.zeros((2, BINS >> 2), dtype=np.int64)
    counts[0, 100] = 10
    found = coarse_percentiles(counts, 2, (50.0, 99.0))
    assert found[0, 0] == coarse_values(2)[100]
    assert np.isnan(found[0, 1])
    assert np.isnan(found[1]).all()

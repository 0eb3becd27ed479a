"""The series of a case, from recorded and from made logs to Parquet."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.log_reader import Member, find_logs
from orchestrator.series import scan_series, write_series

DATA = Path(__file__).parent / "data" / "fio_logs"
DIP = DATA / "dip"
BASE_MS = 1_796_076_000_000


def log(rows: list[tuple[int, int, int]]) -> str:
    """A log's text from (ms, value, direction)."""
    return "".join(f"{time}, {value}, {direction}, 0, 0\n" for time, value, direction in rows)


def steady_logs(
    folder: Path,
    *,
    seconds: int,
    iops: int = 100,
    begin_ms: int = BASE_MS,
    lat_ns: int = 1_000_000,
    job: int = 1,
) -> Path:
    """Write the logs of one job that reads at a constant rate."""
    folder.mkdir(parents=True, exist_ok=True)
    times = [begin_ms + 1000 * (second + 1) for second in range(seconds)]
    for kind, value in (("iops", iops), ("bw", iops * 4), ("lat", lat_ns)):
        text = log([(time, value, 0) for time in times])
        (folder / f"series_{kind}.{job}.log").write_text(text)
    return folder


def total_of(path: Path, scope: str = "total", direction: str = "read") -> pl.DataFrame:
    """The rows of one scope and direction in the order of time."""
    return (
        scan_series(path)
        .filter(pl.col("scope") == scope, pl.col("direction") == direction)
        .sort("second")
        .collect()
    )


def test_recorded_run_keeps_every_logged_io(tmp_path: Path) -> None:
    """All I/Os of a real run are in its series, but for those of the last, unlogged second."""
    out = tmp_path / "series.parquet"
    summary = write_series(out, [Member("w1", find_logs(DIP))])
    totals = json.loads((DIP / "totals.json").read_text())["jobs"]
    assert summary is not None
    assert summary.histogram_step_s == 2
    for direction in ("read", "write"):
        ios = sum(job[direction]["ios"] for job in totals.values())
        size = sum(job[direction]["bytes"] for job in totals.values())
        found = total_of(out, direction=direction)
        last_second = ios / 14
        assert ios - 2 * last_second < found["iops"].sum() <= ios * 1.005
        assert found["bytes_per_s"].sum() == pytest.approx(
            size * found["iops"].sum() / ios, rel=0.01
        )


def test_recorded_standstill_is_a_hole_not_a_lost_row(tmp_path: Path) -> None:
    """2.5 s in which fio was stopped show as seconds of low rate, with every second present."""
    out = tmp_path / "series.parquet"
    write_series(out, [Member("w1", find_logs(DIP))])
    reads = total_of(out)
    assert reads["second"].to_list() == list(range(reads.height))
    median = reads["iops"].median()
    assert isinstance(median, float)
    stood = reads.filter(pl.col("iops") < 0.5 * median)["second"].to_list()
    assert set(range(3, 6)) <= set(stood)


def test_percentiles_stand_where_their_interval_ends(tmp_path: Path) -> None:
    """Histogram rows of 2 s give percentiles in every second second, and say so."""
    out = tmp_path / "series.parquet"
    write_series(out, [Member("w1", find_logs(DIP))])
    known = total_of(out).drop_nulls("p50_ns")
    assert known["second"].to_list()
    assert all(second % 2 == 1 for second in known["second"])
    assert set(known["percentiles_s"]) == {2.0}
    assert (known["p95_ns"] >= known["p50_ns"]).all()
    # 800 reads and a p99.9 can be carried; a p99.99 isn't even a column.
    assert "p99.99_ns" not in known.columns


def test_gzipped_logs_give_the_same_series(tmp_path: Path) -> None:
    """Logs compressed on the worker reduce to the same rows."""
    packed = tmp_path / "packed"
    packed.mkdir()
    for path in find_logs(DIP):
        (packed / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    write_series(tmp_path / "a.parquet", [Member("w1", find_logs(DIP))])
    write_series(tmp_path / "b.parquet", [Member("w1", find_logs(packed))])
    assert total_of(tmp_path / "a.parquet").equals(total_of(tmp_path / "b.parquet"))


@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda data: b"\x1f\x8b no gzip"])
def test_damaged_gzip_keeps_what_can_be_read(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    """A packed log that was cut or isn't one takes no other log with it, nor leaves anything."""
    folder = steady_logs(tmp_path / "w1", seconds=2000)
    plain = folder / "series_bw.1.log"
    (folder / "series_bw.1.log.gz").write_bytes(damage(gzip.compress(plain.read_bytes())))
    plain.unlink()
    out = tmp_path / "out" / "series.parquet"
    out.parent.mkdir()
    write_series(out, [Member("w1", find_logs(folder))])
    assert total_of(out)["iops"].to_list() == pytest.approx([100.0] * 2000)
    assert [path.name for path in out.parent.iterdir()] == ["series.parquet"]


def test_clock_offsets_bring_workers_together(tmp_path: Path) -> None:
    """Workers whose clocks are minutes apart stand in the same seconds once offsets are applied."""
    members = [
        Member("w1", find_logs(steady_logs(tmp_path / "w1", seconds=10)), clock_offset_s=0.0),
        Member(
            "w2",
            find_logs(steady_logs(tmp_path / "w2", seconds=10, begin_ms=BASE_MS + 120_000)),
            clock_offset_s=120.0,
        ),
    ]
    out = tmp_path / "series.parquet"
    summary = write_series(out, members)
    found = total_of(out)
    assert summary is not None
    assert summary.seconds == 10
    assert found["iops"].to_list() == pytest.approx([200.0] * 10)
    assert found["workers"].to_list() == pytest.approx([2.0] * 10)
    assert found["lat_mean_ns"].to_list() == pytest.approx([1_000_000.0] * 10)


def test_late_starter_and_tail_are_visible(tmp_path: Path) -> None:
    """A worker 3.5 s late counts from where it measures: `workers` tells how many did."""
    members = [
        Member("w1", find_logs(steady_logs(tmp_path / "w1", seconds=10))),
        Member("w2", find_logs(steady_logs(tmp_path / "w2", seconds=10))),
        Member("w3", find_logs(steady_logs(tmp_path / "w3", seconds=10, begin_ms=BASE_MS + 3500))),
    ]
    out = tmp_path / "series.parquet"
    write_series(out, members)
    workers = total_of(out)["workers"].to_list()
    assert workers[:3] == pytest.approx([2.0] * 3)
    assert workers[3] == pytest.approx(2.5)
    assert workers[4:10] == pytest.approx([3.0] * 6)
    assert workers[10:13] == pytest.approx([1.0] * 3)


def test_drifting_ticks_make_no_dip(tmp_path: Path) -> None:
    """Intervals of 1,017 ms for five minutes leave a constant rate constant."""
    folder = tmp_path / "w1"
    folder.mkdir()
    times = [BASE_MS + 1017 * (n + 1) for n in range(300)]
    (folder / "series_iops.1.log").write_text(log([(time, 500, 0) for time in times]))
    out = tmp_path / "series.parquet"
    write_series(out, [Member("w1", find_logs(folder))])
    rates = total_of(out)["iops"].to_list()[1:-1]
    assert min(rates) == pytest.approx(500, rel=0.02)
    assert max(rates) == pytest.approx(500, rel=0.02)


def test_second_without_io_is_zero_not_absent(tmp_path: Path) -> None:
    """A log skips intervals without I/O; their seconds have 0 and null latency."""
    folder = tmp_path / "w1"
    folder.mkdir()
    rows = [(BASE_MS + 1000 * n, 100, 0) for n in (1, 2, 3, 7, 8)]
    (folder / "series_iops.1.log").write_text(log(rows))
    (folder / "series_lat.1.log").write_text(log([(t, 5000, d) for t, _, d in rows]))
    out = tmp_path / "series.parquet"
    write_series(out, [Member("w1", find_logs(folder))])
    found = total_of(out)
    assert found["iops"].to_list() == pytest.approx([100, 100, 100, 0, 0, 0, 100, 100])
    assert found["lat_mean_ns"].to_list()[3:6] == [None, None, None]


def test_the_last_row_of_an_ending_job_is_about_no_time(tmp_path: Path) -> None:
    """fio 3.33 may log its last few I/Os as a second row of the last instant: a handful of slow
    ones is no whole second beside the real one (seen: 148 us of a run became 19.8 ms)."""
    folder = steady_logs(tmp_path / "w1", seconds=3, lat_ns=150_000)
    last = log([(BASE_MS + 3000, 164_700_000, 0)])
    path = folder / "series_lat.1.log"
    path.write_text(path.read_text() + last)
    out = tmp_path / "series.parquet"
    write_series(out, [Member("w1", find_logs(folder))])
    assert total_of(out)["lat_mean_ns"].to_list() == pytest.approx([150_000.0] * 3)


def test_logs_without_epoch_count_from_the_measuring_instant(tmp_path: Path) -> None:
    """Older fio counts from the job's begin; the worker's own start instant places its rows."""
    old = find_logs(steady_logs(tmp_path / "old", seconds=5, begin_ms=0))
    new = find_logs(steady_logs(tmp_path / "new", seconds=5))
    out = tmp_path / "series.parquet"
    summary = write_series(
        out, [Member("old", old, measuring_from_ms=float(BASE_MS)), Member("new", new)]
    )
    assert summary is not None
    assert summary.spans["old"] == summary.spans["new"]
    assert total_of(out)["iops"].to_list() == pytest.approx([200.0] * 5)


def test_hosts_and_groups_add_up_to_the_total(tmp_path: Path) -> None:
    """In every second workers, hosts and groups each add up to the total."""
    members = [
        Member(
            f"w{n}",
            find_logs(steady_logs(tmp_path / f"w{n}", seconds=6, iops=100 * (n + 1))),
            group=("a", "b")[n % 2],
            host=("h2", "h1", "h2", "h3")[n],
        )
        for n in range(4)
    ]
    out = tmp_path / "series.parquet"
    write_series(out, members, window_s=4)
    sums = (
        scan_series(out)
        .group_by("scope", "second")
        .agg(pl.col("iops").sum(), pl.col("name").n_unique().alias("names"))
        .collect()
    )
    assert sums["iops"].to_list() == pytest.approx([1000.0] * 24)
    names = dict(sums.filter(pl.col("second") == 5).select("scope", "names").iter_rows())
    assert names == {"total": 1, "host": 3, "group": 2, "worker": 4}


def test_window_length_changes_nothing(tmp_path: Path) -> None:
    """Reduced 3 seconds at a time or all at once, a series is the same."""
    for name, window in (("a", 3), ("b", 900)):
        write_series(tmp_path / f"{name}.parquet", [Member("w1", find_logs(DIP))], window_s=window)
    one, two = total_of(tmp_path / "a.parquet"), total_of(tmp_path / "b.parquet")
    assert one["second"].to_list() == two["second"].to_list()
    for column in ("iops", "bytes_per_s", "workers"):
        assert one[column].to_list() == pytest.approx(two[column].to_list())


def test_long_log_is_read_in_windows_without_loss(tmp_path: Path) -> None:
    """Four windows of a log with growing lines, two directions and a hole keep every I/O."""
    folder = tmp_path / "w1"
    folder.mkdir()
    rows = [
        (BASE_MS + 1000 * (n + 1), 10 ** (n // 800) + n, direction)
        for n in range(3000)
        if not 1000 <= n < 1400
        for direction in (0, 1)
    ]
    (folder / "series_iops.1.log").write_text(log(rows))
    out = tmp_path / "series.parquet"
    write_series(out, [Member("w1", find_logs(folder))], window_s=900)
    for direction, number in (("read", 0), ("write", 1)):
        found = total_of(out, direction=direction)
        assert found["second"].to_list() == list(range(3000))
        assert found["iops"].sum() == pytest.approx(sum(v for _, v, d in rows if d == number))


def test_worker_without_rows_is_named(tmp_path: Path) -> None:
    """Empty logs and no logs are told, and the others still make a series."""
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "series_iops.1.log").write_text("")
    members = [
        Member("w1", find_logs(steady_logs(tmp_path / "w1", seconds=4))),
        Member("w2", find_logs(empty)),
        Member("w3", []),
    ]
    summary = write_series(tmp_path / "series.parquet", members)
    assert summary is not None
    assert summary.without == {"w2": "no rows", "w3": "no logs"}
    assert write_series(tmp_path / "none.parquet", members[1:]) is None
    assert not (tmp_path / "none.parquet").exists()


def test_damage_in_one_log_leaves_the_others_alone(tmp_path: Path) -> None:
    """Many workers are read in one go: a line that is no row costs its own second, and is told."""
    members = [
        Member(name, find_logs(steady_logs(tmp_path / name, seconds=5)))
        for name in ("w1", "w2", "w3", "w4", "w5", "w6")
    ]
    path = tmp_path / "w2" / "series_iops.1.log"
    path.write_bytes(path.read_bytes().replace(b", 100, 0", b", 1x0, 0", 1))
    out = tmp_path / "series.parquet"
    summary = write_series(out, members)
    assert summary is not None
    assert summary.dropped_lines == 1
    frame = scan_series(out).filter(pl.col("scope") == "worker").collect()
    sums = dict(frame.group_by("name").agg(pl.col("iops").sum()).iter_rows())
    assert sums == {m.worker: pytest.approx(400 if m.worker == "w2" else 500) for m in members}


def test_cut_log_loses_only_its_last_line(tmp_path: Path) -> None:
    """A log cut inside its last number counts without that line."""
    folder = steady_logs(tmp_path / "w1", seconds=5)
    path = folder / "series_iops.1.log"
    path.write_bytes(path.read_bytes()[:-10])
    out = tmp_path / "series.parquet"
    write_series(out, [Member("w1", find_logs(folder))])
    assert total_of(out)["iops"].sum() == pytest.approx(400)


@given(
    starts=st.lists(st.integers(0, 5000), min_size=1, max_size=4),
    rates=st.lists(st.integers(1, 10_000), min_size=5, max_size=12),
    window=st.integers(2, 20),
)
def test_amounts_are_conserved(
    tmp_path_factory: pytest.TempPathFactory, starts: list[int], rates: list[int], window: int
) -> None:
    """Whatever the phases of the workers and the windows, no I/O is lost or counted twice."""
    root = tmp_path_factory.mktemp("conserved")
    members = []
    for number, start in enumerate(starts):
        folder = root / f"w{number}"
        folder.mkdir()
        rows = [(BASE_MS + start + 1000 * (n + 1), rate, 0) for n, rate in enumerate(rates)]
        (folder / "series_iops.1.log").write_text(log(rows))
        members.append(Member(f"w{number}", find_logs(folder)))
    out = root / "series.parquet"
    write_series(out, members, window_s=window)
    assert total_of(out)["iops"].sum() == pytest.approx(sum(rates) * len(starts))

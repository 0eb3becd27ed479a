"""P5: reducing the logs of a large case to its series, against polars scanning the same bytes.

The logs are made as fio writes them (iops, bw and lat once a second; a histogram row of 464 counts
every 6 s for an hour, as `fio_logs.log_options` asks for). The scan reads every column of every
file as integers and adds it up, nothing else: what a reduction must at least do.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from orchestrator.fio_logs import histogram_interval_s, log_name
from orchestrator.log_reader import Member, find_logs
from orchestrator.series import write_series

WORKERS, DISKS, SECONDS = 256, 8, 3600
#: Run lengths and workers for the peak of memory.
MEMORY_WORKERS, MEMORY_SECONDS = 32, (3600, 14_400)
GOAL = 2.0
ROUNDS = 3
BASE_MS = 1_796_076_000_000
_VARIANTS = 8


def make_logs(root: Path, workers: int, seconds: int, *, histograms: bool) -> list[Member]:
    """Write the logs of so many workers with DISKS jobs each; 64 workers a group, 8 a host."""
    texts = _texts(seconds, histograms=histograms)
    members = []
    for number in range(workers):
        folder = root / f"w{number:04d}"
        folder.mkdir(parents=True)
        for job in range(1, DISKS + 1):
            for kind, variants in texts.items():
                (folder / log_name(kind, job)).write_bytes(variants[(number + job) % _VARIANTS])  # type: ignore[arg-type]
        members.append(
            Member(
                folder.name,
                find_logs(folder),
                group=f"group{number // 64}",
                host=f"host{number // 8}",
            )
        )
    return members


def _texts(seconds: int, *, histograms: bool) -> dict[str, list[bytes]]:
    rng = np.random.default_rng(1)
    times = (BASE_MS + 1000 * np.arange(1, seconds + 1)).tolist()
    texts: dict[str, list[bytes]] = {}
    for kind, low, high in (("iops", 2000, 2400), ("bw", 8000, 9600), ("lat", 2e5, 9e5)):
        texts[kind] = [
            "".join(
                f"{at}, {value}, 0, 0, 0\n"
                for at, value in zip(
                    times, rng.integers(int(low), int(high), seconds).tolist(), strict=True
                )
            ).encode()
            for _ in range(_VARIANTS)
        ]
    if histograms:
        step = histogram_interval_s(seconds)
        texts["hist"] = [
            "".join(_histogram_row(rng, at) for at in times[step - 1 :: step]).encode()
            for _ in range(_VARIANTS)
        ]
    return texts


def _histogram_row(rng: np.random.Generator, at: int) -> str:
    bins = np.clip(rng.normal(250, 14, 13_000).astype(int), 0, 463)
    counts = np.bincount(bins, minlength=464).tolist()
    return f"{at}, 0, 4096, {', '.join(map(str, counts))}\n"


def scan(files: list[Path]) -> None:
    """polars' own scan of the same bytes: every column of every file read and added up."""
    for columns, some in ((467, True), (5, False)):
        chosen = [path for path in files if ("hist" in path.name) == some]
        if chosen:
            schema = {f"c{n}": pl.Int64 for n in range(columns)}
            pl.scan_csv(chosen, has_header=False, schema=schema).select(pl.all().sum()).collect()


def run(report: Callable[[str], None]) -> None:
    """Measure and report, line by line."""
    with tempfile.TemporaryDirectory(prefix="series-") as root:
        members = make_logs(Path(root) / "rates", WORKERS, SECONDS, histograms=False)
        _compare(report, members, f"{WORKERS} workers x {DISKS} disks x {SECONDS} s")
    with tempfile.TemporaryDirectory(prefix="series-") as root:
        members = make_logs(Path(root) / "all", WORKERS, SECONDS, histograms=True)
        _compare(report, members, "the same with histogram logs")
    peaks = [_peak_mb(seconds) for seconds in MEMORY_SECONDS]
    shown = ", ".join(f"{p:.0f} MB at {s} s" for p, s in zip(peaks, MEMORY_SECONDS, strict=True))
    report(f"P5 peak memory, {MEMORY_WORKERS} workers: {shown}; ratio {peaks[1] / peaks[0]:.2f}")


def _compare(report: Callable[[str], None], members: list[Member], what: str) -> None:
    """Best of several interleaved rounds, in wall and in CPU seconds."""
    files = [path for member in members for path in member.files]
    size = sum(path.stat().st_size for path in files) / 1e6
    out = members[0].files[0].parent / "series.parquet"
    least = {"scan": [float("inf")] * 2, "reduce": [float("inf")] * 2}
    jobs: dict[str, Callable[[], object]] = {
        "scan": lambda: scan(files),
        "reduce": lambda: write_series(out, members),
    }
    for _ in range(ROUNDS):
        for name, job in jobs.items():
            wall, cpu = time.perf_counter(), time.process_time()
            job()
            took = time.perf_counter() - wall, time.process_time() - cpu
            least[name] = [min(a, b) for a, b in zip(least[name], took, strict=True)]
    (scan_wall, scan_cpu), (wall, cpu) = least["scan"], least["reduce"]
    report(
        f"P5 series of {what} ({size:.0f} MB): {wall:.2f} s; polars scan of the same bytes: "
        f"{scan_wall:.2f} s; ratio {wall / scan_wall:.2f} (goal {GOAL:g}); "
        f"in CPU time {cpu:.2f} s to {scan_cpu:.2f} s, ratio {cpu / scan_cpu:.2f}"
    )


def _peak_mb(seconds: int) -> float:
    """The peak memory in MB of a process of its own that reduces a run of so many seconds."""
    with tempfile.TemporaryDirectory(prefix="series-") as root:
        make_logs(Path(root) / "logs", MEMORY_WORKERS, seconds, histograms=False)
        command = [sys.executable, "-m", "bench.series", root]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    return float(done.stdout)


def _reduce_only(root: Path) -> None:
    folders = sorted((root / "logs").iterdir())
    members = [Member(f.name, find_logs(f), group="g", host="h") for f in folders]
    write_series(root / "series.parquet", members)
    # Not ru_maxrss: that counts the parent's memory from before the exec.
    status = Path("/proc/self/status").read_text()
    print(float(status.partition("VmHWM:")[2].split()[0]) / 1024)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _reduce_only(Path(sys.argv[1]))
    else:
        run(print)

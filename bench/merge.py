"""P4: merging many json+ files against only parsing the same bytes, and the memory it takes.

The files hold bins of total and of completion latency, as hcio's own jobs ask for. Both are read:
without the second the ratio would be 0.6 less, and its percentiles missing from the totals.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from orchestrator.analysis import TOGETHER, merge_files
from orchestrator.fio_output import parse_fio_outputs
from orchestrator.results import RunResult

TRUTH = Path(__file__).parents[1] / "tests" / "data" / "truth"
WORKERS = 1024
FEW = 64
GOAL = 2.0
ROUNDS = 5


def outputs(number: int) -> Iterator[tuple[str, bytes]]:
    """The named outputs of `number` workers: the recorded ones again and again, read anew."""
    paths = sorted(TRUTH.glob("*/w*.json"))
    for index in range(number):
        yield f"w{index}", paths[index % len(paths)].read_bytes()


def run(report: Callable[[str], None]) -> None:
    """Measure and report, line by line."""
    held = list(outputs(WORKERS))
    size = sum(len(data) for _, data in held) / 1e6
    bare, merge, parse = _best(held)
    report(
        f"P4 merge of {WORKERS} json+ files ({size:.0f} MB): {merge * 1e3:.0f} ms; "
        f"orjson.loads of the same bytes: {bare * 1e3:.0f} ms; ratio {merge / bare:.2f} "
        f"(goal {GOAL:g})"
    )
    report(f"P4   of which parsing to histograms: {parse * 1e3:.0f} ms, ratio {parse / bare:.2f}")
    few, many = _peak_mb(FEW), _peak_mb(WORKERS)
    report(
        f"P4 peak memory, files streamed: {few:.0f} MB at {FEW} workers, {many:.0f} MB at "
        f"{WORKERS}: {(many - few) * 1e3 / (WORKERS - FEW):.1f} KB a worker (its result)"
    )


def _best(held: list[tuple[str, bytes]]) -> tuple[float, float, float]:
    """Least CPU seconds of bare parsing, merging, and our parsing; the rounds are interleaved."""
    pairs = [(data, name) for name, data in held]

    def bare() -> None:
        for _, data in held:
            orjson.loads(data)

    def merge() -> None:
        merge_files(held)

    def parse() -> None:
        for start in range(0, len(pairs), TOGETHER):
            parse_fio_outputs(pairs[start : start + TOGETHER])

    least = [float("inf")] * 3
    for _ in range(ROUNDS):
        for place, job in enumerate((bare, merge, parse)):
            before = time.process_time()
            job()
            least[place] = min(least[place], time.process_time() - before)
    return least[0], least[1], least[2]


def _peak_mb(number: int) -> float:
    """The peak memory in MB of a process of its own that merges `number` workers."""
    command = [sys.executable, "-m", "bench.merge", str(number)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    return float(done.stdout)


def merged(number: int) -> RunResult:
    """Merge `number` workers, one file at a time."""
    return merge_files(outputs(number))


def main(arguments: list[str]) -> None:
    """Without arguments: report. With a number: merge so many and print the peak in MB."""
    if not arguments:
        run(print)
        return
    result = merged(int(arguments[0]))
    complete = result.cases[0].received_workers == int(arguments[0])
    print(_high_water_mb() if complete else float("nan"))


def _high_water_mb() -> float:
    # getrusage's maximum is inherited over exec; the kernel's own mark is of this program alone.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1e3


if __name__ == "__main__":
    main(sys.argv[1:])

"""Comparisons against the truth: like with like is rarely called different, 5 % less is found.

Real fio runs on a scratch file of this machine, through the whole chain (fio's json+ output, merge,
compare). The sides of each comparison are dealt at random to runs that follow each other, so that
what drifts meets both alike.
"""

from __future__ import annotations

import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from orchestrator.analysis import merge_files
from orchestrator.compare import Side, compare
from orchestrator.contrast import Observation, Rules
from orchestrator.results import CaseResult
from orchestrator.statistics import series_change

LIKE_TRIALS, LIKE_RUNS = 200, 4
CHANGE_TRIALS, CHANGE_RUNS = 50, 5
#: The two rates of the true change, 5 % apart.
RATES = (2000, 1900)
RUNTIME_MS = 200
WINDOW_MS = 10
_GOAL_LIKE, _GOAL_FOUND = 0.05, 0.80


class Machine:
    """Runs fio on a scratch file of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._fio(["--rw=write", "--bs=1m"])

    def _fio(self, options: Sequence[str]) -> bytes:
        base = [
            "fio",
            "--name=job",
            f"--filename={self.folder / 'scratch'}",
            "--size=64m",
            "--ioengine=psync",
            "--output-format=json+",
        ]
        done = subprocess.run([*base, *options], capture_output=True, check=True, cwd=self.folder)
        return done.stdout

    def run(self, rate: int | None = None) -> Observation:
        """One run of random reads, as fast as it goes or at `rate` IOPS."""
        options = [
            "--rw=randread",
            "--bs=4k",
            "--direct=1",
            "--time_based",
            f"--runtime={RUNTIME_MS}ms",
            "--write_iops_log=seconds",
            f"--log_avg_msec={WINDOW_MS}",
            f"--randseed={random.randrange(1 << 30)}",
        ]
        if rate is not None:
            options += [f"--rate_iops={rate}", "--rate_process=linear"]
        case = merge_files([("w", self._fio(options))], case="c").cases[0]
        lines = (self.folder / "seconds_iops.1.log").read_text().splitlines()
        windows = [float(line.split(",")[1]) for line in lines]
        return Observation(case, {"iops": windows})


def _sides(runs: Sequence[Observation], second: Sequence[int]) -> tuple[Side, Side]:
    chosen = set(second)
    first = tuple(run for place, run in enumerate(runs) if place not in chosen)
    other = tuple(run for place, run in enumerate(runs) if place in chosen)
    return Side("A", {"c": first}), Side("B", {"c": other})


def judged_different(baseline: Side, candidate: Side) -> set[str]:
    """The metrics that a comparison calls better or worse."""
    rows = compare(baseline, candidate, Rules()).cases[0].rows
    return {row.metric for row in rows if row.verdict in ("better", "worse")}


def like_with_like(
    machine: Machine, trials: int, chance: random.Random
) -> tuple[int, int, list[float]]:
    """How often like was called different: with repeats, and one run against one by its series.

    The third part is every run's IOPS.
    """
    repeats = single = 0
    rates: list[float] = []
    for _ in range(trials):
        runs = [machine.run() for _ in range(2 * LIKE_RUNS)]
        rates += [_iops(run.result) for run in runs]
        repeats += bool(judged_different(*_sides(runs, chance.sample(range(len(runs)), LIKE_RUNS))))
        one, two = chance.sample(runs, 2)
        single += series_change(one.series["iops"], two.series["iops"]).differs
    return repeats, single, rates


def _iops(case: CaseResult) -> float:
    read = case.total.read if case.total else None
    return read.iops or 0.0 if read else 0.0


def true_change(machine: Machine, trials: int, chance: random.Random) -> int:
    """How often the rate that is 5 % lower was called worse."""
    found = 0
    for _ in range(trials):
        places = chance.sample(range(2 * CHANGE_RUNS), CHANGE_RUNS)
        runs = [machine.run(RATES[place in places]) for place in range(2 * CHANGE_RUNS)]
        baseline, candidate = _sides(runs, places)
        rows = compare(baseline, candidate, Rules()).cases[0].rows
        found += any(row.metric == "iops" and row.verdict == "worse" for row in rows)
    return found


def run(
    report: Callable[[str], None],
    like_trials: int = LIKE_TRIALS,
    change_trials: int = CHANGE_TRIALS,
) -> None:
    """Measure and report. 12 minutes on a calm machine."""
    chance = random.Random(1)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hcio-bench-") as folder:
        machine = Machine(Path(folder))
        repeats, single, rates = like_with_like(machine, like_trials, chance)
        found = true_change(machine, change_trials, chance)
    took = time.monotonic() - begin
    mean = sum(rates) / len(rates)
    spread = (sum((rate - mean) ** 2 for rate in rates) / (len(rates) - 1)) ** 0.5 / mean
    report(
        f"judgement: like against like, {LIKE_RUNS} runs a side of {RUNTIME_MS} ms: "
        f"{repeats} of {like_trials} comparisons called different in any metric "
        f"({repeats / like_trials:.1%}, goal {_GOAL_LIKE:.0%}); runs spread {spread:.1%}"
    )
    report(
        f"judgement: one run against one by its {WINDOW_MS} ms windows: {single} of {like_trials} "
        f"called different ({single / like_trials:.1%}, goal {_GOAL_LIKE:.0%})"
    )
    share = f"{found / change_trials:.0%}, goal {_GOAL_FOUND:.0%}"
    report(
        f"judgement: a true {1 - RATES[1] / RATES[0]:.0%} less, {CHANGE_RUNS} runs a side: found "
        f"in {found} of {change_trials} trials ({share})"
    )
    report(f"judgement: took {took / 60:.1f} minutes")


if __name__ == "__main__":
    run(print)

"""P7: how long the command line takes to say something, as multiples of a bare interpreter."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

ROUNDS = 15
GOALS = {"hcio --help": 10.0, "six-case dry run": 30.0}


def run(report: Callable[[str], None]) -> dict[str, float]:
    """Time the commands in turn, so that drift meets all alike; CPU seconds, medians."""
    commands: dict[str, Sequence[str]] = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "hcio --help": [sys.executable, "-m", "orchestrator", "--help"],
        "six-case dry run": [
            *(sys.executable, "-m", "orchestrator", "run", "easy-run-6"),
            *("--local", "--dry-run"),
        ],
    }
    with tempfile.TemporaryDirectory() as folder:
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for round_ in range(ROUNDS + 1):
            for name, command in commands.items():
                seconds = _cpu_seconds(command, folder)
                if round_:
                    taken[name].append(seconds)
    medians = {name: statistics.median(times) for name, times in taken.items()}
    bare = medians["python -c pass"]
    report(f"python -c pass: {bare * 1000:.1f} ms of CPU")
    ratios = {}
    for name, goal in GOALS.items():
        ratios[name] = medians[name] / bare
        met = "met" if ratios[name] <= goal else "NOT met"
        report(
            f"{name}: {medians[name] * 1000:.0f} ms, {ratios[name]:.1f}x (goal {goal:g}x: {met})"
        )
    return ratios


def _cpu_seconds(command: Sequence[str], folder: str) -> float:
    """CPU time of one run: on a shared machine the wall clock measures the neighbours."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {"PATH": os.environ["PATH"], "HOME": folder, "PYTHONPATH": str(Path.cwd())}
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)

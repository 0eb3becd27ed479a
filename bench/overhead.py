"""P8: fio through hcio against fio alone, on the same file with the same job, turn by turn."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROUNDS = 5
RUNTIME_S = 5
PROFILE = "4k-100r-random"
SIZE = "256MiB"


def run(report: Callable[[str], None]) -> float:
    """IOPS of both, alternating; the ratio of the medians, and the spread of either alone."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        ours: list[float] = []
        alone: list[float] = []
        job = _warm(Path(folder))
        for _ in range(ROUNDS):
            ours.append(_through_hcio(Path(folder)))
            alone.append(_fio_alone(Path(folder), job))
    ratio = statistics.median(ours) / statistics.median(alone)
    for name, figures in (("through hcio", ours), ("fio alone", alone)):
        shown = ", ".join(f"{figure:.0f}" for figure in figures)
        report(f"{name}: {shown} IOPS; median {statistics.median(figures):.0f}")
    noise = (max(alone) - min(alone)) / statistics.median(alone)
    within = abs(ratio - 1) <= noise
    report(
        f"ratio {ratio:.3f}; fio alone varies by {noise:.1%} (goal: within noise: "
        f"{'met' if within else 'NOT met'})"
    )
    return ratio


def _warm(folder: Path) -> str:
    """One run through hcio, which makes and fills the file; returns its job file."""
    _through_hcio(folder)
    (job,) = (folder / "runs" / "latest").resolve().glob("raw/*random/local/job.fio")
    return job.read_text()


def _through_hcio(folder: Path) -> float:
    words = ["run", PROFILE, "--local", "--target", str(folder / "target"), "--size", SIZE]
    sets = ["--set", f"runtime={RUNTIME_S}", "--set", "ramp=1", "--keep", "--json"]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "HCIO_WORK_DIR": str(folder / "work"),
        "PYTHONPATH": str(Path.cwd()),
    }
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", *words, *sets],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return float(json.loads(done.stdout)["cases"][0]["total"]["read"]["iops"])


def _fio_alone(folder: Path, job: str) -> float:
    (folder / "job.fio").write_text(job)
    done = subprocess.run(
        ["fio", "--output-format=json", "job.fio"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    document = json.loads(done.stdout[done.stdout.index("{") :])
    return float(sum(entry["read"]["iops"] for entry in document["jobs"]))

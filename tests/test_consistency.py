"""Figures of one output that contradict each other are found; recorded outputs have none."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.analysis import merge_files
from orchestrator.consistency import contradictions
from orchestrator.errors import UnreadableOutput
from orchestrator.fio_output import parse_fio_output
from orchestrator.measured import Direction, Job, Latency

DATA = Path(__file__).parent / "data"
REAL = DATA / "truth" / "mild" / "w1.json"
RECORDED = sorted(
    path
    for folder in ("cases", "truth", "hcibench")
    for path in (DATA / folder).rglob("*.json")
    if path.name not in ("expected.json", "truth.json")
)


@pytest.fixture(scope="module")
def job() -> Job:
    """One real job with histograms."""
    return parse_fio_output(REAL.read_bytes(), "w1").jobs[0]


def test_recorded_outputs_agree_with_themselves() -> None:
    """fio 2.20 to 3.33, json and json+, short runs and grouped ones: nothing is found."""
    seen = 0
    for path in RECORDED:
        try:
            output = parse_fio_output(path.read_bytes(), path.name)
        except UnreadableOutput:
            continue
        seen += 1
        found = [text for one in output.jobs for text in contradictions(one)]
        assert found == [], path
    assert seen > 30


def _read(job: Job) -> Direction:
    assert job.read is not None
    return job.read


def _lat(job: Job) -> Latency:
    latency = _read(job).lat or _read(job).clat
    assert latency is not None
    return latency


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"iops": 1.0}, "iops is 1"),
        ({"bytes_per_s": 1.0}, "bytes_per_s is 1"),
        ({"runtime_ms": 1.0}, "iops is"),
        ({"runtime_ms": 0.0}, "in no time"),
        ({"bytes": 0, "bytes_per_s": 0.0}, "of no bytes"),
        ({"ios": 1, "iops": None}, "samples of 1 I/Os"),
    ],
)
def test_rates_that_contradict(job: Job, changes: dict[str, float], said: str) -> None:
    """A rate, an amount or a runtime that was changed alone no longer fits the others."""
    many = replace(_lat(job), count=10**6)
    changed = replace(job, read=replace(_read(job), **{"lat": many, "clat": None, **changes}))
    assert any(said in text for text in contradictions(changed))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mean": 1.0}, "mean 1 ns outside"),
        ({"stddev": 1e15}, "deviation"),
        ({"max": 10**12}, "max 1000000000000 ns, but"),
        ({"min": 0}, "min 0 ns, but"),
        ({"histogram": None, "printed": {50.0: 900, 99.0: 100}}, "fall as the percent rises"),
        ({"histogram": None, "printed": {99.0: 10**15}}, "outside of"),
    ],
)
def test_latencies_that_contradict(job: Job, changes: dict[str, object], said: str) -> None:
    """Extremes, mean, deviation, percentiles and histogram have to fit together."""
    latency = replace(_lat(job), **changes)
    changed = replace(job, read=replace(_read(job), lat=latency, clat=None))
    assert any(said in text for text in contradictions(changed))


def test_mean_is_held_against_the_histogram(job: Job) -> None:
    """A mean 5 % off its histogram is found, though it lies between the extremes."""
    latency = _lat(job)
    latency = replace(latency, mean=(latency.mean or 0) * 1.05)
    changed = replace(job, read=replace(_read(job), lat=latency, clat=None))
    assert any("by its histogram" in text for text in contradictions(changed))


def test_a_contradiction_makes_the_case_invalid() -> None:
    """One digit changed in a real output: the figures are invalid and the check is named."""
    data = REAL.read_bytes()
    place = data.index(b'"iops" : ') + 9
    changed = data[:place] + b"9" + data[place:]
    verdict = merge_files([("w1", changed)]).cases[0].verdict
    assert verdict.value == "invalid"
    assert "figures-disagree" in {reason.code for reason in verdict.reasons}

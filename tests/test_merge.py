"""Adding up: the truth data, order, weights, and what must not be mixed."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.fio_output import parse_fio_output
from orchestrator.histogram import Histogram
from orchestrator.measured import Direction, Job, Latency
from orchestrator.merge import finish, merge_jobs
from orchestrator.results import DirectionResult, LatencyResult, TotalResult
from orchestrator.sums import Sum

DATA = Path(__file__).parent / "data"
CASES = DATA / "cases"


def merged(paths: list[Path]) -> TotalResult:
    total = Sum()
    for path in paths:
        total.add_worker(merge_jobs(parse_fio_output(path.read_bytes(), path.name).jobs)[0])
    return finish([total], whole=True)[0]


def side(total: TotalResult, name: str) -> DirectionResult:
    found = getattr(total, name)
    assert isinstance(found, DirectionResult)
    return found


def latency(total: TotalResult, name: str = "read") -> LatencyResult:
    found = side(total, name).latency_ns
    assert found is not None
    return found


def expected(case: str) -> dict[str, Any]:
    return json.loads((CASES / case / "expected.json").read_text())


@pytest.mark.parametrize("name", ["mild", "skewed"])
@pytest.mark.parametrize("direction", ["read", "write"])
def test_percentiles_are_those_of_every_single_io(name: str, direction: str) -> None:
    """Against the raw log of every I/O: percentiles within 0.8 %; count, min and max exact."""
    truth = json.loads((DATA / "truth" / name / "truth.json").read_text())[direction]
    found = latency(merged(sorted((DATA / "truth" / name).glob("w*.json"))), direction)
    assert found.kind == "lat"
    assert (found.count, found.min, found.max) == (
        truth["count"],
        truth["min_ns"],
        truth["max_ns"],
    )
    assert found.mean == pytest.approx(truth["mean_ns"], rel=1e-6)
    for key, value in truth["percentile_ns"].items():
        assert found.percentiles[f"{float(key):g}"] == pytest.approx(value, rel=0.008), key


def test_case_22_fast_and_slow_workers_are_weighted() -> None:
    """Bins are added, the mean is weighted by count, and nothing is averaged."""
    want = expected("22-merge-fast-and-slow-vm")
    total = merged(sorted((CASES / "22-merge-fast-and-slow-vm").glob("vm*.json")))
    found = latency(total)
    assert found.count == want["N"]
    assert found.max == want["max_ns"]
    assert found.mean == pytest.approx(want["mean_ns_weighted"])
    assert side(total, "read").iops == pytest.approx(want["read_iops"])
    assert {key: found.percentiles[key] for key in want["merged"]} == want["merged"]


def test_case_10_kinds_are_merged_apart_and_say_what_they_cover() -> None:
    """lat comes from two of three workers, clat from two others, never one number over all."""
    want = expected("10-lat-or-clat-percentiles")
    total = merged(sorted((CASES / "10-lat-or-clat-percentiles").glob("vm*.json")))
    head, other = side(total, "read").latency_ns, side(total, "read").other_latency_ns
    assert head is not None
    assert other is not None
    assert (head.kind, head.workers, head.count) == ("lat", 2, 4001)
    assert (other.kind, other.workers, other.count) == ("clat", 2, 4001)
    assert head.percentiles["99"] == want["merged_lat_p99_vm2_vm3"]
    assert other.percentiles["99"] == want["merged_clat_p99_vm1_vm3"]
    assert "2 of 3 workers" in (head.note or "")


def test_case_11_entries_of_one_name_are_one_job() -> None:
    """IOPS are summed over the entries, not taken from the best one."""
    want = expected("11-ungrouped-numjobs")
    output = parse_fio_output((CASES / "11-ungrouped-numjobs/four-entries.json").read_bytes(), "w")
    _, jobs, total = merge_jobs(output.jobs)
    assert list(jobs) == ["vmjob"]
    assert jobs["vmjob"].entries == 4
    assert side(total, "read").iops == pytest.approx(want["read_iops"])
    assert side(total, "read").ios == want["total_ios"]
    found = latency(total)
    assert found.mean == pytest.approx(want["clat_mean_ns"])
    assert (found.percentiles["99"], found.percentiles["99.9"]) == (
        want["p99_ns"],
        want["p999_ns"],
    )


def test_case_14_the_rate_is_total_over_runtime() -> None:
    """Separate jobs' rates are summed as fio states them."""
    path = CASES / "14-sampled-mean-or-total" / "uneven-separate.json"
    want = expected("14-sampled-mean-or-total")["separate_sum_of_iops"]
    assert side(merged([path]), "read").iops == pytest.approx(want)


def test_percentiles_of_plain_json_are_never_averaged() -> None:
    """One plain json job keeps fio's percentiles; two have none, and the result says why."""
    path = CASES / "06-no-samples" / "read-only.json"
    assert latency(merged([path])).percentiles["99"] == 788
    two = latency(merged([path, path]))
    assert set(two.percentiles.values()) == {None}
    assert "plain json" in (two.note or "")
    assert two.count == 4000


def test_sync_is_never_part_of_write() -> None:
    """Flush latency adds up apart (case 19)."""
    path = CASES / "19-sync-latency" / "fdatasync.json"
    total = merged([path, path])
    assert total.sync is not None
    assert (total.sync.kind, total.sync.count) == ("sync", 910)
    assert latency(total, "write").count == 910
    assert latency(total, "write").max == 380869


def job(name: str, ns: list[int], kind: str = "lat") -> Job:
    """A job with the given latencies, each I/O 4 KiB, in one second."""
    found = Latency(
        len(ns),
        min(ns),
        max(ns),
        statistics.fmean(ns),
        statistics.stdev(ns) if len(ns) > 1 else 0.0,
        {},
        Histogram.of_samples(ns),
    )
    read = Direction(
        ios=len(ns),
        bytes=4096 * len(ns),
        iops=float(len(ns)),
        bytes_per_s=4096.0 * len(ns),
        runtime_ms=1000.0,
        lat=found if kind == "lat" else None,
        clat=found if kind == "clat" else None,
    )
    return Job(name=name, host=None, error=0, options={}, read=read, write=None, trim=None)


samples = st.lists(st.integers(1, 10**9), min_size=1, max_size=40)


@settings(deadline=None)
@given(st.lists(st.lists(samples, min_size=1, max_size=3), min_size=1, max_size=5))
def test_a_merge_is_the_statistics_of_all_samples(workers: list[list[list[int]]]) -> None:
    """Counts, extremes, mean and deviation are those of all samples thrown together."""
    total = Sum()
    for worker in workers:
        total.add_worker(merge_jobs([job(f"j{n}", ns) for n, ns in enumerate(worker)])[0])
    everything = [value for worker in workers for ns in worker for value in ns]
    found = latency(finish([total], whole=True)[0])
    assert (found.count, found.min, found.max) == (
        len(everything),
        min(everything),
        max(everything),
    )
    assert found.mean == pytest.approx(statistics.fmean(everything))
    deviation = statistics.stdev(everything) if len(everything) > 1 else 0.0
    assert found.stddev == pytest.approx(deviation, rel=1e-6, abs=1e-3)
    assert Histogram.of(found.bins or {}) == Histogram.of_samples(everything)


@settings(deadline=None)
@given(st.lists(samples, min_size=2, max_size=6), st.randoms())
def test_the_order_of_workers_does_not_matter(workers: list[list[int]], chance: Any) -> None:
    """Any order gives the same counts and percentiles, and the same mean to rounding."""
    shuffled = list(workers)
    chance.shuffle(shuffled)
    found = []
    for order in (workers, shuffled):
        total = Sum()
        for ns in order:
            total.add_worker(merge_jobs([job("j", ns)])[0])
        found.append(latency(finish([total], whole=True)[0]))
    assert found[0].percentiles == found[1].percentiles
    assert found[0].bins == found[1].bins
    assert math.isclose(found[0].mean or 0, found[1].mean or 0, rel_tol=1e-9)


def test_many_workers_are_added_in_steps() -> None:
    """More histograms than wait at once still add up exactly."""
    total = Sum()
    for number in range(300):
        total.add_worker(merge_jobs([job("j", [number + 1, 5000])])[0])
    found = latency(finish([total], whole=True)[0])
    assert found.count == sum((found.bins or {}).values()) == 600
    assert found.workers == 300


def test_an_unknown_rate_makes_the_sum_unknown() -> None:
    """None is not 0: a sum with an unknown part is unknown."""
    known, unknown = job("a", [10]), job("b", [10])
    assert unknown.read is not None
    unknown = replace(unknown, read=replace(unknown.read, iops=None))
    found = side(merge_jobs([known, unknown])[2], "read")
    assert found.iops is None
    assert found.ios == 2

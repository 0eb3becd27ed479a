"""Metrics: names, directions of good, and values that are never made up."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.analysis import merge_files
from orchestrator.errors import ConfigError
from orchestrator.metrics import METRICS, Metric, parse_metric, show_value
from orchestrator.repeats import group_repeats, repeat_id, split_repeat
from orchestrator.results import CaseResult, TotalResult

TRUTH = Path(__file__).parent / "data" / "truth" / "mild"


@pytest.fixture(scope="module")
def merged() -> CaseResult:
    """Four real workers, merged."""
    files = sorted(TRUTH.glob("w*.json"))
    return merge_files((path.stem, path.read_bytes()) for path in files).cases[0]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("iops", "iops"),
        ("total.iops", "iops"),
        ("read.latency.p99", "read.latency.p99"),
        ("read.p99", "read.latency.p99"),
        ("READ.P99.9", "read.latency.p99.9"),
        ("write.lat.p99.90", "write.latency.p99.9"),
        ("throughput", "bytes_per_s"),
        ("p50", "latency.p50"),
        ("write.latency", "write.latency.mean"),
    ],
)
def test_names(text: str, name: str) -> None:
    """A metric can be written short; it has one name."""
    assert parse_metric(text).name == name


@pytest.mark.parametrize("text", ["", "iopss", "read", "read.p100", "read.p0", "a.b.c", "read..x"])
def test_unknown_names_are_refused(text: str) -> None:
    """What is no metric is an error that lists what there is."""
    with pytest.raises(ConfigError, match="not a metric"):
        parse_metric(text)


def test_a_slip_is_answered_with_the_nearest_name() -> None:
    """`read.iopss` is answered with `read.iops`."""
    with pytest.raises(ConfigError, match=r"did you mean 'read\.iops'"):
        parse_metric("read.iopss")


def test_every_metric_parses_back() -> None:
    """A metric's own name gives the metric."""
    assert [parse_metric(metric.name) for metric in METRICS] == list(METRICS)


def test_values_of_a_merged_case(merged: CaseResult) -> None:
    """Values are those of the result; the whole is the sum of its directions."""
    total = merged.total
    assert total is not None
    assert total.read is not None
    assert total.read.latency_ns is not None
    assert parse_metric("read.iops").value(total) == total.read.iops
    assert parse_metric("read.p99").value(total) == total.read.latency_ns.percentiles["99"]
    parts = [part.iops or 0.0 for part in (total.read, total.write) if part is not None]
    assert parse_metric("iops").value(total) == pytest.approx(sum(parts))


def test_a_percentile_that_results_dont_list_comes_from_the_bins(merged: CaseResult) -> None:
    """p75 lies between p50 and p90; without bins it isn't known."""
    total = merged.total
    assert total is not None
    assert total.read is not None
    assert total.read.latency_ns is not None
    found = parse_metric("read.p75").value(total)
    known = total.read.latency_ns.percentiles
    assert found is not None
    assert (known["50"] or 0) <= found <= (known["90"] or 0)
    bare = replace(total.read, latency_ns=replace(total.read.latency_ns, bins=None))
    assert parse_metric("read.p75").value(replace(total, read=bare)) is None


def test_latency_of_all_needs_histograms_of_one_kind(merged: CaseResult) -> None:
    """Reads and writes together: between both from their bins, None for two kinds."""
    total = merged.total
    assert total is not None
    assert total.read is not None
    assert total.read.latency_ns is not None
    other = replace(total.read.latency_ns, kind="clat")
    both = TotalResult(read=total.read, write=total.read)
    assert parse_metric("p99").value(both) == parse_metric("read.p99").value(total)
    assert parse_metric("latency.mean").value(both) == pytest.approx(total.read.latency_ns.mean)
    mixed = TotalResult(read=total.read, write=replace(total.read, latency_ns=other))
    assert parse_metric("p99").value(mixed) is None


def test_nothing_known_is_none() -> None:
    """No total, no direction, no figure: None."""
    for metric in METRICS:
        assert metric.value(None) is None
        assert metric.value(TotalResult()) is None


def test_direction_of_good() -> None:
    """More I/O is better, more latency is worse."""
    assert Metric("read", "iops").higher_is_better
    assert not Metric("read", "p99").higher_is_better


def test_figures_for_people() -> None:
    """The unit that fits, never MiB under the name MB."""
    assert show_value(30584.21, "IOPS") == "30,584"
    assert show_value(119e6, "B/s") == "119.00 MB/s"
    assert show_value(7.83e6, "ns") == "7.830 ms"
    assert show_value(None, "ns") == "-"


def test_repeats_are_named_and_grouped(merged: CaseResult) -> None:
    """A repeat's id splits back, and repeats come together under their case."""
    assert split_repeat(repeat_id("4k.iodepth=8", 3)) == ("4k.iodepth=8", 3)
    assert split_repeat("4k.repeat=x") == ("4k.repeat=x", None)
    cases = [replace(merged, case=name) for name in ("a.repeat=1", "b", "a.repeat=2")]
    assert {k: len(v) for k, v in group_repeats(cases).items()} == {"a": 2, "b": 1}

"""The hosts' count of a case's I/O, from what the platform's attendant said."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.hostcounters import host_counters

WHOLE = {
    "iopsRead": {"mean": 900.0, "note": None},
    "iopsWrite": {"mean": 100.0, "note": None},
    "throughputRead": {"mean": 4e6, "note": None},
    "throughputWrite": {"mean": 0.0, "note": None},
}


def said(labels: dict[str, Any], entity: str = "cluster-domclient:52-a") -> dict[str, Any]:
    """An attendant's document with one entity."""
    return {"platform": {"figures": {entity: labels, "host-domclient:1": WHOLE}}}


def test_both_directions_are_added() -> None:
    """The cluster's guests, reads and writes."""
    found = host_counters(said(WHOLE))
    assert found is not None
    assert (found.iops, found.bytes_per_s) == (1000.0, 4e6)


@pytest.mark.parametrize(
    "platform",
    [
        {},
        {"platform": {"warnings": ["nobody watched"]}},
        said(WHOLE, entity="host-domclient:2"),
        said({name: {"mean": None, "note": "not available"} for name in WHOLE}),
        said({name: {"mean": 1.0, "note": "1 of 3 samples"} for name in WHOLE}),
    ],
)
def test_nothing_is_said_without_whole_figures(platform: dict[str, Any]) -> None:
    """No watch, no cluster, a window shorter than a sample, a gap: not known, not 0."""
    assert host_counters(platform) is None


def test_one_figure_may_stand_alone() -> None:
    """A gap in the throughput leaves the IOPS known."""
    labels = WHOLE | {"throughputRead": {"mean": 1.0, "note": "1 of 3 samples"}}
    found = host_counters(said(labels))
    assert found is not None
    assert (found.iops, found.bytes_per_s) == (1000.0, None)

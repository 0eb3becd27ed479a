"""vSAN's performance figures: comma-separated samples of five minutes as series. Pure.

Latencies come in microseconds, throughput in bytes/s (vSAN's API reference, VsanPerfEntityType).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from orchestrator.counters import MISSING_SAMPLE, Series

#: What is read: the I/O that guests see, of the cluster and of each host.
ENTITIES: Final = ("cluster-domclient", "host-domclient")
#: Labels that are kept, and their units.
UNITS: Final[Mapping[str, str]] = {
    "iopsRead": "iops",
    "iopsWrite": "iops",
    "throughputRead": "bytes/s",
    "throughputWrite": "bytes/s",
    "latencyAvgRead": "us",
    "latencyAvgWrite": "us",
    "congestion": "congestion",
    "oio": "I/Os",
}
#: Seconds of a sample unless its stamps say otherwise.
INTERVAL: Final = 300


def parse_figures(entity: str, sample_info: str, values: Mapping[str, str]) -> Iterator[Series]:
    """One entity's figures as series; an empty or unreadable number is a gap."""
    stamps = [_stamp(text) for text in sample_info.split(",") if text.strip()]
    steps = [later - earlier for earlier, later in pairwise(stamps)]
    interval = int(min(steps, default=INTERVAL)) or INTERVAL
    for label, text in values.items():
        if label in UNITS:
            numbers = [_number(part) for part in text.split(",")]
            samples = tuple(zip(stamps, numbers, strict=False))
            yield Series(entity, label, UNITS[label], "average", interval, samples)


def _stamp(text: str) -> float:
    """Seconds since the epoch of `2026-11-30 22:05:00`, which is UTC."""
    return datetime.fromisoformat(text.strip()).replace(tzinfo=UTC).timestamp()


def _number(text: str) -> int:
    try:
        return round(float(text))
    except ValueError:
        return MISSING_SAMPLE

"""fio says each thing several times: figures of one output that contradict each other are damage.

`iops` is `total_ios` over the runtime, `bw_bytes` is `io_bytes` over it (fio's stat.c); a mean lies
between the extremes and near that of its histogram; a deviation is at most what they allow.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Final

from orchestrator.histogram import LAST_VALUE
from orchestrator.measured import Direction, Job, Latency

#: fio works rates out from the runtime that it prints; 2.x and early 3.x round to 1 KiB/s, 1 IOPS.
_RATE_SHARE: Final = 0.005
_RATE_STEPS: Final = {"iops": 1.0, "bytes_per_s": 1024.0}
#: Half a bin is 0.8 % of its value; coarse units are 1 us.
_BIN_SHARE: Final = 0.016
_COARSE_NS: Final = 1000.0
#: I/Os in flight at the ramp's end are counted in one place and not in the other.
_IN_FLIGHT: Final = 65_536


def contradictions(job: Job) -> Iterator[str]:
    """What one job's figures say against each other, in words; nothing when they agree."""
    for name, direction in job.directions().items():
        for text in _rates(direction) + _latencies(direction):
            yield f"job {job.key!r}: {name}: {text}"


def _rates(direction: Direction) -> list[str]:
    if not direction.runtime_ms:
        if direction.ios and direction.iops:
            return [f"{direction.ios} I/Os in no time"]
        return []
    found = []
    seconds = direction.runtime_ms / 1000
    for amount, rate, label in (
        (direction.ios, direction.iops, "iops"),
        (direction.bytes, direction.bytes_per_s, "bytes_per_s"),
    ):
        if amount is None or rate is None:
            continue
        expected = amount / seconds
        if abs(expected - rate) > _RATE_SHARE * expected + _RATE_STEPS[label]:
            found.append(f"{label} is {rate:.6g}, but {amount} in {seconds:g} s are {expected:.6g}")
    if direction.ios and direction.bytes == 0:
        found.append(f"{direction.ios} I/Os of no bytes")
    return found


def _latencies(direction: Direction) -> list[str]:
    found = []
    for kind, latency in (("lat", direction.lat), ("clat", direction.clat)):
        if latency is None:
            continue
        if direction.ios is not None and latency.count > 2 * direction.ios + _IN_FLIGHT:
            found.append(f"{latency.count} {kind} samples of {direction.ios} I/Os")
        texts = _moments(latency) + _histogram(latency) + _printed(latency)
        found += [f"{kind} {text}" for text in texts]
    return found


def _moments(latency: Latency) -> list[str]:
    low, high, mean = latency.min, latency.max, latency.mean
    if low is None or high is None or mean is None:
        return []
    if not low - _COARSE_NS <= mean <= high + _COARSE_NS:
        return [f"mean {mean:.6g} ns outside of {low} to {high} ns"]
    if latency.stddev is None or latency.count < 2:
        return []
    # Bhatia and Davis (2000): no deviation is larger; n / (n - 1) for the sample's.
    bound = max(0.0, (mean - low) * (high - mean)) * latency.count / (latency.count - 1)
    if latency.stddev > 1.01 * math.sqrt(bound) + _COARSE_NS:
        return [f"deviation {latency.stddev:.6g} ns is more than {low} to {high} ns allow"]
    return []


def _histogram(latency: Latency) -> list[str]:
    histogram = latency.histogram
    if histogram is None or latency.mean is None or not histogram.count:
        return []
    first, last = histogram.ends()
    # What is beyond the last bin (17 s) is counted in it.
    if last == LAST_VALUE:
        return []
    found = []
    mean = histogram.mean
    if abs(mean - latency.mean) > _BIN_SHARE * mean + 1:
        found.append(f"mean {latency.mean:.6g} ns, but {mean:.6g} ns by its histogram")
    for name, value, end in (("min", latency.min, first), ("max", latency.max, last)):
        if value is not None and abs(value - end) > _BIN_SHARE * end + 1:
            found.append(f"{name} {value} ns, but {end:.6g} ns by its histogram")
    return found


def _printed(latency: Latency) -> list[str]:
    if not latency.printed:
        return []
    found = []
    values = [value for _, value in sorted(latency.printed.items())]
    if any(after < before for before, after in itertools.pairwise(values)):
        found.append("percentiles that fall as the percent rises")
    low, high = latency.min, latency.max
    for value in (values[0], values[-1]):
        slack = _BIN_SHARE * value + _COARSE_NS
        if low is not None and high is not None and not low - slack <= value <= high + slack:
            found.append(f"percentile of {value} ns outside of {low} to {high} ns")
    return found

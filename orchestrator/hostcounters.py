"""The hosts' own count of a case's I/O, from what the platform's attendant said of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from orchestrator.casefacts import HostCounters

#: vSAN's entity for the I/O of all guests of the cluster.
CLUSTER: Final = "cluster-domclient"
_IOPS: Final = ("iopsRead", "iopsWrite")
_BYTES: Final = ("throughputRead", "throughputWrite")


def host_counters(platform: Mapping[str, Any]) -> HostCounters | None:
    """Means over the measured window; None without figures of the whole of it.

    vSAN's samples are of five minutes: a shorter case has none that lies inside it.
    """
    document = platform.get("platform")
    figures = document.get("figures") if isinstance(document, Mapping) else None
    found = [labels for entity, labels in (figures or {}).items() if entity.startswith(CLUSTER)]
    if len(found) != 1:
        return None
    iops, size = _sum(found[0], _IOPS), _sum(found[0], _BYTES)
    if iops is None and size is None:
        return None
    return HostCounters(source="vSAN's count of all guests", iops=iops, bytes_per_s=size)


def _sum(labels: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    """Both directions, None unless each is known without a gap."""
    cells = [labels.get(name) for name in names]
    means = [cell.get("mean") for cell in cells if cell is not None and cell.get("note") is None]
    known = [float(mean) for mean in means if mean is not None]
    return sum(known) if len(known) == len(names) else None

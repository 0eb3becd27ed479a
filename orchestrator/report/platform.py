"""What the platform did during a case, as text: the table of hosts, and what happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from orchestrator.counters import NOT_AVAILABLE, Average, Usage
from orchestrator.events import PlatformEvent

#: Of a name, as the table's head has it.
_HEADS: Final[Mapping[str, str]] = {
    "cpu.usage.average": "cpu.usage",
    "cpu.utilization.average": "cpu.utilization",
    "mem.usage.average": "mem.usage",
}
#: Events that a report lists; a storm of them is counted.
SHOWN_EVENTS: Final = 20


def render_usage(usage: Usage) -> str:
    """Resource usage of each host over the measured window, percent, and the mean over hosts.

    A mean over fewer hosts than there are says over how many.
    """
    names = list(usage.average)
    rows = [["host", *(_HEADS.get(name, name) for name in names)]]
    for host, cells in usage.hosts.items():
        rows.append([host, *(_cell(cells[name]) for name in names)])
    rows.append(["average", *(_mean(usage, name) for name in names)])
    lines = _table(rows)
    lines += [f"  {warning}" for warning in usage.warnings]
    return "\n".join(lines) + "\n"


def render_figures(figures: Mapping[str, Mapping[str, Average]]) -> str:
    """vSAN's own figures over the measured window, one entity a line block."""
    rows = [["entity", "figure", "mean", "unit", "samples"]]
    for entity, labels in sorted(figures.items()):
        for label, average in sorted(labels.items()):
            mean = NOT_AVAILABLE if average.mean is None else f"{average.mean:,.1f}"
            samples = f"{average.used}/{average.expected}"
            rows.append([entity, label, mean, average.unit, samples])
    return "\n".join(_table(rows)) + "\n" if len(rows) > 1 else ""


def render_events(events: Sequence[PlatformEvent]) -> str:
    """The platform's events in order, UTC, the first ones of many."""
    lines = [
        f"{_clock(event.instant)}  {event.kind:<12} "
        + " ".join(part for part in (event.machine, event.host) if part)
        + f"  {event.text or event.type}"
        for event in events[:SHOWN_EVENTS]
    ]
    if len(events) > SHOWN_EVENTS:
        lines.append(f"and {len(events) - SHOWN_EVENTS} more")
    return "\n".join(lines) + "\n" if lines else ""


def render_ground(provenance: Mapping[str, Any]) -> str:
    """What the run stood on: vCenter, cluster, vSAN, policies; empty without vSphere."""
    facts = provenance.get("platform")
    if not facts:
        return ""
    vcenter, vsan = facts["vcenter"], facts.get("vsan")
    lines = [f"Cluster {facts['cluster']} of vCenter {vcenter['host']} {vcenter['version']}."]
    if vcenter["insecure"]:
        lines.append("The vCenter's certificate was NOT checked (insecure: true).")
    if vsan:
        lines.append(f"vSAN {vsan['architecture'].upper()}: {', '.join(_vsan_words(vsan))}.")
    policy = provenance.get("conditions", {}).get("storage policy")
    if policy:
        lines.append(f"Storage policy of the workers' disks: {policy}.")
    workers = provenance.get("workers", {})
    moved = [
        f"{name} from {worker['host_start']} to {worker['host_end']}"
        for name, worker in workers.items()
        if worker.get("host_end") not in (None, worker.get("host_start"))
    ]
    if moved:
        lines.append(f"Moved during the run: {', '.join(moved)}.")
    return "\n".join(lines) + "\n"


def _vsan_words(vsan: Mapping[str, Any]) -> Iterator[str]:
    yield f"{vsan['hosts']} hosts"
    if vsan.get("disk_groups") is not None:
        yield f"{vsan['disk_groups']} disk groups"
    for name in ("dedupe", "compression", "encryption_at_rest", "encryption_in_transit"):
        word = {True: "on", False: "off", None: "unknown"}[vsan.get(name)]
        yield f"{name.replace('_', ' ')} {word}"


class _Watched(msgspec.Struct):
    """The platform attendant's document, as far as it is shown."""

    usage: Usage | None = None
    figures: Mapping[str, Mapping[str, Average]] = {}
    events: tuple[PlatformEvent, ...] = ()
    vsan_before: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()


def render_case_platform(documents: Mapping[str, Any]) -> str:
    """What the attendants of a case say: the cache, hosts' usage, vSAN's figures, events."""
    parts = [_cache_line(documents["cache"])] if "cache" in documents else []
    if "platform" in documents:
        watched = msgspec.convert(documents["platform"], _Watched)
        if watched.usage is not None:
            parts.append(render_usage(watched.usage))
        parts.append(render_figures(watched.figures))
        parts.append(_health_line(watched.vsan_before))
        parts.append(render_events(watched.events))
        parts += [f"warning: {warning}\n" for warning in watched.warnings]
    return "".join(parts)


def _cache_line(document: Mapping[str, Any]) -> str:
    words = {True: "cleared before the case", False: "NOT cleared", None: "nothing to clear"}
    why = document.get("why") or document.get("how") or "unknown"
    return f"cache: {words[document.get('done')]}: {why}\n"


def _health_line(state: Mapping[str, Any] | None) -> str:
    if state is None or state.get("health") == "green":
        return ""
    failing = ", ".join(f"{name} {light}" for name, light in state.get("failing", {}).items())
    return f"vSAN health {state.get('health')} before the case: {failing or 'no test named'}\n"


def _clock(instant: float) -> str:
    return datetime.fromtimestamp(instant, UTC).strftime("%H:%M:%S")


def _cell(average: Average) -> str:
    if average.mean is None:
        return NOT_AVAILABLE
    return f"{average.mean:.2f} %" if average.unit == "percent" else f"{average.mean:.2f}"


def _mean(usage: Usage, name: str) -> str:
    mean = usage.average[name]
    if mean is None:
        return NOT_AVAILABLE
    known = sum(cells[name].mean is not None for cells in usage.hosts.values())
    over = "" if known == len(usage.hosts) else f" ({known} of {len(usage.hosts)})"
    unit = next((c[name].unit for c in usage.hosts.values() if c[name].mean is not None), "")
    return f"{mean:.2f}{' %' if unit == 'percent' else ''}{over}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]

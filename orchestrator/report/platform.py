"""What the platform did during a case, as text: the table of hosts, and what happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

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

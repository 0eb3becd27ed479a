"""The spread of repeated cases, one line a metric."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.metrics import parse_metric, show_value
from orchestrator.repetition import Reached, Spread


def render_gates(gates: Sequence[Reached]) -> str:
    """Two lines a case: whether its repeats were enough, and by what; empty without a gate."""
    words = {True: "narrow enough", False: "not as narrow as asked"}
    lines = [
        f"{gate.case}: {gate.metric} is {words[gate.reached]}\n  {gate.text}" for gate in gates
    ]
    return "\n".join(lines) + ("\n" if lines else "")


def render_spreads(spreads: Sequence[Spread]) -> str:
    """A block a case: mean, half width, deviation and how many repeats; empty without any."""
    lines: list[str] = []
    case = ""
    for spread in spreads:
        if spread.case != case:
            case = spread.case
            lines.append(f"{case}: over its repeats, {spread.summary.confidence:.0%} interval")
        lines.append(f"  {spread.metric:<20} {_figures(spread)}")
    return "\n".join(lines) + ("\n" if lines else "")


def _figures(spread: Spread) -> str:
    unit, summary = parse_metric(spread.metric).unit, spread.summary
    text = f"{show_value(summary.mean, unit):>14}"
    if summary.half_width is not None:
        share = "" if summary.relative is None else f" ({summary.relative:.1%})"
        text += f" ± {show_value(summary.half_width, unit, summary.mean)}{share}"
    lacking = f", {spread.lacking} without this figure" if spread.lacking else ""
    return f"{text}  of {summary.count} runs{lacking}"

"""A search's answer and its whole curve, load against latency, for people and programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from orchestrator.metrics import show_value
from orchestrator.search import Ending, Finished, Measured, Settings, keeps

_NEXT: Final[Mapping[Ending, str]] = {
    "never met": "loosen the objective, or begin below with --least where that is above 1",
    "not confirmed": "short probes kept it and full-length runs didn't: make the probes longer "
    "(--probe), or allow more of them (--probes)",
    "could not tell": "a figure of the objective isn't known: a high percentile needs more I/Os, "
    "so longer probes (--probe); failed or invalid cases have their reasons in --json",
    "not finished": "`hcio resume` goes on with it",
}


def render_search(finished: Finished, settings: Settings) -> str:
    """The answer in a line, what was odd, what to do next, and the curve."""
    lines = [_answer(finished, settings), *(f"note: {note}" for note in finished.notes)]
    if finished.ending in _NEXT:
        lines.append(f"next: {_NEXT[finished.ending]}")
    return "\n".join([*lines, "", *_curve(finished.curve, settings)]) + "\n"


def full_length_cases(finished: Finished) -> frozenset[str]:
    """The cases that ran at the profile's full length: what the answer rests on."""
    return frozenset(probe.case for probe in finished.curve if probe.full and probe.case)


def search_document(finished: Finished, settings: Settings) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "schema": 1,
        "settings": msgspec.to_builtins(settings),
        **msgspec.to_builtins(finished),
    }


def _answer(finished: Finished, settings: Settings) -> str:
    asked = " and ".join(
        f"{o.metric.name} {'<=' if o.most else '>='} {show_value(o.limit, o.metric.unit)}"
        for o in settings.objectives
    )
    best = finished.best
    if best is None:
        return f"{finished.ending}: {asked}"
    found = f"{show_value(best.iops, 'IOPS')} IOPS at {_load(best, settings)}"
    doubt = "" if best.verdict in (None, "valid") else f" whose verdict is {best.verdict}"
    return f"{found}, within {asked}, confirmed by a full-length run{doubt}"


def _load(probe: Measured, settings: Settings) -> str:
    return "no limit" if probe.load is None else f"{settings.axis} {probe.load:,.0f}"


def _curve(curve: Sequence[Measured], settings: Settings) -> list[str]:
    names = [o.metric.name for o in settings.objectives]
    table = [["load", "IOPS", *names, "length", "kept", "verdict"]]
    for probe in curve:
        kept = keeps(probe, settings)
        table.append(
            [
                _load(probe, settings),
                show_value(probe.iops, "IOPS"),
                *(
                    show_value(probe.values.get(o.metric.name), o.metric.unit)
                    for o in settings.objectives
                ),
                "full" if probe.full else "short",
                "unknown" if kept is None else "yes" if kept else "no",
                probe.verdict or "-",
            ]
        )
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    return [
        "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        for row in table
    ]

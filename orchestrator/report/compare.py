"""Comparisons for people, for a review page (Markdown) and for programs (JSON).

What the two sides ran under stands above every figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from orchestrator.compare import CaseComparison, Comparison, Difference, exit_code
from orchestrator.contrast import Row
from orchestrator.metrics import Unit, show_value

_HEAD: Final = ("metric", "baseline", "candidate", "change", "interval", "verdict")
#: An interval wider than this is not worth its digits.
_WIDE: Final = 10.0


def render_comparisons(comparisons: Sequence[Comparison]) -> str:
    """The text report: differences first, then one table a case."""
    return "\n\n".join("\n".join(_text_lines(item)) for item in comparisons) + "\n"


def render_markdown(comparisons: Sequence[Comparison]) -> str:
    """The same as Markdown, one table for all cases of a candidate."""
    return "\n\n".join("\n".join(_markdown_lines(item)) for item in comparisons) + "\n"


def comparisons_document(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """What `--json` prints: changes are shares (0.05 is 5 %), latencies ns."""
    documents = []
    for comparison in comparisons:
        document = msgspec.to_builtins(comparison)
        for case, shown in zip(comparison.cases, document["cases"], strict=True):
            shown["verdict"] = case.verdict
        documents.append(_finite({**document, "verdicts": count_verdicts(comparison)}))
    return {"schema": 1, "exit_code": exit_code(comparisons), "comparisons": documents}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def count_verdicts(comparison: Comparison) -> dict[str, int]:
    """How many figures got each verdict, and how many cases weren't compared."""
    rows = [row.verdict for case in comparison.cases for row in case.rows]
    presences = [case.presence for case in comparison.cases]
    verdicts = {name: rows.count(name) for name in ("better", "worse", "same", "unknown")}
    return verdicts | {name: presences.count(name) for name in ("missing", "new", "refused")}


def _summary(comparison: Comparison) -> str:
    counts = count_verdicts(comparison)
    figures = ", ".join(f"{counts[name]} {name}" for name in ("better", "worse", "same", "unknown"))
    cases = [f"{counts[name]} {name}" for name in ("missing", "new", "refused") if counts[name]]
    return f"figures: {figures}" + (f"; cases: {', '.join(cases)}" if cases else "")


def _by_chance(comparison: Comparison) -> str:
    """How many unchanged cases may be called different; empty where a single one was judged."""
    judged = sum(any(row.low is not None for row in case.rows) for case in comparison.cases)
    if judged < 2:
        return ""
    most = judged * (1 - comparison.confidence)
    return f"of {judged} unchanged cases up to {most:.1f} look different by chance alone"


def _rules(comparison: Comparison) -> str:
    return (
        f"{comparison.confidence:.0%} confidence, changes below {comparison.min_effect:.1%} "
        "don't count"
    )


def _difference_lines(differences: Sequence[Difference]) -> Iterator[str]:
    width = max((len(item.name) for item in differences), default=0)
    for item in differences:
        yield f"  {item.name:<{width}}  {_said(item.baseline)} -> {_said(item.candidate)}"


def _said(value: Any) -> str:
    return "not said" if value is None else str(value)


def _text_lines(comparison: Comparison) -> Iterator[str]:
    yield f"{comparison.baseline} (baseline) against {comparison.candidate} (candidate)"
    yield _rules(comparison)
    if comparison.differences:
        yield "what differs besides the figures:"
        yield from _difference_lines(comparison.differences)
    elif not any(case.differences for case in comparison.cases):
        yield "nothing else is known to differ"
    for case in comparison.cases:
        yield ""
        yield from _case_lines(case)
    yield ""
    yield _summary(comparison)
    if chance := _by_chance(comparison):
        yield chance
    if any(case.presence == "refused" and "workload" in case.words for case in comparison.cases):
        yield "next: run the same workload on both sides; --anyway compares all the same"
    if count_verdicts(comparison)["unknown"]:
        yield "next: repeat what is unknown, and name the repeats of a side together (A1,A2,A3,A4)"


def _case_lines(case: CaseComparison) -> Iterator[str]:
    runs = f"{case.baseline_runs} and {case.candidate_runs} runs"
    yield f"{case.case}  ({runs})" if case.presence == "both" else f"{case.case}: {case.words}"
    if case.differences:
        yield "  what differs here:"
        yield from (f"  {line}" for line in _difference_lines(case.differences))
    yield from (f"  in doubt: {words}" for words in case.doubts)
    if case.rows:
        yield from _table([_HEAD, *(_cells(row) for row in case.rows)])


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD) - 1)]
    for row in rows:
        first, *rest = (
            f"{cell:>{width}}" if column else f"{cell:<{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=False))
        )
        yield f"  {first}  {'  '.join(rest)}  {row[-1]}"


def _cells(row: Row) -> tuple[str, ...]:
    unit = _unit(row)
    verdict = row.verdict + (f": {row.words}" if row.words else "")
    return (
        row.metric,
        show_value(row.baseline, unit),
        show_value(row.candidate, unit),
        "-" if row.change is None else f"{row.change:+.1%}",
        _interval(row),
        verdict,
    )


def _interval(row: Row) -> str:
    if row.low is None or row.high is None:
        return "-"
    high = f"{row.high:+.1%}" if row.high < _WIDE else f"over +{_WIDE:.0%}"
    return f"{row.low:+.1%} .. {high}"


def _unit(row: Row) -> Unit:
    units: dict[str, Unit] = {"IOPS": "IOPS", "B/s": "B/s", "ns": "ns"}
    return units[row.unit]


def _markdown_lines(comparison: Comparison) -> Iterator[str]:
    yield f"### {_cell(comparison.baseline)} against {_cell(comparison.candidate)}"
    yield ""
    if comparison.differences:
        yield from _markdown_differences(comparison.differences)
    for case in comparison.cases:
        if case.differences:
            yield f"Differs in {_cell(case.case)}:"
            yield ""
            yield from _markdown_differences(case.differences)
    yield "| case | " + " | ".join(_HEAD) + " |"
    yield "| --- | --- " + "| ---: " * 4 + "| --- |"
    for case in comparison.cases:
        if not case.rows:
            yield f"| {_cell(case.case)} | | | | | | **{case.presence}**: {_cell(case.words)} |"
        for row in case.rows:
            cells = [_cell(cell) for cell in _cells(row)]
            if row.verdict in ("better", "worse"):
                cells[-1] = cells[-1].replace(row.verdict, f"**{row.verdict}**", 1)
            yield f"| {_cell(case.case)} | " + " | ".join(cells) + " |"
    for case in comparison.cases:
        yield from (f"\nIn doubt, {_cell(case.case)}: {_cell(words)}" for words in case.doubts)
    yield ""
    yield f"{_summary(comparison)} ({_rules(comparison)})"
    if chance := _by_chance(comparison):
        yield f"\n{chance[0].upper()}{chance[1:]}."


def _markdown_differences(differences: Sequence[Difference]) -> Iterator[str]:
    yield "| what differs | baseline | candidate |"
    yield "| --- | --- | --- |"
    for item in differences:
        cells = (item.name, _said(item.baseline), _said(item.candidate))
        yield "| " + " | ".join(map(_cell, cells)) + " |"
    yield ""


def _cell(text: str) -> str:
    """Text that can't break a table's row."""
    return " ".join(text.replace("|", "\\|").split())

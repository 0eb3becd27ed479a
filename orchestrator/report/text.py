"""The text report: one table that reads at a glance, then the reasons with their next steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from orchestrator.histogram import PERCENTS, carried, percent_key
from orchestrator.report.course import course_lines
from orchestrator.report.figures import UNKNOWN, latency_text, rate_text
from orchestrator.report.platform import render_case_platform, render_ground
from orchestrator.results import (
    CaseResult,
    DirectionResult,
    LatencyResult,
    Reason,
    RunResult,
    TotalResult,
)

WIDTH = 120
#: The percentiles that the table shows.
_SHOWN = ("50", "95", "99", "99.9")
_HEAD = (
    "what",
    "",
    "IOPS",
    "MB/s",
    "mean",
    *(f"p{p}" for p in _SHOWN),
    "count",
    "skew",
    "overlap",
    "workers",
    "verdict",
)
#: Columns that a case has once, not once a direction.
_PER_CASE = 4
_NAMED = 4


def render_text(run: RunResult) -> str:
    """The report of a run, at most WIDTH columns wide, ending in a line end."""
    lines = [*_table(run), "", *_legend(run), *render_ground(run.provenance).splitlines()]
    for case in run.cases:
        lines += _case_notes(case)
        lines += [f"  {line}" for line in render_case_platform(case.platform).splitlines()]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _table(run: RunResult) -> list[str]:
    rows: list[tuple[str, ...]] = [_HEAD]
    for case in run.cases:
        rows += _case_rows(case)
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    # A wide table takes narrower gaps first, then a long case id gives way; figures never do.
    gap = 2 if sum(widths) + 2 * (len(widths) - 1) <= WIDTH else 1
    spare = WIDTH - sum(widths[1:]) - gap * (len(widths) - 1)
    widths[0] = min(widths[0], max(8, spare))
    lines = [_row(row, widths, " " * gap) for row in rows]
    return [lines[0], "-" * min(WIDTH, max(map(len, lines))), *lines[1:]]


def _row(cells: Sequence[str], widths: Sequence[int], gap: str) -> str:
    shown = cells[0] if len(cells[0]) <= widths[0] else cells[0][: widths[0] - 1] + "~"
    left = {0, 1, len(cells) - 1}
    return gap.join(
        cell.ljust(width) if column in left else cell.rjust(width)
        for column, (cell, width) in enumerate(zip((shown, *cells[1:]), widths, strict=True))
    ).rstrip()


def _case_rows(case: CaseResult) -> Iterator[tuple[str, ...]]:
    skew, overlap = case.timing.skew_s, case.timing.overlap
    verdict: str = case.verdict.value if case.outcome == "done" else case.outcome
    once = (
        _cell(None if skew is None else skew * 1e9),
        UNKNOWN if overlap is None else f"{overlap * 100:.1f} %",
        f"{case.received_workers}/{case.expected_workers}",
        verdict + ("*" if case.degraded else ""),
    )
    yield from _total_rows(case.case, case.total, once)
    for name, group in case.groups.items():
        some = f"{group.received_workers}/{group.expected_workers}"
        yield from _total_rows(f"  group {name}", group.total, ("", "", some, ""))


def _total_rows(
    name: str, total: TotalResult | None, once: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    rows = [] if total is None else list(_rows_of(total))
    if not rows:
        rows = [("no I/O" if total else "no data", *([UNKNOWN] * (len(_HEAD) - 2 - _PER_CASE)))]
    for number, row in enumerate(rows):
        yield (name, *row, *once) if number == 0 else ("", *row, *([""] * _PER_CASE))


def _rows_of(total: TotalResult) -> Iterator[tuple[str, ...]]:
    for name, side in (("read", total.read), ("write", total.write), ("trim", total.trim)):
        if side is not None and side.ios != 0:
            yield (name, *_direction_cells(side))
    if total.sync is not None:
        yield ("sync", UNKNOWN, UNKNOWN, *_latency_cells(total.sync))


def _direction_cells(side: DirectionResult) -> tuple[str, ...]:
    speed = None if side.bytes_per_s is None else side.bytes_per_s / 1e6
    count = UNKNOWN if side.ios is None else f"{side.ios:,}"
    if side.latency_ns is None:
        latency: tuple[str, ...] = (*([UNKNOWN] * (1 + len(_SHOWN))), count)
    else:
        latency = _latency_cells(side.latency_ns)
    return (rate_text(side.iops), rate_text(speed), *latency)


def _latency_cells(latency: LatencyResult) -> tuple[str, ...]:
    shown = (_cell(latency.percentiles.get(key)) for key in _SHOWN)
    return (_cell(latency.mean), *shown, f"{latency.count:,}")


def _cell(ns: float | None) -> str:
    return latency_text(ns).replace(" ", "")


def _legend(run: RunResult) -> Iterator[str]:
    yield "IOPS: total I/Os over the runtime, summed over workers. MB/s: 10^6 bytes a second."
    yield "Means are weighted by I/O count; percentiles are read from the summed histograms."
    if any(case.degraded for case in run.cases):
        yield "* degraded: some workers are missing, and the suite's policy allows it."
    kinds = sorted({latency.kind for latency in _latencies(run)} - {"sync"})
    names = {"lat": "total latency (lat)", "clat": "completion latency (clat)"}
    if kinds:
        yield f"Latency: {' and '.join(names.get(kind, kind) for kind in kinds)}."
    thin = {
        percent_key(percent)
        for latency in _latencies(run)
        for percent in PERCENTS
        if percent_key(percent) in _SHOWN and not carried(percent, latency.count)
    }
    if thin:
        listed = ", ".join(f"p{key}" for key in _SHOWN if key in thin)
        yield f"{listed}: not printed where the count is too small to carry it."


def _latencies(run: RunResult) -> Iterator[LatencyResult]:
    for case in run.cases:
        total = case.total
        if total is not None:
            sides = (total.read, total.write, total.trim)
            yield from (s.latency_ns for s in sides if s is not None and s.latency_ns is not None)


def _case_notes(case: CaseResult) -> Iterator[str]:
    timing = case.timing
    facts = [f"{case.received_workers} of {case.expected_workers} workers"]
    if timing.skew_s is not None:
        facts.append(f"start skew {latency_text(timing.skew_s * 1e9)}")
    if timing.overlap is not None:
        facts.append(f"overlap {timing.overlap * 100:.1f} %")
    if timing.clock_uncertainty_s is not None:
        facts.append(f"clocks known to {latency_text(timing.clock_uncertainty_s * 1e9)}")
    yield ""
    yield from _wrapped(f"{case.case}: {case.verdict.value}; {'; '.join(facts)}", 2)
    for line in course_lines(case):
        yield from _wrapped(f"  {line}", 4)
    for _, alike in groupby(sorted(case.verdict.reasons, key=_likeness), key=_likeness):
        yield from _reason_lines(list(alike))


def _likeness(reason: Reason) -> tuple[int, str, str, str]:
    """Reasons that differ by worker only come together, the worst first."""
    order = {"invalid": 0, "unknown": 1, "note": 2}
    return (order[reason.level], reason.code, reason.text, reason.next_step or "")


def _reason_lines(alike: Sequence[Reason]) -> Iterator[str]:
    reason = alike[0]
    workers = [item.worker for item in alike if item.worker is not None]
    who = ""
    if workers:
        more = len(workers) - _NAMED
        who = ", ".join(workers[:_NAMED]) + (f" and {more} more" if more > 0 else "") + ": "
    yield from _wrapped(f"  {reason.level} [{reason.code}] {who}{reason.text}", 6)
    for label, text in (("threshold", reason.threshold), ("evidence", reason.evidence)):
        if text:
            yield from _wrapped(f"      {label}: {text}", 8)
    if reason.next_step:
        yield from _wrapped(f"      next: {reason.next_step}", 8)


def _wrapped(text: str, indent: int) -> Iterable[str]:
    """Lines of at most WIDTH columns; the first keeps its own indent."""
    lines: list[str] = []
    for part in text.splitlines():
        line = part
        while len(line) > WIDTH:
            cut = line.rfind(" ", indent + 1, WIDTH + 1)
            cut = cut if cut > indent else WIDTH
            lines.append(line[:cut])
            line = " " * indent + line[cut:].lstrip()
        lines.append(line)
    return lines

"""What an import found: each case's figures as HCIBench says them and as its files hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from orchestrator.hcibench_summary import Difference


def render_import(cases: Sequence[tuple[str, str, Sequence[Difference]]]) -> str:
    """`cases` holds the case, a line about its state, and the differences."""
    return "\n".join(line for case in cases for line in _case(*case)) + "\n"


def _case(case: str, state: str, differences: Sequence[Difference]) -> Iterator[str]:
    yield f"{case}: {state}"
    if not differences:
        return
    yield f"  {'figure':<24} {'HCIBench says':>16} {'its files hold':>16}"
    for item in differences:
        words = f"  {item.why}" if item.differs else ""
        figure = f"{item.figure} ({item.unit})"
        yield f"  {figure:<24} {_said(item.theirs):>16} {_said(item.ours):>16}{words}"


def _said(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4f}"


def render_usage(usage: Mapping[str, Mapping[str, float]]) -> str:
    """Host usage as a line each: percent over HCIBench's window, ramp and download included."""
    lines = [
        f"  {host}: " + ", ".join(f"{name} {value:g} %" for name, value in metrics.items())
        for host, metrics in usage.items()
    ]
    return "\n".join(lines) + ("\n" if lines else "")

"""Figures as people read them."""

from __future__ import annotations

from typing import Final

#: What stands where a figure isn't known.
UNKNOWN: Final = "-"


def latency_text(ns: float | None) -> str:
    """A latency as people read it: `123 ns`, `64.8 us`, `1.23 ms`, `2.5 s`; `-` when unknown."""
    if ns is None:
        return UNKNOWN
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{_figures(ns / size)} {unit}"
    return f"{ns:.0f} ns"


def _figures(value: float) -> str:
    """Three significant figures, without an exponent."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def rate_text(value: float | None) -> str:
    """A rate with thousands marked; a decimal below 100; `-` when unknown."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"

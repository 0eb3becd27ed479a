"""When repeats are enough: the interval that a case's repeats must reach. The decision itself is
`statistics.decide`; the rule stands apart, so that a suite needs no numerics to be read."""

from __future__ import annotations

from msgspec import Struct

#: Of every interval unless somebody asks for another.
CONFIDENCE = 0.95


class Gate(Struct, frozen=True):
    """Repeat until the interval's half width is at most `within` of the mean.

    Looking after every repeat makes stopping a little too early a little too likely; `least`
    keeps that small.
    """

    within: float
    least: int = 3
    most: int = 10
    confidence: float = CONFIDENCE

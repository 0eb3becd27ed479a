"""What a run tells while it goes on: notices, and a snapshot of the case after each poll."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Phase = Literal[
    "connect", "check", "stage", "prepare", "warm up", "arm", "ramp", "measure", "collect"
]


@dataclass(frozen=True)
class Notice:
    """One line about what happened; `warning` stands out."""

    text: str
    warning: bool = False


@dataclass(frozen=True)
class Snapshot:
    """A case at one instant: its phase, workers by state, live sums, seconds left in it.

    `iops` and `bytes_per_s` are what fio said last, summed over the workers that said something;
    None where none did. `position` counts from 1. A fill says its bytes, of all workers together.
    """

    case: str
    position: int
    cases: int
    phase: Phase
    states: Mapping[str, int] = field(default_factory=dict)
    iops: float | None = None
    bytes_per_s: float | None = None
    left_s: float | None = None
    written_bytes: int | None = None
    total_bytes: int | None = None


Report = Callable[[Notice | Snapshot], None]


def say_nothing(update: Notice | Snapshot) -> None:
    """The report of a run that nobody watches."""

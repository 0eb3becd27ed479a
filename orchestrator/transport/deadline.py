"""A deadline: how much of a verb's time is left."""

from __future__ import annotations

import time
from collections.abc import Callable


class Deadline:
    """`seconds` from now, by a clock that only goes forward (`ticks`, in seconds)."""

    def __init__(self, seconds: float, *, ticks: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._ticks = ticks
        self._start = ticks()

    def spent(self) -> float:
        """Seconds since it began."""
        return self._ticks() - self._start

    def left(self) -> float:
        """Seconds that remain, never below 0."""
        return max(0.0, self.seconds - self.spent())

    def passed(self) -> bool:
        """Whether nothing is left."""
        return self.left() <= 0.0

"""What a run shows while it goes on: one live line on a terminal, plain lines when piped."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self, TextIO

from orchestrator.progress import Notice, Snapshot
from orchestrator.units import format_duration, show_size

#: On a pipe, at most one line in so many seconds while nothing but the figures changes.
QUIET_S = 10.0


class Display(Protocol):
    """Takes updates from a run."""

    def __call__(self, update: Notice | Snapshot) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def open_display(stream: TextIO | None = None) -> Display:
    """The display that fits stderr: live on a terminal, plain lines elsewhere."""
    stream = stream or sys.stderr
    return LiveDisplay(stream) if stream.isatty() else PlainDisplay(stream)


def describe(snapshot: Snapshot) -> str:
    """A snapshot in one line: case, phase, workers by state, live figures, time left."""
    place = f"[{snapshot.position}/{snapshot.cases}] " if snapshot.position else ""
    states = ", ".join(f"{count} {word}" for word, count in sorted(snapshot.states.items()))
    parts = [f"{place}{snapshot.case}: {snapshot.phase}"]
    if states:
        parts.append(states)
    if snapshot.total_bytes and snapshot.written_bytes is not None:
        share = 100 * snapshot.written_bytes / snapshot.total_bytes
        done, whole = show_size(snapshot.written_bytes), show_size(snapshot.total_bytes)
        parts.append(f"{done} of {whole} ({share:.0f} %)")
    if snapshot.iops is not None:
        parts.append(f"{snapshot.iops:,.0f} IOPS")
    if snapshot.bytes_per_s is not None:
        parts.append(f"{snapshot.bytes_per_s / 1e6:,.1f} MB/s")
    if snapshot.left_s is not None and snapshot.phase != "collect":
        parts.append(f"{format_duration(round(snapshot.left_s))} left")
    return " | ".join(parts)


class PlainDisplay:
    """Lines on a pipe or in a log: every notice, every change of phase, figures now and then."""

    def __init__(self, stream: TextIO, ticks: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._ticks = ticks
        self._last: tuple[str, str] | None = None
        self._said = float("-inf")

    def __call__(self, update: Notice | Snapshot) -> None:
        if isinstance(update, Notice):
            self._line(f"warning: {update.text}" if update.warning else update.text)
            return
        key = (update.case, update.phase)
        if key != self._last or self._ticks() - self._said >= QUIET_S:
            self._last, self._said = key, self._ticks()
            self._line(describe(update))

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.flush()


class LiveDisplay:
    """A terminal: notices scroll, the case at work stays on the last line."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.status import Status

        self._console = Console(file=stream, highlight=False)
        self._status = Status("", console=self._console, spinner="dots")

    def __call__(self, update: Notice | Snapshot) -> None:
        if isinstance(update, Notice):
            style = "yellow" if update.warning else None
            self._console.print(update.text, style=style, markup=False)
            return
        from rich.text import Text

        self._status.update(Text(describe(update)))

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._status.stop()

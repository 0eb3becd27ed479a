"""What stands out in a series: stalls, dips, spikes, and levels that changed (throttling).

Robust on purpose: the usual level is the median and the scatter 1.4826 times the median absolute
deviation (equal to the standard deviation for normal scatter), which a few bad seconds can't move.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Kind = Literal["stall", "dip", "spike", "throttled", "faster"]
Figures = NDArray[np.float64]

#: Scatters from the median that a second must lie away (about 1 in 10^6 when normal).
SCATTERS: Final = 5.0
#: And parts of the median: below, a rate has dipped; above, it has spiked.
DIP_SHARE: Final = 0.25
SPIKE_SHARE: Final = 0.5
#: A rate of at most this part of the median is a stall.
STALL_SHARE: Final = 0.01
#: A level changed when the medians before and after differ by this part of the one before, ...
LEVEL_SHARE: Final = 0.20
#: ... and by this many scatters inside the two parts.
LEVEL_SCATTERS: Final = 3.0
#: Each part must have this part of the series, and this many seconds.
LEVEL_LEAST: Final = 0.1
LEVEL_LEAST_S: Final = 10
#: Fewer seconds than this are too few for a usual level.
LEAST_S: Final = 10
#: Blocks that a series is cut into to look for a change of level.
_BLOCKS: Final = 120
#: Bad seconds this close belong to one event.
_JOINED_S: Final = 2
_MAD_TO_SIGMA: Final = 1.4826


class Anomaly(Struct, frozen=True, kw_only=True):
    """Seconds that stand out, [begin_s, end_s) from the series' origin.

    `usual` is the median around it (before it, for a level), `worst` the lowest rate in it (highest
    for a spike, the new level for a level), `limit` where it began to count. `worker` is None for
    the cluster's total; `workers_too` counts the workers in which it shows at the same time.
    """

    kind: Kind
    worker: str | None
    begin_s: int
    end_s: int
    usual: float
    worst: float
    limit: float
    workers_too: int | None = None

    @property
    def seconds(self) -> int:
        """How long it lasted."""
        return self.end_s - self.begin_s

    def __str__(self) -> str:
        where = self.worker or "cluster"
        change = self.worst / self.usual - 1 if self.usual else 0.0
        return (
            f"{where}: {self.kind} at {self.begin_s} s for {self.seconds} s: {self.worst:.0f} "
            f"where {self.usual:.0f} is usual ({change:+.0%})"
        )


def find_anomalies(
    rates: Sequence[float], *, first_s: int = 0, worker: str | None = None
) -> list[Anomaly]:
    """Everything that stands out in a series with one rate for each second from `first_s`.

    A change of level comes first; the two sides of it are then looked at on their own.
    """
    values = np.asarray(rates, dtype=np.float64)
    if len(values) < LEAST_S:
        return []
    split = _level_change(values)
    if split is None:
        return _outliers(values, first_s, worker)
    before, after = values[:split], values[split:]
    usual, level = float(np.median(before)), float(np.median(after))
    change = Anomaly(
        kind="throttled" if level < usual else "faster",
        worker=worker,
        begin_s=first_s + split,
        end_s=first_s + len(values),
        usual=usual,
        worst=level,
        limit=usual * (1 - LEVEL_SHARE if level < usual else 1 + LEVEL_SHARE),
    )
    return [
        change,
        *_outliers(before, first_s, worker),
        *_outliers(after, first_s + split, worker),
    ]


def scatter(values: Figures) -> float:
    """1.4826 times the median absolute deviation."""
    return float(_MAD_TO_SIGMA * np.median(np.abs(values - np.median(values))))


def _outliers(values: Figures, first_s: int, worker: str | None) -> list[Anomaly]:
    usual, spread = float(np.median(values)), scatter(values)
    if usual <= 0:
        return []
    low = usual - max(SCATTERS * spread, DIP_SHARE * usual)
    high = usual + max(SCATTERS * spread, SPIKE_SHARE * usual)
    low = max(low, STALL_SHARE * usual)
    found = []
    for begin, end in _runs(values <= low):
        worst = float(values[begin:end].min())
        stalled = worst <= STALL_SHARE * usual
        found.append(("stall" if stalled else "dip", begin, end, worst, low))
    for begin, end in _runs(values >= high):
        found.append(("spike", begin, end, float(values[begin:end].max()), high))
    return [
        Anomaly(
            kind=kind,  # type: ignore[arg-type]
            worker=worker,
            begin_s=first_s + begin,
            end_s=first_s + end,
            usual=usual,
            worst=worst,
            limit=limit,
        )
        for kind, begin, end, worst, limit in sorted(found, key=lambda item: item[1])
    ]


def _runs(bad: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Stretches of bad seconds, those close to each other joined."""
    places = np.flatnonzero(bad)
    if not len(places):
        return []
    breaks = np.flatnonzero(np.diff(places) > _JOINED_S)
    begins = [int(places[0]), *places[breaks + 1].tolist()]
    ends = [*places[breaks].tolist(), int(places[-1])]
    return [(begin, end + 1) for begin, end in zip(begins, ends, strict=True)]


def _level_change(values: Figures) -> int | None:
    """The second at which the level changed for the rest of the series, None if it didn't.

    The split whose two medians differ most; medians of blocks stand for long series. The change
    must last to the end, so a long dip in the middle is none.
    """
    size = max(1, len(values) // _BLOCKS)
    blocks = [float(np.median(values[at : at + size])) for at in range(0, len(values), size)]
    least = max(LEVEL_LEAST_S, int(LEVEL_LEAST * len(values))) // size
    best, place = 0.0, None
    levels = np.asarray(blocks)
    for at in range(max(1, least), len(levels) - max(1, least) + 1):
        gain = _explained(levels, at)
        if gain > best:
            best, place = gain, at
    return None if place is None else _confirmed(values, place * size)


def _explained(levels: Figures, at: int) -> float:
    """How much smaller the absolute deviations become when the series is split there."""
    whole = np.abs(levels - np.median(levels)).sum()
    before, after = levels[:at], levels[at:]
    split = np.abs(before - np.median(before)).sum() + np.abs(after - np.median(after)).sum()
    return float(whole - split)


def _confirmed(values: Figures, split: int) -> int | None:
    before, after = values[:split], values[split:]
    usual, level = float(np.median(before)), float(np.median(after))
    apart = abs(usual - level)
    spread = max(scatter(before), scatter(after))
    enough = usual > 0 and apart >= LEVEL_SHARE * usual and apart >= LEVEL_SCATTERS * spread
    return split if enough else None

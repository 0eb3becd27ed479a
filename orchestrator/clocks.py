"""Clocks of workers: offset and its uncertainty, the instant to start at, the skew of what came.

All instants are seconds since the epoch. An offset is the worker's clock minus the controller's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

#: Between the last armed answer and T0: the worker's last exact sleep begins up to 1.6 s before T0.
LEAST_LEAD_S = 2.0
#: Staging and arming again may take longer than last time; this much longer is allowed for.
LEAD_FACTOR = 1.5


@dataclass(frozen=True)
class Sample:
    """One exchange: sent and received by the controller's clock, the worker's answer between."""

    sent: float
    remote: float
    received: float

    @property
    def round_trip(self) -> float:
        """Seconds from question to answer."""
        return self.received - self.sent


@dataclass(frozen=True)
class ClockReading:
    """A worker's clock against the controller's. `uncertainty_s` is half the least round trip: the
    true offset lies within offset ± uncertainty. `spread_s` is how far the samples' offsets lie
    apart; `samples` how many there were."""

    offset_s: float
    uncertainty_s: float
    samples: int
    spread_s: float

    def to_worker(self, instant: float) -> float:
        """The worker's clock at the controller's `instant`."""
        return instant + self.offset_s

    def to_controller(self, instant: float) -> float:
        """The controller's clock at the worker's `instant`."""
        return instant - self.offset_s


def read_clock(samples: Iterable[Sample]) -> ClockReading:
    """Offset by the exchange with the least round trip, as NTP's clock filter takes it (RFC 5905,
    sections 8 and 10): the worker's answer against the middle between question and answer.

    Raises ValueError without a usable sample (a round trip can't be negative).
    """
    usable = [sample for sample in samples if sample.round_trip >= 0]
    if not usable:
        raise ValueError("no exchange to read the clock from")
    offsets = [sample.remote - (sample.sent + sample.received) / 2 for sample in usable]
    best = min(range(len(usable)), key=lambda index: usable[index].round_trip)
    return ClockReading(
        offset_s=offsets[best],
        uncertainty_s=usable[best].round_trip / 2,
        samples=len(usable),
        spread_s=max(offsets) - min(offsets),
    )


def choose_start(
    now: float, arming_s: Sequence[float], *, workers_at_once: int, workers: int
) -> float:
    """The instant T0 (controller's clock) that every worker can be armed for in time.

    `arming_s` holds what one command took on each worker lately; the commands go out in waves of
    `workers_at_once`. The slowest one counts for each wave, and half as much again is allowed.
    """
    waves = -(-max(workers, 1) // max(workers_at_once, 1))
    slowest = max(arming_s, default=0.0)
    return now + LEAST_LEAD_S + LEAD_FACTOR * waves * slowest


@dataclass(frozen=True)
class Skew:
    """How far apart workers started, in seconds by the controller's clock.

    `spread_s` is last minus first; `late_s` by worker is start minus T0 (negative is early);
    `uncertainty_s` is the largest clock uncertainty, which the figures can't be better than.
    """

    spread_s: float
    first: float
    last: float
    late_s: dict[str, float]
    uncertainty_s: float


def start_skew(
    t0: float, started: Mapping[str, float], clocks: Mapping[str, ClockReading]
) -> Skew | None:
    """Skew of the achieved starts (each by its worker's own clock); None when nobody started."""
    instants = {name: clocks[name].to_controller(at) for name, at in started.items()}
    if not instants:
        return None
    first, last = min(instants.values()), max(instants.values())
    return Skew(
        spread_s=last - first,
        first=first,
        last=last,
        late_s={name: at - t0 for name, at in instants.items()},
        uncertainty_s=max(clocks[name].uncertainty_s for name in instants),
    )

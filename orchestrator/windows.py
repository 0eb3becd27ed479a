"""Windows of a case: what all workers did together, beside the whole run, its late begin and tail.

Seconds count from the series' origin (`origin_ms`, controller's clock).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from orchestrator.dips import Anomaly
from orchestrator.steady import Steadiness


class WindowRate(Struct, frozen=True, kw_only=True):
    """One direction over a window, all workers summed; latency weighted by I/Os."""

    iops: float
    bytes_per_s: float
    lat_mean_ns: float | None


class WindowRates(Struct, frozen=True, kw_only=True):
    """Rates over [begin_s, end_s); None for a direction without I/O."""

    begin_s: float
    end_s: float
    read: WindowRate | None = None
    write: WindowRate | None = None
    trim: WindowRate | None = None

    @property
    def seconds(self) -> float:
        """The window's length."""
        return self.end_s - self.begin_s


class Standstill(Struct, frozen=True, kw_only=True):
    """A worker's fio stood still: its log has no tick between these seconds of the series."""

    worker: str
    begin_s: float
    end_s: float


class WarmUp(Struct, frozen=True, kw_only=True):
    """What ended the unmeasured run before a case: `steady` on evidence or `cap` without it, after
    how many seconds (None: not known), and why in words."""

    ended_by: str
    seconds: float | None
    reason: str


class Course(Struct, frozen=True, kw_only=True):
    """How a case went over time, from its series.

    `common` is the window in which every worker measured, None when there is no such second;
    `whole` runs from the first worker's begin to the last one's end. `late_s` and `tail_s` are
    what lies before and behind the common window; the mappings name the workers that began more
    than a second after the first or ended more than two before the last, with how much.
    """

    origin_ms: float
    seconds: int
    whole: WindowRates
    common: WindowRates | None
    late_s: float
    tail_s: float
    late_workers: Mapping[str, float] = {}
    early_workers: Mapping[str, float] = {}
    without_series: Mapping[str, str] = {}
    steady: Steadiness | None = None
    #: rates over the window that steadiness was judged on: SNIA's own result; None when too short
    judged: WindowRates | None = None
    anomalies: tuple[Anomaly, ...] = ()
    standstills: tuple[Standstill, ...] = ()
    #: anomalies beyond those kept
    more_anomalies: int = 0
    dropped_lines: int = 0

"""What is run as one case, the world that it runs in, and the end of it for want of workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from orchestrator.errors import HcioError
from orchestrator.progress import Phase, Report
from orchestrator.suites import Until


@dataclass(frozen=True)
class Lab:
    """The world that a run needs: a clock (seconds since the epoch), sleep, who is told, how often
    the workers are asked (seconds)."""

    clock: Callable[[], float]
    sleep: Callable[[float], None]
    report: Report
    poll_s: float | None = None


@dataclass(frozen=True)
class Spec:
    """What is run: a case (or the fill), on whom, for how long. Seconds."""

    case: str
    phase: Phase
    workers: tuple[str, ...]
    groups: Mapping[str, str]
    seeds: Mapping[str, int]
    ramp_s: float
    wall_s: float | None
    deadline_s: float
    fast_fail_s: float
    until: Until | None = None
    position: int = 0
    cases: int = 0
    #: of a fill: the bytes that each worker writes
    fill_bytes: Mapping[str, int] = field(default_factory=dict)


class NotEnoughWorkers(HcioError):
    """Too few workers are left for the suite's policy; `missing` holds the reason for each."""

    exit_code = 4

    def __init__(self, step: str, missing: Mapping[str, str], needed: int, workers: int) -> None:
        lines = [f"{step}: {workers - len(missing)} of {workers} workers left, {needed} needed"]
        lines += [f"  {name}: {reason}" for name, reason in sorted(missing.items())]
        super().__init__(
            "\n".join(lines),
            means="the suite's policy does not allow to go on without them",
            next_step="mend these workers and `hcio resume`, or allow fewer (policy.quorum=90%)",
        )
        self.missing = dict(missing)

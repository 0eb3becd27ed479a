"""What came back from the workers of a case, and what was expected of them: input of `analysis`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class WorkerEvidence:
    """One worker's part of a case, as collected. Times are in seconds since the epoch.

    `outcome` is done, failed, broken or skipped as the conductor saw it, `reason` its words.
    `ended_by` is `exited`, `deadline`, `stopped`, `signal:NAME`, or empty when not known.
    `t0` is the agreed instant and `started`, `ended` what happened, all in the worker's clock;
    `clock_offset_s` is that clock minus the controller's at the start of fio; `clock_step_s` is by
    how much it was set from the arming to the end, for which the instants are corrected.
    """

    worker: str
    outcome: str = "done"
    reason: str | None = None
    output: bytes | None = None
    stderr: bytes = b""
    exit_status: int | None = None
    ended_by: str = ""
    group: str | None = None
    host: str | None = None
    datastore: str | None = None
    t0: float | None = None
    started: float | None = None
    ended: float | None = None
    clock_offset_s: float | None = None
    clock_uncertainty_s: float | None = None
    clock_step_s: float | None = None
    fio_version: str | None = None

    def by_controller(self, instant: float | None) -> float | None:
        """An instant of this worker's clock in the controller's; an unknown offset counts as 0."""
        return None if instant is None else instant - (self.clock_offset_s or 0.0)


@dataclass(frozen=True)
class Thresholds:
    """Where the checks say no. Shares are of 1."""

    #: measured runtime over asked runtime
    runtime_share: float = 0.95
    #: fio's iops (total over runtime) against its iops_mean (average of samples)
    sampled_difference: float = 0.10
    #: runtimes of one worker's jobs, shortest over longest
    equal_runtimes: float = 0.95
    #: latest start minus earliest
    skew_s: float = 1.0
    #: common window over the union of all windows
    overlap: float = 0.95
    clock_uncertainty_s: float = 0.1


@dataclass(frozen=True)
class CaseExpectation:
    """What a case was meant to be. None: not known, so not checked.

    `ramp_s` and `runtime_s` are the case's; `times` has (ramp, runtime) of the workers whose group
    has its own. `own_files`: workers that run the user's own job file, whose jobs may state times
    of their own.
    """

    case: str
    workers: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    runtime_s: float | None = None
    ramp_s: float = 0.0
    times: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    own_files: frozenset[str] = frozenset()
    reads: bool = False
    preconditioned: bool | None = None
    thresholds: Thresholds = field(default_factory=Thresholds)

    def times_of(self, worker: str) -> tuple[float, float | None]:
        """A worker's ramp and the time that it was asked to measure, in seconds."""
        return self.times.get(worker, (self.ramp_s, self.runtime_s))

"""What a search looks for, as its plan holds it, and the case that each of its probes is.

A load is a queue depth (per job and target), or a rate in IOPS that all workers share; a probe
without a load runs the profile as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator import demand
from orchestrator.casefacts import depth_for_rate
from orchestrator.errors import ConfigError
from orchestrator.profiles import Profile, override_profile
from orchestrator.suites import ALL, Case

#: Linux's default of fs.aio-max-nr is 65,536 I/Os for all processes; half of it is left to others.
MOST_OUTSTANDING: Final = 32_768


class Sought(BaseModel):
    """Objectives, the axis of load, and how finely; `case` is the profile at its full length."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    slo: Annotated[tuple[str, ...], Field(min_length=1)]
    axis: Literal["iodepth", "rate"]
    case: Case
    #: targets of each worker, for the split of a rate
    targets: tuple[int, ...]
    probe_runtime: float
    probe_ramp: float
    least: Annotated[int, Field(ge=1)]
    most: Annotated[int, Field(ge=1)]
    resolution: float
    most_probes: int
    curve_points: int

    @property
    def profile(self) -> Profile:
        """The workload whose load is varied."""
        return self.case.groups[ALL]


def probe_case(sought: Sought, number: int, load: float | None, *, full: bool) -> Case:
    """The probe's case, named `probe-03.iodepth=16`, `probe-07.rate=12000.full`."""
    length = {} if full else {"runtime": sought.probe_runtime, "ramp": sought.probe_ramp}
    profile = override_profile(sought.profile, length | _loaded(sought, load))
    shown = "most" if load is None else f"{load:.0f}"
    name = f"probe-{number:02d}.{sought.axis}={shown}" + (".full" if full else "")
    return Case(id=name, groups={ALL: profile}, values={sought.axis: shown})


def _loaded(sought: Sought, load: float | None) -> dict[str, Any]:
    if load is None:
        return {}
    if sought.axis == "iodepth":
        return {"iodepth": int(load)}
    rate = _rate_for(sought, load)
    return {"rate.iops": rate, "iodepth": _depth_for(sought, rate)}


def _rate_for(sought: Sought, load: float) -> int:
    """Each worker's rate, such that all jobs together are asked for at least the load: fio's caps
    are whole numbers for each job."""
    rate = max(1, math.ceil(load / len(sought.targets)))
    while asked_iops(sought, rate) < load:
        rate += 1
    return rate


def asked_iops(sought: Sought, rate: int) -> int:
    """The sum of all jobs' caps when each worker has this rate; ConfigError where it can't be
    split."""
    profile = override_profile(sought.profile, {"rate.iops": rate})
    return sum(_asked(profile, targets) for targets in sought.targets)


def _asked(profile: Profile, targets: int) -> int:
    items = demand.assign_targets(profile, targets)
    return sum(sum(one or 0 for one in item.iops) * item.shape.numjobs for item in items)


def _depth_for(sought: Sought, rate: int) -> int:
    """A depth at which a job's I/Os are still issued on time while the storage pauses: with less
    their waiting is in no latency (coordinated omission)."""
    profile = override_profile(sought.profile, {"rate.iops": rate})
    own = max(shape.iodepth for shape in profile.shapes)
    room = max(own, MOST_OUTSTANDING // max(1, _jobs(profile, sought.targets)))
    return max(own, min(room, depth_for_rate(_highest_job_rate(profile, sought.targets))))


def _jobs(profile: Profile, targets: Sequence[int]) -> int:
    items = demand.assign_targets(profile, max(targets))
    return sum(item.shape.numjobs for item in items)


def _highest_job_rate(profile: Profile, targets: Iterable[int]) -> float:
    items = [item for count in targets for item in demand.assign_targets(profile, count)]
    return float(max((sum(one or 0 for one in item.iops) for item in items), default=0))


def least_rate(profile: Profile, targets: Sequence[int]) -> int:
    """The lowest rate of all workers (IOPS) that can be split over their jobs and directions.

    ConfigError when none can, however high.
    """
    for power in range(24):
        changed = override_profile(profile, {"rate.iops": 2**power})
        try:
            for count in targets:
                demand.assign_targets(changed, count)
        except ConfigError:
            continue
        return int(2**power * len(targets))
    raise ConfigError(
        f"profile {profile.name}: no rate can be split over its jobs",
        next_step="search over --axis iodepth",
    )

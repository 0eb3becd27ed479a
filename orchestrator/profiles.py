"""One workload: its shape, or the shapes of its jobs, and its timing. Made once, then only read.

A profile is either shaped (one set of fields, or several `jobs` with their own) or the user's own
job file (`fio`), whose text is kept whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Self

from pydantic import Field, ValidationError, model_validator

from orchestrator.errors import InputError, Problem
from orchestrator.joblint import LOCAL_ENGINES
from orchestrator.problems import nearest, problems_of
from orchestrator.sections import JobText, parse_job_text, set_option
from orchestrator.shapes import Name, Shape
from orchestrator.units import Duration, Percent, PositiveDuration

#: Where a profile says nothing.
DEFAULT_RUNTIME_S: Final = 600.0
DEFAULT_RAMP_S: Final = 120.0


class Job(Shape):
    """One of several job sections that run at the same time on a worker.

    `share` is its percent of the worker's targets; where there are fewer targets than shares,
    it is the percent of each target's area. None means every target, whole.
    """

    name: Name
    share: Annotated[Percent | None, Field(ge=1)] = None


_SHAPE_FIELDS: Final = tuple(Shape.model_fields)


class Profile(Shape):
    """One workload, for one worker."""

    name: Name
    description: str = ""
    runtime: Annotated[
        PositiveDuration | None, Field(description="measured time; 10m where not given")
    ] = None
    ramp: Annotated[Duration | None, Field(description="before it, not measured; 2m")] = None
    engine: str = "libaio"
    direct: bool = True
    jobs: tuple[Job, ...] = ()
    fio: Annotated[
        str | None,
        Field(description="your own job file: its name, or its text; targets are filled in"),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _spread(cls, data: Any) -> Any:
        """Timing defaults of a shaped profile; its shape is the default of each of its jobs."""
        if not isinstance(data, Mapping):
            return data
        data = dict(data)
        if data.get("fio") is None:
            data["runtime"] = data.get("runtime") or DEFAULT_RUNTIME_S
            if data.get("ramp") is None:
                data["ramp"] = DEFAULT_RAMP_S
        jobs = data.get("jobs")
        if isinstance(jobs, list | tuple) and all(isinstance(job, Mapping) for job in jobs):
            data["jobs"] = [_with_defaults(job, data) for job in jobs]
        return data

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.fio is not None:
            self._check_own_file()
            return self
        if self.engine not in LOCAL_ENGINES:
            raise ValueError(
                f"engine {self.engine!r} can reach beyond the targets, or isn't known; take one of "
                f"{', '.join(sorted(LOCAL_ENGINES - {'cpuio'}))}"
            )
        if self.jobs:
            self._check_jobs()
        for shape in self.jobs or (self,):
            if shape.block_size is None and shape.bssplit is None:
                place = f" in job {shape.name}" if isinstance(shape, Job) else ""
                raise ValueError(f"block_size (or bssplit) is missing{place}")
        return self

    def _check_own_file(self) -> None:
        given = sorted(
            name
            for name in (*_SHAPE_FIELDS, "engine", "direct", "jobs")
            if getattr(self, name) != type(self).model_fields[name].default
        )
        if given:
            raise ValueError(
                f"{', '.join(given)} can't be given beside fio: the job file says it; only "
                "runtime and ramp replace what it holds"
            )
        if self.fio is not None and "[" not in self.fio:
            raise ValueError("fio holds no job section; it is a file's name or a job file's text")

    def _check_jobs(self) -> None:
        names = [job.name for job in self.jobs]
        if len(set(names)) != len(names):
            raise ValueError("two jobs have the same name")
        total = sum(job.share or 0 for job in self.jobs)
        if total > 100:
            raise ValueError(f"the jobs' shares add up to {total} percent")

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The job shapes; empty for the user's own file."""
        if self.fio is not None:
            return ()
        return self.jobs or (self,)

    @property
    def job_text(self) -> JobText | None:
        """The user's own job file, parsed."""
        return None if self.fio is None else parse_job_text(self.fio)


def _with_defaults(job: Mapping[str, Any], profile: Mapping[str, Any]) -> dict[str, Any]:
    """The job's fields over the profile's; a block size of its own drops the profile's split."""
    defaults = {name: profile[name] for name in _SHAPE_FIELDS if name in profile}
    if job.get("block_size") is not None or job.get("bssplit") is not None:
        defaults.pop("block_size", None)
        defaults.pop("bssplit", None)
    return defaults | dict(job)


#: Fields of which one drops the other when it is overridden.
_EITHER: Final = {
    "block_size": "bssplit",
    "bssplit": "block_size",
    "rate.iops": "rate.bytes_per_s",
    "rate.bytes_per_s": "rate.iops",
}


def override_profile(
    profile: Profile, changes: Mapping[str, Any], *, source: str = "override"
) -> Profile:
    """The profile with fields replaced, by dotted name (`iodepth`, `rate.iops`, `jobs.log.rate`).

    A field of the shape replaces it in every job. Raises InputError with every problem: an
    unknown field with the nearest valid one, a value that doesn't fit.
    """
    data = profile.model_dump(exclude_none=True)
    problems = []
    for name, value in changes.items():
        problem = _override(data, name, value, source)
        if problem is not None:
            problems.append(problem)
    try:
        changed = Profile.model_validate(data)
    except ValidationError as error:
        problems += problems_of(error, Profile, file=source)
    if problems:
        raise InputError(problems)
    return changed


def _override(data: dict[str, Any], name: str, value: Any, source: str) -> Problem | None:
    """Set one field in `data`; a Problem when there is no such field."""
    steps = name.split(".")
    if steps[0] not in Profile.model_fields or name in ("name", "jobs", "fio"):
        names = sorted(set(Profile.model_fields) - {"name", "jobs", "fio"})
        return Problem(source, None, name, "no such field in a profile", nearest(steps[0], names))
    if steps[0] == "jobs":
        return _override_job(data, name, value, source)
    _put(data, steps, value)
    if steps[0] in _SHAPE_FIELDS:
        for job in data.get("jobs", ()):
            if len(steps) == 1:
                job.pop(steps[0], None)
                job.pop(_EITHER.get(steps[0], ""), None)
            else:
                _put(job, steps, value)
    return None


def _override_job(data: dict[str, Any], name: str, value: Any, source: str) -> Problem | None:
    _, job_name, *steps = [*name.split("."), ""]
    steps = [step for step in steps if step]
    jobs = {job["name"]: job for job in data.get("jobs", ())}
    if job_name not in jobs:
        text = f"the profile has no job {job_name!r}"
        return Problem(source, None, name, text, nearest(job_name, jobs))
    if not steps or steps[0] not in Job.model_fields:
        field = steps[0] if steps else ""
        return Problem(
            source, None, name, "no such field in a job", nearest(field, Job.model_fields)
        )
    _put(jobs[job_name], steps, value)
    return None


def _put(data: dict[str, Any], steps: list[str], value: Any) -> None:
    """Set a nested value, dropping the field that it excludes."""
    other = _EITHER.get(".".join(steps), "").split(".")
    for step in steps[:-1]:
        inner = data.get(step)
        data[step] = dict(inner) if isinstance(inner, Mapping) else {}
        data = data[step]
    data[steps[-1]] = value
    data.pop(other[-1], None)


def with_timing(job: JobText, profile: Profile) -> JobText:
    """The user's own file with the profile's runtime and ramp, where those are given."""
    for key, seconds in (("runtime", profile.runtime), ("ramp_time", profile.ramp)):
        if seconds is not None:
            job = set_option(job, key, fio_time(seconds))
    return job


def fio_time(seconds: float) -> str:
    """A time as fio reads it in every place: whole seconds, else milliseconds with the unit."""
    return f"{int(seconds)}" if seconds == int(seconds) else f"{round(seconds * 1000)}ms"

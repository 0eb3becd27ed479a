"""An ordered set of cases and the rules they run by, as people write them; and one case, fixed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic_core import CoreSchema

from orchestrator.gate import Gate
from orchestrator.prepare import Prepare
from orchestrator.problems import or_text
from orchestrator.profiles import Profile
from orchestrator.shapes import Name
from orchestrator.steady import SteadyRule
from orchestrator.units import (
    Duration,
    Percent,
    parse_percent,
)

#: The group of a worker that names none.
ALL: Final = "all"
Values = dict[str, Any]


class Policy(BaseModel):
    """When some workers fail a case: how many must be left, and whether other cases go on.

    `quorum` is a percent of the workers or a count of them; None means all of them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    quorum: Annotated[int | str | None, Field(description="90% of the workers, or a count")] = None
    continue_cases: bool = True

    @model_validator(mode="before")
    @classmethod
    def _abort(cls, data: Any) -> Any:
        if data == "abort":
            return {"quorum": None, "continue_cases": False}
        if isinstance(data, str):
            raise ValueError(f"{data!r}: write abort, or {{quorum: 90%}}")
        if isinstance(data, Mapping) and str(data.get("quorum")).isdecimal():
            return {**data, "quorum": int(data["quorum"])}
        return data

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if isinstance(self.quorum, str):
            if not self.quorum.endswith("%"):
                raise ValueError(f"quorum {self.quorum!r}: write 90%, or a count of workers")
            parse_percent(self.quorum)
        elif self.quorum is not None and self.quorum < 1:
            raise ValueError("quorum must be at least 1 worker")
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return or_text(handler(core))

    def needed(self, workers: int) -> int:
        """How many of so many workers a case needs; a percent is rounded up."""
        if self.quorum is None:
            return workers
        if isinstance(self.quorum, str):
            return max(1, math.ceil(workers * parse_percent(self.quorum) / 100))
        return min(self.quorum, workers)


class Thresholds(BaseModel):
    """Beyond these a case's figures are marked."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    max_skew: Annotated[Duration, Field(description="between the first and the last start")] = 1.0
    min_overlap: Annotated[Percent, Field(description="of the time all measured together")] = 90
    min_runtime: Annotated[Percent, Field(description="of the runtime that was asked")] = 95


class Repeats(BaseModel):
    """How often each case runs. `within`: go on after `least` until the interval of `metric` is
    within so many percent of its mean, or `most` have run."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    least: Annotated[int, Field(ge=1, le=100)] = 1
    most: Annotated[int | None, Field(ge=1, le=100, description="least where not given")] = None
    within: Annotated[float | None, Field(gt=0, lt=100, description="percent of the mean")] = None
    metric: Annotated[str, Field(description="what the interval is of")] = "iops"

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        """`repeats: 5`, and `within: 2%`."""
        if isinstance(data, int | str) and not isinstance(data, bool) and str(data).isdecimal():
            return {"least": int(data)}
        if isinstance(data, Mapping) and isinstance(data.get("within"), str):
            return {**data, "within": data["within"].strip().removesuffix("%")}
        return data

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.most is not None and self.most < self.least:
            raise ValueError("most is less than least")
        if self.within is None and self.most not in (None, self.least):
            raise ValueError("most without within: say how narrow the interval must be")
        return self

    @property
    def planned(self) -> int:
        """How many repeats a plan holds; with a gate the last ones may not be needed."""
        return self.least if self.most is None else self.most

    @property
    def gate(self) -> Gate | None:
        """The rule by which later repeats are left out; None when all of them run."""
        if self.within is None:
            return None
        return Gate(within=self.within / 100, least=max(2, self.least), most=self.planned)


class Until(BaseModel):
    """Go on in whole windows until the summed IOPS are steady (SNIA's rule), at most to the cap."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    window: Annotated[Duration, Field(ge=10)] = 300.0
    cap: Annotated[Duration, Field(ge=10)] = 3600.0
    range: Annotated[Percent, Field(ge=1, description="of the mean, at most")] = 20
    excursion: Annotated[Percent, Field(ge=1, description="of the fitted line, at most")] = 10

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        """`until: steady` is the rule with its usual figures."""
        return {} if data == "steady" else data

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.cap < self.window:
            raise ValueError("cap is below one window")
        return self

    @property
    def rule(self) -> SteadyRule:
        """The rule with its thresholds as shares."""
        return SteadyRule(
            window_s=self.window,
            range_limit=self.range / 100,
            excursion_limit=self.excursion / 100,
        )


class GroupEntry(BaseModel):
    """A group's profile in a case: by name or written in place, with fields replaced."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    profile: str | Profile
    set: Values = {}


class CaseEntry(BaseModel):
    """One line of a suite: a profile, or `groups` that run at the same time."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    profile: str | Profile | None = None
    groups: Annotated[dict[Name, str | GroupEntry], Field(description="group: profile")] = {}
    id: Name | None = None
    set: Annotated[Values, Field(description="fields of the profile replaced")] = {}
    matrix: Annotated[dict[str, list[Any]], Field(description="field: values")] = {}

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        """`- 4k-70r-random` is short for a profile by that name."""
        return {"profile": data} if isinstance(data, str) else data

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return or_text(handler(core))

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.profile is None) == (not self.groups):
            raise ValueError("give one of profile and groups")
        return self


class Suite(BaseModel):
    """An ordered set of cases and the rules they run by."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    name: Name
    description: str = ""
    cases: Annotated[tuple[CaseEntry, ...], Field(min_length=1)]
    set: Annotated[Values, Field(description="fields replaced in every case")] = {}
    matrix: Annotated[dict[str, list[Any]], Field(description="for every case")] = {}
    order: Literal["listed", "matrix-first", "shuffled"] = "listed"
    seed: Annotated[int, Field(ge=0, description="of the workers' seeds and the shuffle")] = 1
    prepare: Annotated[
        Prepare, Field(description="auto, none, zero, random, or compressible with percents")
    ] = Prepare()
    clear_cache: Annotated[
        bool, Field(description="before every case; the inventory says where and how")
    ] = False
    fast_fail: Annotated[Duration, Field(description="I/O must be seen by then; 0: off")] = 20.0
    pause: Annotated[Duration, Field(description="between two cases")] = 0.0
    grace: Annotated[
        Duration, Field(description="beyond ramp and runtime, before a worker ends a case itself")
    ] = 60.0
    until: Annotated[
        Until | None, Field(description="steady, or a rule: how long a case measures")
    ] = None
    warm_up: Annotated[
        Until | None, Field(description="steady, or a rule: run before it, not measured")
    ] = None
    series: Annotated[bool, Field(description="let fio log every second of a case")] = True
    policy: Policy = Policy()
    thresholds: Thresholds = Thresholds()
    repeats: Annotated[Repeats, Field(description="a number, or a rule")] = Repeats()
    accept: Annotated[tuple[str, ...], Field(description="rules, like 'iops >= 50000'")] = ()


class Case(BaseModel):
    """One case, all values fixed: its id, and the profile of each group of workers.

    `values` are those that make the id: set on the case, or varying in a matrix.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    id: str
    groups: dict[str, Profile]
    values: dict[str, Any] = {}

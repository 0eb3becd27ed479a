"""An ordered set of cases: each a profile, or one for each group of workers, with fixed values.

A case's id comes from what it is, not from where it stands: the profile's name and the values that
were set on the case or that vary in a matrix. It is safe as a folder's name.
"""

from __future__ import annotations

import fnmatch
import itertools
import json
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema

from orchestrator.errors import InputError, Problem
from orchestrator.gate import Gate
from orchestrator.prepare import Prepare
from orchestrator.problems import nearest, or_text, problems_of
from orchestrator.profiles import Profile, override_profile
from orchestrator.repeats import repeat_id
from orchestrator.shapes import Name
from orchestrator.steady import SteadyRule
from orchestrator.units import (
    Duration,
    Percent,
    format_duration,
    format_size,
    parse_byte_rate,
    parse_count,
    parse_duration,
    parse_percent,
    parse_size,
)

#: The group of a worker that names none.
ALL: Final = "all"
Values = dict[str, Any]
FindProfile = Callable[[str], Profile]
#: How a field's value is shown in an id, so that 4k, 4KiB and 4096 are one.
_SHOWN: Final[Mapping[str, Callable[[Any], str]]] = {
    "block_size": lambda value: format_size(parse_size(value)),
    "runtime": lambda value: format_duration(parse_duration(value)),
    "ramp": lambda value: format_duration(parse_duration(value)),
    "rate.iops": lambda value: str(parse_count(value)),
    "rate.bytes_per_s": lambda value: format_size(parse_byte_rate(value)),
}


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


def parse_overrides(words: Sequence[str]) -> dict[str, list[Any]]:
    """`runtime=600`, `iodepth=8,16` (or given twice) as field to values, in the order given.

    A value that starts with `{` or `[` is JSON and stays one value. InputError on anything else.
    """
    found: dict[str, list[Any]] = {}
    problems: list[Problem] = []
    for word in words:
        name, equals, text = (part.strip() for part in word.partition("="))
        if not name or not equals or not text:
            problems.append(Problem("--set", None, word, "write it like runtime=600"))
            continue
        try:
            values = [json.loads(text)] if text[0] in "{[" else text.split(",")
        except ValueError:
            problems.append(Problem("--set", None, name, f"{text!r} is not JSON"))
            continue
        found.setdefault(name, []).extend(values)
    if problems:
        raise InputError(problems)
    return found


#: Fields of a suite that an override may replace (the others are the cases' own).
SUITE_FIELDS: Final = (
    *("order", "seed", "prepare", "fast_fail", "pause", "grace", "series", "until", "warm_up"),
    *("policy", "thresholds", "repeats", "clear_cache"),
)


def override_suite(
    suite: Suite, overrides: Mapping[str, Sequence[Any]]
) -> tuple[Suite, dict[str, list[Any]]]:
    """The suite with its own fields replaced (`prepare`, `policy.quorum`), and the other overrides.

    InputError lists what is wrong; a suite's field takes one value.
    """
    data = suite.model_dump(exclude_none=True)
    rest: dict[str, list[Any]] = {}
    problems: list[Problem] = []
    for name, values in overrides.items():
        field, _, inner = name.partition(".")
        if field not in SUITE_FIELDS:
            rest[name] = list(values)
        elif len(values) != 1 or (inner and not isinstance(data.get(field, {}), dict)):
            problems.append(Problem("--set", None, name, "takes one value"))
        elif inner:
            data.setdefault(field, {})[inner] = values[0]
        else:
            data[field] = values[0]
    try:
        changed = Suite.model_validate(data)
    except ValidationError as error:
        problems += problems_of(error, Suite, file="--set")
    if problems:
        raise InputError(problems)
    return changed, rest


def expand_suite(
    suite: Suite,
    find_profile: FindProfile,
    *,
    overrides: Mapping[str, Sequence[Any]] | None = None,
    only: Sequence[str] = (),
) -> tuple[Case, ...]:
    """All cases of a suite, in the order they run.

    `find_profile` gives a profile by name or raises InputError. `overrides` replace a field in
    every case; several values of one make a matrix. `only` keeps the cases that match any id,
    profile name or glob. InputError lists everything that is wrong.
    """
    overrides = overrides or {}
    problems: list[Problem] = []
    cases: list[tuple[int, Case]] = []
    for index, entry in enumerate(suite.cases):
        where = f"cases.{index}"
        try:
            found = _profiles(entry, find_profile)
        except InputError as error:
            problems += [_placed(problem, suite, where, {}) for problem in error.problems]
            continue
        for number, values in enumerate(_combinations(suite, entry, overrides)):
            try:
                case = _case(suite, entry, found, values, overrides)
            except InputError as error:
                problems += [_placed(one, suite, where, overrides) for one in error.problems]
            else:
                cases.append((number, case))
    problems += _repeated(suite, [case for _, case in cases])
    if problems:
        raise InputError(list(dict.fromkeys(problems)))
    return _repeated_cases(_subset(_ordered(suite, cases), only, suite), suite.repeats.planned)


def _repeated_cases(cases: tuple[Case, ...], repeats: int) -> tuple[Case, ...]:
    """All cases once, then all again: what drifts over hours meets every case alike."""
    if repeats == 1:
        return cases
    return tuple(
        case.model_copy(update={"id": repeat_id(case.id, number)})
        for number in range(1, repeats + 1)
        for case in cases
    )


def _placed(problem: Problem, suite: Suite, where: str, overrides: Mapping[str, Any]) -> Problem:
    """The problem where the user can mend it: on the command line, for all cases, or in one."""
    file, path = f"suite {suite.name}", f"{where}.{problem.path}" if problem.path else where
    for place, names in (("--set", overrides), ("set", suite.set), ("matrix", suite.matrix)):
        if any(problem.path == name or problem.path.startswith(f"{name}.") for name in names):
            file = place if place == "--set" else file
            path = problem.path if place == "--set" else f"{place}.{problem.path}"
            break
    return Problem(file, None, path, problem.text, problem.nearest)


def _profiles(entry: CaseEntry, find: FindProfile) -> dict[str, Profile]:
    """Group to profile, the groups' own `set` applied."""
    groups: dict[str, GroupEntry] = {}
    if entry.profile is not None:
        groups[ALL] = GroupEntry(profile=entry.profile)
    for name, given in entry.groups.items():
        groups[name] = GroupEntry(profile=given) if isinstance(given, str) else given
    found: dict[str, Profile] = {}
    problems: list[Problem] = []
    for name, group in groups.items():
        try:
            profile = find(group.profile) if isinstance(group.profile, str) else group.profile
            found[name] = override_profile(profile, group.set) if group.set else profile
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return found


def _combinations(
    suite: Suite, entry: CaseEntry, overrides: Mapping[str, Sequence[Any]]
) -> Iterator[Values]:
    """Every combination of the matrix's values; a case's axis wins over the suite's, the user's
    override over both."""
    axes = {**suite.matrix, **entry.matrix}
    axes = {name: values for name, values in axes.items() if name not in overrides}
    axes |= {name: list(values) for name, values in overrides.items() if len(values) > 1}
    names = list(axes)
    for values in itertools.product(*axes.values()):
        yield dict(zip(names, values, strict=True))


def _case(
    suite: Suite,
    entry: CaseEntry,
    found: Mapping[str, Profile],
    values: Values,
    overrides: Mapping[str, Sequence[Any]],
) -> Case:
    fixed = {name: given[0] for name, given in overrides.items() if len(given) == 1}
    changes = {**suite.set, **entry.set, **values, **fixed}
    own = {name: value for name, value in entry.set.items() if name not in fixed}
    shown = {**({} if entry.id else own), **values}
    groups: dict[str, Profile] = {}
    problems: list[Problem] = []
    for name, profile in found.items():
        try:
            groups[name] = override_profile(profile, changes, source="set") if changes else profile
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    base = entry.id or _base(found)
    return Case(id=case_id(base, shown), groups=groups, values=shown)


def _base(found: Mapping[str, Profile]) -> str:
    if list(found) == [ALL]:
        return found[ALL].name
    return "+".join(f"{group}={profile.name}" for group, profile in sorted(found.items()))


def case_id(base: str, values: Mapping[str, Any]) -> str:
    """`4k-70r-random.iodepth=8`: the fields by name, so that their order does not matter."""
    parts = [f"{name}={_shown(name, value)}" for name, value in sorted(values.items())]
    return ".".join([base, *(re.sub(r"[^A-Za-z0-9_.=+-]+", "_", part) for part in parts)])


def _shown(name: str, value: Any) -> str:
    """A value in an id, in its field's shortest form."""
    if name in _SHOWN and isinstance(value, str | int | float):
        try:
            return _SHOWN[name](value)
        except ValueError:
            return str(value)
    if isinstance(value, Mapping):
        return "+".join(f"{key}-{_shown(name, inner)}" for key, inner in sorted(value.items()))
    if isinstance(value, list | tuple):
        return "+".join(_shown(name, inner) for inner in value)
    return str(value).removesuffix("%")


def _repeated(suite: Suite, cases: Iterable[Case]) -> list[Problem]:
    seen: set[str] = set()
    again: list[Problem] = []
    for case in cases:
        key = case.id.lower()
        if key in seen:
            text = f"case {case.id} is there twice; give one of them an id, or leave it out"
            again.append(Problem(f"suite {suite.name}", None, "cases", text))
        seen.add(key)
    return again


def _ordered(suite: Suite, cases: list[tuple[int, Case]]) -> list[Case]:
    """As listed; or every case at the first combination, then at the second; or shuffled."""
    if suite.order == "matrix-first":
        cases = sorted(cases, key=lambda item: item[0])
    result = [case for _, case in cases]
    if suite.order == "shuffled":
        result.sort(key=lambda case: case.id)
        random.Random(suite.seed).shuffle(result)  # noqa: S311 - an order, not a secret
    return result


def _subset(cases: Sequence[Case], only: Sequence[str], suite: Suite) -> tuple[Case, ...]:
    """The cases that one of the patterns means; a pattern that means none is a problem."""
    if not only:
        return tuple(cases)
    problems = [
        Problem(
            f"suite {suite.name}",
            None,
            "",
            f"no case matches {pattern!r}",
            nearest(pattern, [case.id for case in cases]),
        )
        for pattern in only
        if not any(_matches(case, pattern) for case in cases)
    ]
    if problems:
        raise InputError(problems)
    return tuple(case for case in cases if any(_matches(case, pattern) for pattern in only))


def _matches(case: Case, pattern: str) -> bool:
    names = [case.id, *(profile.name for profile in case.groups.values())]
    return any(name == pattern or fnmatch.fnmatchcase(name, pattern) for name in names)

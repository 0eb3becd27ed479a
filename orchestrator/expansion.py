"""From a suite to its cases: overrides, matrices, subsets, repeats, and ids that stay the same.

A case's id comes from what it is, not from where it stands: the profile's name and the values that
were set on the case or that vary in a matrix. It is safe as a folder's name.
"""

from __future__ import annotations

import fnmatch
import itertools
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from orchestrator.errors import InputError, Problem
from orchestrator.problems import nearest, problems_of
from orchestrator.profiles import Profile, override_profile
from orchestrator.repeats import repeat_id
from orchestrator.suites import ALL, Case, CaseEntry, GroupEntry, Suite, Values
from orchestrator.units import (
    format_duration,
    format_size,
    parse_byte_rate,
    parse_count,
    parse_duration,
    parse_size,
)

FindProfile = Callable[[str], Profile]
#: How a field's value is shown in an id, so that 4k, 4KiB and 4096 are one.
_SHOWN: Final[Mapping[str, Callable[[Any], str]]] = {
    "block_size": lambda value: format_size(parse_size(value)),
    "runtime": lambda value: format_duration(parse_duration(value)),
    "ramp": lambda value: format_duration(parse_duration(value)),
    "rate.iops": lambda value: str(parse_count(value)),
    "rate.bytes_per_s": lambda value: format_size(parse_byte_rate(value)),
}


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

"""Repeats of a case: how they are named, and which belong together.

A case that runs more than once appears as `<case>.repeat=1`, `<case>.repeat=2`, ...: each is a case
of its own to the run, and all are samples of one case to a comparison.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Protocol, TypeVar

_REPEAT: Final = re.compile(r"(?P<case>.+)\.repeat=(?P<number>[1-9]\d*)")


class Named(Protocol):
    """A case's result, as far as it matters here."""

    @property
    def case(self) -> str:
        """The case's id."""


Case = TypeVar("Case", bound=Named)


def repeat_id(case: str, number: int) -> str:
    """The id of a case's repeat; `number` counts from 1."""
    return f"{case}.repeat={number}"


def split_repeat(case_id: str) -> tuple[str, int | None]:
    """The case an id belongs to, and which repeat it is; None when it isn't repeated."""
    match = _REPEAT.fullmatch(case_id)
    return (case_id, None) if match is None else (match["case"], int(match["number"]))


def group_repeats(cases: Iterable[Case]) -> Mapping[str, tuple[Case, ...]]:
    """Case to its repeats, in the order in which they come."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        found.setdefault(split_repeat(case.case)[0], []).append(case)
    return {case: tuple(repeats) for case, repeats in found.items()}

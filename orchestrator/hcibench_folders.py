"""Which of HCIBench's result folders belong together: cases, repeats, groups of a mixed workload.

A folder is `<case>-<epoch>`. In Mixed Workload Mode (3.0) each group of VMs that ran at the same
time has one of its own, `group<N>-<file>-<epoch>`, and nothing adds them up; a group that comes
again begins the next round.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from orchestrator.repeats import repeat_id

#: The case that the groups of a mixed workload are together.
MIXED: Final = "mixed"

_EPOCH: Final = re.compile(r"(?P<case>.+)-(?P<epoch>\d{9,11})")
_GROUP: Final = re.compile(r"group(?P<number>\d+)-(?P<file>.+)")


class Round(Struct, frozen=True):
    """One case that ran once: its id and its folders' names, several where groups ran together."""

    case: str
    folders: tuple[str, ...]

    @property
    def mixed(self) -> bool:
        """Whether the folders are groups of a mixed workload."""
        return len(self.folders) > 1


def split_folder(name: str) -> tuple[str, int | None]:
    """A result folder's case name and epoch (seconds): `fio-…-4threads-1700000000`."""
    match = _EPOCH.fullmatch(name)
    return (name, None) if match is None else (match["case"], int(match["epoch"]))


def rounds(names: Iterable[str]) -> list[Round]:
    """The cases of a test in the order in which they ran; one that ran again is a repeat.

    A group without another beside it stays a case under its own name.
    """
    bundles: list[list[str]] = []
    mix: list[str] = []
    for name in sorted(names, key=_order):
        if group_number(name) is None:
            bundles.append([name])
            continue
        if not mix or group_number(name) in {group_number(member) for member in mix}:
            mix = []
            bundles.append(mix)
        mix.append(name)
    bases = [MIXED if len(found) > 1 else split_folder(found[0])[0] for found in bundles]
    pairs = zip(_ids(bases), bundles, strict=True)
    return [Round(case, tuple(folders)) for case, folders in pairs]


def _order(name: str) -> tuple[int, int, str]:
    return split_folder(name)[1] or 0, group_number(name) or 0, name


def group_number(name: str) -> int | None:
    """Which group of a mixed workload a folder is of, counted from 1; None: of none."""
    match = _GROUP.fullmatch(name)
    return None if match is None else int(match["number"])


def _ids(bases: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    ids = []
    for base in bases:
        seen[base] = seen.get(base, 0) + 1
        ids.append(repeat_id(base, seen[base]) if bases.count(base) > 1 else base)
    return ids

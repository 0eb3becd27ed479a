"""Attendants: whoever does something around every case (clears a cache, watches the platform).

An attendant never fails a case. What it has to say are reasons for the verdict and a document of
its own; both stand in the run folder beside raw/, so that a later assessment has them as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from orchestrator.results import Reason
from orchestrator.store import RunFolder


@dataclass(frozen=True)
class Attendance:
    """What an attendant has to say of one case. `document` is plain JSON data."""

    reasons: tuple[Reason, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict)


class Attendant(Protocol):
    """Attends the cases of a run, in this order; instants by the controller's clock."""

    @property
    def name(self) -> str:
        """What its documents are filed under."""
        ...

    def open(self, folder: RunFolder) -> None:
        """The walk begins (a resume too): mend what an earlier process left undone."""
        ...

    def before(self, case: str, workers: Sequence[str]) -> None:
        """A case is about to be armed. May take long; what fails is told by `after`."""
        ...

    def begin(self, case: str, workers: Sequence[str]) -> None:
        """A case is armed, or was found under way."""
        ...

    def during(self) -> None:
        """The case was looked at; cheap."""
        ...

    def after(self, case: str, begin: float, end: float) -> Attendance:
        """The case is over; `begin` to `end` is what was measured."""
        ...

    def close(self) -> None:
        """The walk ends, well or not."""
        ...


def keep_attendance(folder: RunFolder, case: str, name: str, said: Attendance) -> None:
    """File what an attendant said of a case."""
    record = {"reasons": said.reasons, "document": dict(said.document)}
    folder.write_platform(case, name, msgspec.json.format(msgspec.json.encode(record), indent=1))


def read_attendance(folder: RunFolder, case: str) -> dict[str, Attendance]:
    """What all attendants said of a case, by their names."""
    found = {}
    for name, content in folder.platform(case).items():
        record = msgspec.json.decode(content, type=_Filed)
        found[name] = Attendance(record.reasons, record.document)
    return found


class _Filed(msgspec.Struct):
    reasons: tuple[Reason, ...]
    document: dict[str, Any]

"""What a run ran under, as flat named conditions: from its plan and its result's provenance.

Provenance may hold `conditions` (name to value: storage policy, image, compression, sizing formula,
whatever the user or the vSphere side states); they count like those of the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from orchestrator.suites import ALL

_SAYS_NOTHING: Final = frozenset({"name", "description"})
_RUN_FIELDS: Final = ("suite", "prepare", "hcio", "local", "imported")


def run_conditions(plan: Mapping[str, Any], provenance: Mapping[str, Any]) -> dict[str, Any]:
    """The conditions that hold for every case. `plan` is the plan's data, {} when there is none."""
    found = {name: plan[name] for name in _RUN_FIELDS if plan.get(name) is not None}
    workers = plan.get("workers")
    if isinstance(workers, Sequence) and not isinstance(workers, str):
        targets = [len(worker.get("targets") or ()) for worker in _mappings(workers)]
        found["targets a worker"] = ", ".join(str(number) for number in sorted(set(targets)))
        sizes = {t.get("size") for w in _mappings(workers) for t in _mappings(w.get("targets"))}
        found["target size"] = ", ".join(sorted(str(size) for size in sizes if size is not None))
    stated = provenance.get("conditions")
    if isinstance(stated, Mapping):
        found |= dict(_flat("", stated))
    return {name: value for name, value in found.items() if value not in (None, "")}


def case_conditions(plan: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Case id to its profile's fields; those of one of several groups are named `group/field`."""
    found: dict[str, dict[str, Any]] = {}
    for case in _mappings(plan.get("cases")):
        groups = case.get("groups")
        if not isinstance(case.get("id"), str) or not isinstance(groups, Mapping):
            continue
        fields: dict[str, Any] = {}
        for group, profile in groups.items():
            if isinstance(profile, Mapping):
                said = {key: value for key, value in profile.items() if key not in _SAYS_NOTHING}
                fields |= dict(_flat("" if group == ALL else f"{group}/", said))
        found[case["id"]] = fields
    return found


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _flat(prefix: str, value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _flat(f"{prefix}{key}.", inner)
        elif inner not in (None, [], ()):
            yield f"{prefix}{key}", inner

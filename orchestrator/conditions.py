"""What a run ran under, as flat named conditions: from its plan and its result's provenance.

Provenance may hold `conditions` (name to value: storage policy, image, compression, sizing formula,
whatever the user or the vSphere side states); they count like those of the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from orchestrator.cluster import WorkerShape
from orchestrator.suites import ALL

#: How an image is named, by its kind: template, OVF, or a library's item.
_SOURCES: Final = ("template", "ovf", "library", "item")
_SAYS_NOTHING: Final = frozenset({"name", "description"})
_RUN_FIELDS: Final = (
    *("suite", "prepare", "hcio", "local", "imported"),
    *("clear_cache", "warm_up", "until"),
)


def run_conditions(plan: Mapping[str, Any], provenance: Mapping[str, Any]) -> dict[str, Any]:
    """The conditions that hold for every case. `plan` is the plan's data, {} when there is none."""
    found = dict(_flat("", {name: plan.get(name) for name in _RUN_FIELDS}))
    found |= _made(plan.get("vsphere"))
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


def _made(section: Any) -> dict[str, Any]:
    """Of workers that vSphere makes: the image, and their shape where the section states it."""
    shape = section.get("workers") if isinstance(section, Mapping) else None
    if not isinstance(shape, Mapping):
        return {}
    source = shape.get("source")
    named = [source.get(key) for key in _SOURCES] if isinstance(source, Mapping) else []
    found = {"image": "/".join(str(name) for name in named if name)}
    if shape.get("count") == "auto":
        return found  # the sizing says it
    return found | {f"worker {key}": shape.get(key) for key in ("cpus", "memory")}


def sizing_conditions(sized: WorkerShape, formula: str) -> dict[str, Any]:
    """What `count: auto` came to, and by which formula; stated beside the figures."""
    return {"sizing formula": formula, "worker cpus": sized.cpus, "worker memory": sized.memory}


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

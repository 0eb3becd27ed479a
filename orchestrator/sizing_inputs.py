"""What a sizing formula must be told: what each input means, and where its value came from.

A value comes from the user (given), from vCenter, or from a default; the user's always wins, and
what vCenter said stays beside it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from orchestrator.errors import ConfigError

Source = Literal["given", "vcenter", "default"]
Value = int | bool | str


@dataclass(frozen=True)
class Wanted:
    """What an input means, its choices if it is a word, and its default (None: must be known)."""

    meaning: str
    default: Value | None = None
    choices: tuple[str, ...] = ()
    least: int = 1

    @property
    def is_flag(self) -> bool:
        """Whether it is yes or no."""
        return isinstance(self.default, bool)


INPUTS: Final[Mapping[str, Wanted]] = MappingProxyType(
    {
        "storage": Wanted("what the datastore is", choices=("osa", "esa", "plain")),
        "hosts": Wanted("hosts of the cluster that owns the datastore (plain: that see it)"),
        "datastores": Wanted("datastores under test", 1),
        "capacity_gib": Wanted("capacity of the datastore, GiB"),
        "free_gib": Wanted("free space of the datastore, GiB", least=0),
        "disk_groups": Wanted("OSA: cache disks of the cluster, the witness's one counted"),
        "cache_gib": Wanted("OSA: sum of all cache disks, GiB"),
        "all_flash": Wanted("OSA: no magnetic capacity disks", True),
        "witness": Wanted("OSA: a witness host holds one of the disk groups", False),
        "dedupe": Wanted("OSA: the cluster removes duplicates", False),
        "failures_to_tolerate": Wanted("policy: host failures to tolerate", 1, least=0),
        "site_failures_to_tolerate": Wanted(
            "policy: failures to tolerate inside a site", 0, least=0
        ),
        "erasure_coding": Wanted("policy: RAID-5/6 rather than mirrors", False),
        "checksum": Wanted("policy: object checksums are on", True),
        "latency_target": Wanted(
            "aim for a latency instead of the most I/O", "max", ("max", "low", "medium", "high")
        ),
    }
)

_COMMON: Final = ("storage", "datastores", "capacity_gib", "free_gib", "latency_target")
_POLICY: Final = (
    "failures_to_tolerate",
    "site_failures_to_tolerate",
    "erasure_coding",
    "checksum",
)
_NEEDED: Final = {
    "osa": (*_COMMON, *_POLICY, "disk_groups", "cache_gib", "all_flash", "witness", "dedupe"),
    "esa": (*_COMMON, *_POLICY, "hosts"),
    "plain": (*_COMMON, "hosts"),
}


@dataclass(frozen=True)
class Input:
    """One input of a formula, where it came from, and what vCenter said if that was overridden."""

    name: str
    value: Value
    source: Source
    overridden: Value | None = None


def parse_input(name: str, text: str) -> Value:
    """The value of `--set name=text`. ConfigError for an unknown name or a value of other kind."""
    wanted = _wanted(name)
    if wanted.is_flag:
        return _parse_flag(name, text)
    if wanted.choices:
        if text not in wanted.choices:
            raise ConfigError(
                f"{name}: {text!r} is none of {', '.join(wanted.choices)}",
                next_step=f"{name} is {wanted.meaning}",
            )
        return text
    if not text.isascii() or not text.isdigit() or int(text) < wanted.least:
        raise ConfigError(
            f"{name}: {text!r} is not a whole number of at least {wanted.least}",
            next_step=f"{name} is: {wanted.meaning}",
        )
    return int(text)


def _parse_flag(name: str, text: str) -> bool:
    word = text.lower()
    if word not in ("yes", "no", "true", "false"):
        raise ConfigError(f"{name}: {text!r} is neither yes nor no")
    return word in ("yes", "true")


def _wanted(name: str) -> Wanted:
    if name in INPUTS:
        return INPUTS[name]
    near = difflib.get_close_matches(name, INPUTS, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ConfigError(
        f"{name!r} is no input of a sizing formula{hint}",
        next_step="the inputs are " + ", ".join(INPUTS),
    )


def resolve_inputs(given: Mapping[str, Value], vcenter: Mapping[str, Value]) -> dict[str, Input]:
    """The inputs that the storage kind needs, each with its source.

    ConfigError names every input that is missing at once.
    """
    for name in (*given, *vcenter):
        _wanted(name)
    storage = given.get("storage", vcenter.get("storage"))
    if storage not in _NEEDED:
        raise ConfigError(
            "the storage kind is not known",
            means="osa, esa and plain datastores have formulas of their own",
            next_step="give an inventory with a vsphere section (-i), "
            "or --set storage=osa|esa|plain",
        )
    found = {name: _find(name, given, vcenter) for name in _NEEDED[str(storage)]}
    missing = [name for name, value in found.items() if value is None]
    if missing:
        raise ConfigError(
            "inputs of the sizing are missing: "
            + "; ".join(f"{name} ({INPUTS[name].meaning})" for name in missing),
            next_step="give an inventory with a vsphere section (-i), or "
            + " ".join(f"--set {name}=..." for name in missing),
        )
    return {name: value for name, value in found.items() if value is not None}


def _find(name: str, given: Mapping[str, Value], vcenter: Mapping[str, Value]) -> Input | None:
    if name in given:
        told = vcenter.get(name)
        return Input(name, given[name], "given", told if told != given[name] else None)
    if name in vcenter:
        return Input(name, vcenter[name], "vcenter")
    default = INPUTS[name].default
    return None if default is None else Input(name, default, "default")

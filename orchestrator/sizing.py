"""How many workers, disks and bytes an easy run takes: named formulas whose every step is shown.

The formulas are HCIBench's own, by release, so that a figure can be set beside one measured with
it (easy-run.rb of release 2.8.3 and of 3.0). Sizes are whole GiB, as there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, TypeVar

from orchestrator.errors import ConfigError
from orchestrator.sizing_inputs import Input, Value

_Figure = TypeVar("_Figure", int, float, str)

DEFAULT_FORMULA: Final = "hcibench-3.0"

#: Of each easy run: virtual CPUs, memory (GiB), measured seconds, ramp seconds.
WORKER_CPUS: Final = 4
WORKER_MEMORY_GIB: Final = 8
RUNTIME_S: Final = 3600
RAMP_S: Final = 1800
#: Part of a write cache that a disk group is taken to use at most, GiB (vSAN OSA all-flash).
CACHE_PER_GROUP_GIB: Final = 600
#: Disk size of an ESA or plain easy run where it fits, GiB (3.0).
USUAL_DISK_GIB: Final = 64
#: Latency targets of 3.0 for (random, sequential) cases, microseconds at the 95th percentile.
LATENCY_TARGETS_US: Final = {
    "low": (1000, 3000),
    "medium": (5000, 10_000),
    "high": (10_000, 20_000),
}


@dataclass(frozen=True)
class Step:
    """One line of the arithmetic: `name = expression = value`, `note` says why."""

    name: str
    expression: str
    value: Value | float
    note: str = ""

    def __str__(self) -> str:
        shown = f"{self.value:g}" if isinstance(self.value, float) else str(self.value)
        middle = "" if self.expression == shown else f"{self.expression} = "
        return f"{self.name} = {middle}{shown}" + (f"  ({self.note})" if self.note else "")


@dataclass(frozen=True)
class Sizing:
    """What an easy run takes, with the inputs and steps that led there.

    Sizes in GiB unless named; `large_block` in bytes, times in seconds, latency in microseconds.
    `prepare` is how disks are filled first; the percents shape the data of the cases themselves.
    """

    formula: str
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    workers: int
    disks_per_worker: int
    disk_gib: int
    iodepth_random: int
    iodepth_sequential: int
    large_block: int
    prepare: Literal["zero", "random"]
    compress_percent: int | None
    dedupe_percent: int | None
    latency_us: tuple[int, int] | None
    workloads: tuple[str, ...]
    cpus: int = WORKER_CPUS
    memory_gib: int = WORKER_MEMORY_GIB
    runtime_s: int = RUNTIME_S
    ramp_s: int = RAMP_S

    @property
    def deployed_gib(self) -> int:
        """Sum of all data disks, before the policy's replicas."""
        return self.workers * self.disks_per_worker * self.disk_gib


@dataclass
class _Sheet:
    """The inputs of one sizing, and the arithmetic as it grows."""

    inputs: Mapping[str, Input]
    steps: list[Step] = field(default_factory=list)

    def number(self, name: str) -> int:
        return int(self.inputs[name].value)

    def flag(self, name: str) -> bool:
        return bool(self.inputs[name].value)

    def word(self, name: str) -> str:
        return str(self.inputs[name].value)

    def step(self, name: str, expression: str, value: _Figure, note: str = "") -> _Figure:
        """Keep one line of the arithmetic and hand its value on."""
        self.steps.append(Step(name, expression, value, note))
        return value


def size_easy_run(inputs: Mapping[str, Input], formula: str = DEFAULT_FORMULA) -> Sizing:
    """Size an easy run by a named formula. ConfigError for an unknown one, or what it can't do."""
    if formula not in FORMULAS:
        raise ConfigError(
            f"there is no sizing formula {formula!r}", next_step=f"use one of {', '.join(FORMULAS)}"
        )
    return FORMULAS[formula](_Sheet(inputs))


def _disk_groups(sheet: _Sheet) -> int:
    groups = sheet.number("disk_groups")
    if sheet.flag("witness"):
        groups = sheet.step(
            "disk groups", f"{groups} - 1", groups - 1, "the witness's holds no data"
        )
    if groups < 1:
        raise ConfigError("no disk group holds data", next_step="--set disk_groups=... is wrong")
    return groups


def _base_osa(sheet: _Sheet, groups: int) -> tuple[int, float]:
    cache = sheet.number("cache_gib")
    if not sheet.flag("all_flash"):
        base = sheet.step("base size", "cache", cache, "hybrid: the whole cache, GiB")
        return base, sheet.step("ratio", "0.25", 0.25, "hybrid")
    base = min(groups * CACHE_PER_GROUP_GIB, cache)
    sheet.step("base size", f"min({groups} x {CACHE_PER_GROUP_GIB}, {cache})", base, "GiB of cache")
    return base, sheet.step("ratio", "0.75", 0.75, "all-flash")


def _base_capacity(sheet: _Sheet) -> int:
    capacity = sheet.number("capacity_gib")
    return sheet.step("base size", f"{capacity} / 3", capacity // 3, "a third of the capacity, GiB")


def _amplification(sheet: _Sheet, erasure: Mapping[int, float]) -> float:
    """Bytes on disk for each byte of a worker, by the policy; `erasure` is RAID-5/6's by copies."""
    first = sheet.number("failures_to_tolerate")
    second = sheet.number("site_failures_to_tolerate")
    copies = sheet.step("copies", f"({first} + 1) x ({second} + 1)", (first + 1) * (second + 1))
    if sheet.flag("erasure_coding") and copies in erasure:
        raid = "RAID-5" if copies == 2 else "RAID-6"
        return sheet.step("amplification", f"{erasure[copies]:g}", erasure[copies], raid)
    return sheet.step("amplification", "copies", float(copies), "mirrors")


def _halve(sheet: _Sheet, base: int, fits: Callable[[int], bool], rule: str) -> int:
    """Halve the base size until it fits; ConfigError when nothing does (2.8.3 then never ends)."""
    while not fits(base):
        if base == 0:
            raise ConfigError(
                f"no size fits: {rule} never holds",
                means="the datastore is too full for an easy run",
                next_step="free space, or --set free_gib=... if the figure is wrong",
            )
        base = sheet.step("base size", f"{base} / 2", base // 2, f"until {rule}")
    return base


def _per_disk(sheet: _Sheet, total: float, disks: int) -> int:
    return sheet.step(
        "disk size", f"max(floor({total:g} / {disks}), 1)", max(math.floor(total / disks), 1), "GiB"
    )


def _depths(sheet: _Sheet, budget: int, disks: int, divider: int) -> tuple[int, int]:
    random = sheet.step("iodepth of random cases", f"{budget} / {disks}", budget // disks)
    sequential = sheet.step(
        "iodepth of sequential cases", f"{random} / {divider}", max(random // divider, 1)
    )
    return random, sequential


def _checksum_divider(sheet: _Sheet) -> int:
    on = sheet.flag("checksum")
    return sheet.step("divider", "4 if checksum else 1", 4 if on else 1, "for sequential cases")


def _fill(sheet: _Sheet, random: bool, why: str) -> Literal["zero", "random"]:
    method: Literal["zero", "random"] = "random" if random else "zero"
    sheet.step("prepare", method, method, why)
    return method


def _data_disks(sheet: _Sheet) -> tuple[int, tuple[int, int] | None]:
    target = sheet.word("latency_target")
    disks = 8 if target == "max" else 4
    sheet.step("disks per worker", "8 if no latency target else 4", disks)
    return disks, LATENCY_TARGETS_US.get(target)


def _hcibench_3_0(sheet: _Sheet) -> Sizing:
    """Release 3.0 (thread constant of ESA doubled in February 2026)."""
    storage = sheet.word("storage")
    if sheet.number("datastores") != 1:
        raise ConfigError(
            "hcibench-3.0 sizes for exactly one datastore",
            next_step="name one datastore, or use --formula hcibench-2.8.3",
        )
    return _osa_3_0(sheet) if storage == "osa" else _capacity_3_0(sheet, storage)


def _fit_3_0(sheet: _Sheet, base: int) -> int:
    free = sheet.number("free_gib")
    return _halve(sheet, base, lambda size: size <= free * 0.8, f"{free} x 0.8 holds it")


def _osa_3_0(sheet: _Sheet) -> Sizing:
    groups = _disk_groups(sheet)
    base, ratio = _base_osa(sheet, groups)
    base = _fit_3_0(sheet, base)
    amplification = _amplification(sheet, {2: 1.33, 3: 1.5})
    workers = sheet.step("workers", f"{groups} x 2", groups * 2, "two for a disk group")
    disks, latency = _data_disks(sheet)
    total = base * ratio / amplification
    sheet.step("total", f"{base} x {ratio:g} / {amplification:g}", total, "GiB over all workers")
    size = _per_disk(sheet, total, workers * disks)
    divider = _checksum_divider(sheet)
    random, sequential = _depths(sheet, 32, disks, divider)
    dedupe = sheet.flag("dedupe")
    method = _fill(sheet, dedupe, "random only where duplicates are removed")
    return _sizing(
        "hcibench-3.0", sheet, workers, disks, size, (random, sequential), 256, method, latency
    )


def _capacity_3_0(sheet: _Sheet, storage: str) -> Sizing:
    base = _fit_3_0(sheet, _base_capacity(sheet))
    hosts = sheet.number("hosts")
    total = float(base)
    if storage == "esa":
        amplification = _amplification(sheet, {2: 1.25 if hosts > 4 else 1.5, 3: 1.5})
        total = base / amplification
        sheet.step("total", f"{base} / {amplification:g}", total, "GiB over all workers")
    else:
        sheet.step("total", "base size", total, "GiB over all workers")
    workers = sheet.step("workers", f"{hosts} x 2", hosts * 2, "two for a host")
    disks, latency = _data_disks(sheet)
    usual = workers * disks * USUAL_DISK_GIB
    if usual > total:
        size = _per_disk(sheet, total, workers * disks)
    else:
        size = USUAL_DISK_GIB
        sheet.step("disk size", str(size), size, f"GiB: {usual} in all fits")
    depths = _depths(sheet, 128, disks, 8)
    method = _fill(sheet, True, "always random here: ESA compresses unless told otherwise")
    return _sizing("hcibench-3.0", sheet, workers, disks, size, depths, 512, method, latency)


def _hcibench_2_8_3(sheet: _Sheet) -> Sizing:
    """Release 2.8.3: vSAN alone, several datastores, no latency targets."""
    storage = sheet.word("storage")
    if storage == "plain" or sheet.word("latency_target") != "max":
        what = "plain datastores" if storage == "plain" else "latency targets"
        raise ConfigError(f"hcibench-2.8.3 knows no {what}", next_step="use --formula hcibench-3.0")
    stores = sheet.number("datastores")
    if storage == "osa":
        groups = _disk_groups(sheet)
        base, ratio = _base_osa(sheet, groups)
        workers = sheet.step("workers", f"{groups} x 2 x {stores}", groups * 2 * stores)
    else:
        base, ratio = _base_capacity(sheet), sheet.step("ratio", "0.25", 0.25, "ESA")
        hosts = sheet.number("hosts")
        workers = sheet.step("workers", f"{hosts} x 4 x {stores}", hosts * 4 * stores)
    base = _fit_2_8_3(sheet, base)
    amplification = _amplification(sheet, {2: 1.33, 3: 1.66})
    disks = sheet.step("disks per worker", "8", 8)
    total = base * ratio / amplification
    sheet.step("total", f"{base} x {ratio:g} / {amplification:g}", total, "GiB on each datastore")
    size = _per_disk(sheet, total, workers // stores * disks)
    divider = _checksum_divider(sheet)
    depths = _depths(sheet, 32, disks, divider)
    random = storage == "esa" or sheet.flag("dedupe")
    method = _fill(sheet, random, "random on ESA and where duplicates are removed")
    return _sizing("hcibench-2.8.3", sheet, workers, disks, size, depths, 256, method, None)


def _fit_2_8_3(sheet: _Sheet, base: int) -> int:
    capacity, free = sheet.number("capacity_gib"), sheet.number("free_gib")
    rule = f"{free} less it leaves {capacity} x 0.2"
    return _halve(sheet, base, lambda size: free - size >= capacity * 0.2, rule)


def _sizing(
    formula: str,
    sheet: _Sheet,
    workers: int,
    disks: int,
    size: int,
    depths: tuple[int, int],
    large_kib: int,
    method: Literal["zero", "random"],
    latency: tuple[int, int] | None,
) -> Sizing:
    shaped = 50 if method == "random" else None
    return Sizing(
        formula=formula,
        inputs=tuple(sheet.inputs.values()),
        steps=tuple(sheet.steps),
        workers=workers,
        disks_per_worker=disks,
        disk_gib=size,
        iodepth_random=depths[0],
        iodepth_sequential=depths[1],
        large_block=large_kib * 1024,
        prepare=method,
        compress_percent=shaped,
        dedupe_percent=shaped,
        latency_us=latency,
        workloads=_WORKLOADS[formula](f"{large_kib}k"),
    )


#: The cases of each release in HCIBench's short names: block size, read percent.
_WORKLOADS: Final[Mapping[str, Callable[[str], tuple[str, ...]]]] = MappingProxyType(
    {
        "hcibench-3.0": lambda large: (
            "4k70r",
            "8k50r",
            "4k100r",
            "4k0r",
            f"{large}100r",
            f"{large}0r",
        ),
        "hcibench-2.8.3": lambda large: ("4k70r", "4k100r", "8k50r", f"{large}0r"),
    }
)

FORMULAS: Final[Mapping[str, Callable[[_Sheet], Sizing]]] = MappingProxyType(
    {"hcibench-3.0": _hcibench_3_0, "hcibench-2.8.3": _hcibench_2_8_3}
)

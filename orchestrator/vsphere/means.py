"""What a deploy works with: the vCenter, its patience, and many workers at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from orchestrator.errors import (
    HcioError,
)
from orchestrator.inventory import Worker
from orchestrator.vsphere.base import (
    Machine,
    Mark,
    Site,
    VSphere,
)

#: Workers that are worked on at once: vCenter runs 8 provisioning tasks a host and datastore.
PARALLEL: Final = 8


K = TypeVar("K")
R = TypeVar("R")


@dataclass(frozen=True)
class Patience:
    """How long each kind of step may take, in seconds."""

    clone: float = 3600.0
    change: float = 600.0
    power: float = 300.0
    guest: float = 600.0
    policy: float = 600.0


@dataclass(frozen=True)
class Tools:
    """What a deploy works with. `say` gets one line a step; `ready` makes sure that a worker
    answers by SSH and has fio, or raises; both may be called from several threads."""

    vsphere: VSphere
    say: Callable[[str], None] = lambda line: None
    ready: Callable[[Worker], None] = lambda worker: None
    parallel: int = PARALLEL
    patience: Patience = Patience()
    monotonic: Callable[[], float] = time.monotonic


@dataclass(frozen=True)
class Gathered(Generic[R]):
    results: dict[str, R]
    errors: dict[str, Exception]


def together(tools: Tools, items: Mapping[str, K], work: Callable[[K], R]) -> Gathered[R]:
    """Do it for every item, so many at once; errors of ours are kept, bugs come out."""
    gathered: Gathered[R] = Gathered({}, {})
    if not items:
        return gathered
    with ThreadPoolExecutor(max_workers=min(tools.parallel, len(items))) as pool:
        futures = {name: pool.submit(work, item) for name, item in items.items()}
        try:
            for name, future in futures.items():
                try:
                    gathered.results[name] = future.result()
                except HcioError as error:
                    gathered.errors[name] = error
        except BaseException:
            for future in futures.values():
                future.cancel()
            raise
    return gathered


def rule_name(deployment: str, identity: str) -> str:
    """The name of a deployment's keep-apart rule; the id keeps it from being anyone else's."""
    return f"hcio {deployment} {identity}: workers apart"


def note(mark: Mark) -> str:
    return (
        f"Made by hcio for the deployment {mark.name} ({mark.deployment}).\n"
        f"hcio workers destroy removes it."
    )


def remove_machine(vsphere: VSphere, machine: Machine, patience: Patience) -> None:
    """Switch a VM of ours off and remove it with its disks."""
    if machine.power != "off":
        vsphere.power(machine.ref, "off", timeout=patience.power)
    vsphere.destroy(machine.ref, timeout=patience.change)


def unpin(vsphere: VSphere, site: Site, refs: set[str], patience: Patience) -> None:
    """Take the overrides of VMs back that are about to go."""
    pinned = vsphere.pinned(site) & refs if refs else frozenset()
    if pinned:
        vsphere.pin(site, sorted(pinned), False, timeout=patience.change)

"""Whether vSAN is fit to be measured: health, resync, performance service, cache, data shape."""

from __future__ import annotations

from orchestrator.preflight import Finding, green, red, yellow
from orchestrator.units import format_duration, show_size
from orchestrator.vsphere.facts import Vsan, VsanState

_NO_VSAN = "no datastore under test is vSAN's"


def check_vsan_health(state: VsanState | None) -> Finding:
    """vSAN's own health summary; what it calls unknown is red: it could not tell."""
    if state is None:
        return green(_NO_VSAN)
    tests = "; ".join(f"{name}: {light}" for name, light in sorted(state.failing.items()))
    text = f"vSAN health is {state.health}" + (f" ({tests})" if tests else "")
    if state.health == "green":
        return green(text)
    step = "see Monitor, vSAN, Skyline Health in vCenter; figures of an unhealthy cluster mislead"
    return yellow(text, step) if state.health == "yellow" else red(text, step)


def check_resync(state: VsanState | None) -> Finding:
    """Whether vSAN copies data just now; a case that meets a resync has the verdict unknown."""
    if state is None:
        return green(_NO_VSAN)
    if state.resync_bytes is None:
        return red("the resync state could not be read", "see Monitor, vSAN, Resyncing Objects")
    if not state.resync_bytes and not state.resync_objects:
        return green("nothing is resyncing")
    left = ""
    if state.resync_seconds is not None:
        left = f", vSAN expects {format_duration(round(state.resync_seconds))}"
    objects = "objects" if state.resync_objects is None else f"{state.resync_objects} objects"
    return red(
        f"{objects} are resyncing, {show_size(state.resync_bytes)} left{left}",
        "wait until it is done",
    )


def check_performance_service(vsan: Vsan | None) -> Finding:
    """Whether vSAN's performance service keeps figures; without it only hosts' counters remain."""
    if vsan is None:
        return green(_NO_VSAN)
    if vsan.performance_service:
        return green("the performance service is on")
    word = "off" if vsan.performance_service is False else "in an unknown state"
    return yellow(
        f"the performance service is {word}: the report will have no vSAN figures",
        "switch it on under Configure, vSAN, Services",
    )


def check_clear_cache(asked: bool, vsan: Vsan | None, own_command: bool) -> Finding:
    """Whether clearing the cache before each case can do what the suite asks."""
    if not asked:
        return green("the suite does not ask to clear the cache")
    if own_command:
        return green("each host's own command clears the cache")
    if vsan is None:
        return red(
            "the suite asks to clear the cache, but nothing is known of this storage's cache",
            "give clear_cache.command in the inventory, or leave clear_cache out of the suite",
        )
    if vsan.architecture == "esa":
        return yellow(
            "vSAN ESA has no cache tier: nothing will be cleared, and the result says so",
            "leave clear_cache out of the suite, or make the working set larger than any cache",
        )
    return green("vSAN OSA: read caches dropped and write buffers drained over SSH")


def check_prepare(method: str, vsan: Vsan | None) -> Finding:
    """Whether the fill suits the storage: `none`, `zero`, `random` or `compressible`."""
    if method == "none":
        return yellow(
            "disks are not written first: reads of never-written blocks never reach a disk, and "
            "first writes are slower than later ones",
            "prepare with random unless the disks were filled before",
        )
    shrinks = vsan is not None and (vsan.dedupe or vsan.compression or vsan.architecture == "esa")
    if method == "zero" and shrinks:
        return yellow(
            "this vSAN compresses or removes duplicates: zeros take no space, and are read fast",
            "prepare with random or compressible",
        )
    return green(f"prepare {method}")

"""Checks of the data and what it ran through: caches, the fill, hosts, devices and links."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.casefacts import Limit
from orchestrator.plausibility.base import Plausible, rate_of, sides
from orchestrator.results import Reason

_GIB = 1 << 30


def check_working_set(subject: Plausible) -> Iterator[Reason]:
    """The data doesn't fit into a cache that is known."""
    size = subject.facts.working_set_bytes
    done = {name for name, _ in sides(subject.case.total)}
    for cache in subject.facts.caches:
        served = [s for s, on in (("read", cache.reads), ("write", cache.writes)) if on]
        hit = [side for side in served if side in done]
        if size is None or not hit or size > cache.bytes:
            continue
        yield Reason(
            code="working-set-in-cache",
            text=f"the working set of {size / _GIB:.3g} GiB fits into {cache.name} "
            f"({cache.bytes / _GIB:.3g} GiB): {' and '.join(hit)}s may measure that cache",
            threshold="working set larger than the cache",
            evidence=f"{size} bytes against {cache.bytes} bytes",
            next_step="use larger or more disks, or a larger working set; if the cache is what "
            "you want to measure, say so in the report",
        )


def check_buffered(subject: Plausible) -> Iterator[Reason]:
    """I/O went past the workers' own page cache. Writes that are flushed reach the storage."""
    total = subject.case.total
    done = {name for name, _ in sides(total)}
    flushed = total is not None and total.sync is not None and bool(total.sync.count)
    names = [name for name in subject.counted() if name in subject.facts.buffered]
    if names and not (flushed and "read" not in done):
        yield Reason(
            code="buffered-io",
            text="I/O went through the workers' page cache: their memory may have answered reads "
            "and taken writes",
            worker=names[0] if len(names) == 1 else None,
            threshold="direct=1 on every job",
            evidence=f"direct=0 on {len(names)} of {len(subject.counted())} workers",
            next_step="set direct (fio's own default is buffered); if the page cache is what "
            "you want to measure, say so in the report",
        )


def check_filled(subject: Plausible) -> Iterator[Reason]:
    """The fill covered as much as the test reads (case 29)."""
    filled, size = subject.facts.filled_bytes, subject.facts.working_set_bytes
    reads = any(name == "read" for name, _ in sides(subject.case.total))
    if reads and filled is not None and size is not None and filled < size:
        yield Reason(
            code="fill-too-small",
            text=f"{filled / _GIB:.3g} GiB were filled, {size / _GIB:.3g} GiB are read: the rest "
            "was never written, and reads of it come from nothing",
            level="invalid",
            threshold="filled bytes at least the working set",
            evidence=f"{filled} of {size} bytes ({filled / size:.0%})",
            next_step="prepare over the same targets and span as the case uses",
        )


def check_host_counters(subject: Plausible) -> Iterator[Reason]:
    """Guests and hosts counted about the same I/O."""
    counters, limits = subject.facts.host_counters, subject.facts.thresholds
    if counters is None:
        return
    for figure, unit in (("iops", "IOPS"), ("bytes_per_s", "B/s")):
        host, guest = getattr(counters, figure), rate_of(subject.case.total, figure)
        if not host or guest is None:
            continue
        evidence = f"guests {guest:.0f} {unit}, {counters.source} {host:.0f} {unit}"
        if guest > limits.guest_above_host * host:
            yield Reason(
                code="guest-above-host",
                text=f"the guests claim {guest / host:.0%} of what the hosts saw ({unit})",
                level="invalid",
                threshold=f"at most {limits.guest_above_host:.0%}",
                evidence=evidence,
                next_step="some I/O never left the guests: use direct=1 and larger working sets",
            )
        elif host > limits.host_above_guest * guest:
            yield Reason(
                code="other-load",
                text=f"the hosts saw {host / guest:.0%} of what the guests did ({unit}): "
                "something else loads this storage",
                threshold=f"at most {limits.host_above_guest:.0%}",
                evidence=evidence,
                next_step="stop other machines, backups and resyncs, then run it again",
            )


def check_limits(subject: Plausible) -> Iterator[Reason]:
    """Nothing is faster than the devices and links that the inventory states."""
    for limit in subject.facts.limits:
        for figure, unit in (("iops", "IOPS"), ("bytes_per_s", "B/s")):
            most = getattr(limit, figure)
            found = _under_limit(subject, limit, figure)
            if most and found is not None:
                yield from _limit_reasons(subject, limit, most, found, unit)


def _under_limit(subject: Plausible, limit: Limit, figure: str) -> float | None:
    if not limit.workers:
        return rate_of(subject.case.total, figure, limit.side)
    counted = subject.counted()
    parts = [rate_of(counted[n].total, figure, limit.side) for n in limit.workers if n in counted]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _limit_reasons(
    subject: Plausible, limit: Limit, most: float, found: float, unit: str
) -> Iterator[Reason]:
    limits = subject.facts.thresholds
    evidence = f"{found:.0f} {unit} against {most:.0f} {unit} ({found / most:.0%})"
    if found > limits.above_limit * most:
        yield Reason(
            code="above-limit",
            text=f"{found / most:.0%} of what {limit.name} can carry",
            level="invalid",
            threshold=f"at most {limits.above_limit:.0%} of the stated limit",
            evidence=evidence,
            next_step="a cache answered, or the stated limit is wrong: check the inventory, the "
            "working set, compression and dedupe",
        )
    elif found > limits.at_limit * most:
        yield Reason(
            code="at-limit",
            text=f"{limit.name} was full: the figure is that limit, not the storage's",
            level="note",
            threshold=f"below {limits.at_limit:.0%} of the stated limit",
            evidence=evidence,
            next_step="spread the load over more links or devices to see the storage",
        )

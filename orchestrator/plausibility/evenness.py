"""Checks of workers against each other: stragglers and slow hosts."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from orchestrator.plausibility.base import Plausible, rate_of
from orchestrator.results import Reason, WorkerResult


def check_equal_workers(subject: Plausible) -> Iterator[Reason]:
    """Workers of one group do about as much; a slow host is named instead of its workers."""
    limits = subject.facts.thresholds
    for names in subject.groups().values():
        loads = _loads(subject, names)
        rates = {name: load.rate / load.asked for name, load in loads.items()}
        slow = dict(_slow_hosts(subject.case.workers, rates, limits.slow_host_share))
        for host, (own, others) in slow.items():
            yield Reason(
                code="slow-host",
                text=f"host {host}: its workers do {own:.0f} IOPS in the middle, those of the "
                f"other hosts {others:.0f}",
                threshold=f"at least {limits.slow_host_share:.0%} of the others",
                evidence=f"{own / others:.0%}",
                next_step="compare this host's disks, network, firmware and load with the others",
            )
        rest = {n: r for n, r in rates.items() if subject.case.workers[n].host not in slow}
        for name, usual in _stragglers(rest, limits.straggler_share):
            yield _straggler(name, loads[name], usual, limits.straggler_share, len(rest))


@dataclass(frozen=True)
class _Load:
    """What a worker did, and its part of the load over that of the group's middle worker."""

    rate: float
    asked: float


def _loads(subject: Plausible, names: Iterable[str]) -> dict[str, _Load]:
    """Workers with fewer targets keep fewer I/Os in flight and do less at the same latency; a
    worker with a rate of its own does that rate whatever it has."""
    facts = subject.facts
    rates = {n: rate_of(subject.case.workers[n].total, "iops") for n in names}
    asked = {n: 1 if n in facts.paced else facts.outstanding_ios.get(n) or 1 for n in rates}
    middle = statistics.median(asked.values()) if asked else 1
    return {n: _Load(r, asked[n] / middle) for n, r in rates.items() if r is not None}


def _slow_hosts(
    workers: Mapping[str, WorkerResult], rates: Mapping[str, float], share: float
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Hosts with at least two workers here, against the middle of all others."""
    hosts: dict[str, list[float]] = {}
    for name, rate in rates.items():
        if workers[name].host:
            hosts.setdefault(str(workers[name].host), []).append(rate)
    for host, own in hosts.items():
        others = [rate for other, many in hosts.items() if other != host for rate in many]
        if len(own) < 2 or not others:
            continue
        middle, usual = statistics.median(own), statistics.median(others)
        if usual and middle < share * usual:
            yield host, (middle, usual)


def _stragglers(rates: Mapping[str, float], share: float) -> Iterator[tuple[str, float]]:
    """Workers far below the middle, with it; of two, the one far below the other."""
    if len(rates) < 2:
        return
    usual = max(rates.values()) if len(rates) == 2 else statistics.median(rates.values())
    for name, rate in sorted(rates.items()):
        if rate < share * usual:
            yield name, usual


def _straggler(name: str, load: _Load, usual: float, share: float, workers: int) -> Reason:
    expected = usual * load.asked
    whose = "the other worker does" if workers == 2 else "its group's workers in the middle do"
    than = "of the other's" if workers == 2 else "of the group's median"
    part = "" if load.asked == 1 else ", for the same part of the load,"
    return Reason(
        code="straggler",
        text=f"{load.rate:.0f} IOPS where {whose}{part} {expected:.0f}",
        worker=name,
        threshold=f"at least {share:.0%} {than}",
        evidence=f"{load.rate / expected:.0%}",
        next_step="look at this worker's host, disks and paths; the total is true but "
        "not what even workers would reach",
    )

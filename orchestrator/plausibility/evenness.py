"""Checks of workers against each other: stragglers and slow hosts."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping

from orchestrator.plausibility.base import Plausible, rate_of
from orchestrator.results import Reason, WorkerResult


def check_equal_workers(subject: Plausible) -> Iterator[Reason]:
    """Workers of one group do about as much; a slow host is named instead of its workers."""
    limits = subject.facts.thresholds
    groups: dict[str | None, dict[str, float]] = {}
    for name, worker in subject.counted().items():
        rate = rate_of(worker.total, "iops")
        if rate is not None:
            groups.setdefault(worker.group, {})[name] = rate
    for rates in groups.values():
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
        yield from _stragglers(rest, limits.straggler_share)


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


def _stragglers(rates: Mapping[str, float], share: float) -> Iterator[Reason]:
    if len(rates) < 3:
        return
    usual = statistics.median(rates.values())
    for name, rate in sorted(rates.items()):
        if rate < share * usual:
            yield Reason(
                code="straggler",
                text=f"{rate:.0f} IOPS where the workers of its group do {usual:.0f} in the middle",
                worker=name,
                threshold=f"at least {share:.0%} of the group's median",
                evidence=f"{rate / usual:.0%}" if usual else None,
                next_step="look at this worker's host, disks and paths; the total is true but "
                "not what even workers would reach",
            )

"""Reading real-time counters of hosts from vCenter's performance manager."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pyVmomi import vim

from orchestrator.counters import REALTIME_INTERVAL, Series, Window
from orchestrator.vsphere.base import Site
from orchestrator.vsphere.collector import read
from orchestrator.vsphere.session import Session

#: Hosts asked in one call: an hour of three counters is 540 numbers a host.
HOSTS_PER_CALL: Final = 32


@dataclass(frozen=True)
class Counter:
    """A counter's number at this vCenter, and how its values are to be read."""

    key: int
    name: str
    unit: str
    rollup: str


def read_counters(session: Session, names: Sequence[str]) -> list[Counter]:
    """The counters of these names (`cpu.usage.average`); a name this vCenter lacks is left out."""
    roots = [session.content.perfManager]
    paths = {vim.PerformanceManager: ["perfCounter"]}
    found = read(session, "reading the list of counters", roots, paths)
    known = {}
    for info in (found[0].get("perfCounter") if found else None) or ():
        rollup = str(info.rollupType)
        name = f"{info.groupInfo.key}.{info.nameInfo.key}.{rollup}"
        known[name] = Counter(info.key, name, str(info.unitInfo.key), rollup)
    return [known[name] for name in names if name in known]


def query_hosts(
    session: Session, site: Site, counters: Sequence[Counter], window: Window
) -> list[Series]:
    """Real-time samples of every host over a window of the vCenter's clock."""
    series: list[Series] = []
    for start in range(0, len(site.hosts), HOSTS_PER_CALL):
        part = site.hosts[start : start + HOSTS_PER_CALL]
        specs = [_spec(session, host.ref, counters, window) for host in part]

        def ask(specs: Sequence[Any] = specs) -> Any:
            return session.content.perfManager.QueryPerf(querySpec=list(specs))

        answers = session.call("reading the hosts' counters", ask, reads=True)
        names = {host.ref: host.name for host in part}
        for answer in answers or ():
            series += _series(names[str(answer.entity._moId)], answer, counters)
    return series


def _spec(session: Session, ref: str, counters: Sequence[Counter], window: Window) -> Any:
    kind = vim.PerformanceManager
    return kind.QuerySpec(
        entity=vim.HostSystem(ref, session.stub),
        metricId=[kind.MetricId(counterId=counter.key, instance="") for counter in counters],
        startTime=datetime.fromtimestamp(window.start, UTC),
        endTime=datetime.fromtimestamp(window.end, UTC),
        intervalId=REALTIME_INTERVAL,
        format="normal",
    )


def _series(host: str, answer: Any, counters: Sequence[Counter]) -> Iterator[Series]:
    stamps = [info.timestamp.timestamp() for info in answer.sampleInfo or ()]
    interval = next((info.interval for info in answer.sampleInfo or ()), REALTIME_INTERVAL)
    by_key = {counter.key: counter for counter in counters}
    for line in answer.value or ():
        counter = by_key.get(line.id.counterId)
        if counter is not None and not line.id.instance:
            samples = tuple(zip(stamps, (int(value) for value in line.value or ()), strict=False))
            yield Series(host, counter.name, counter.unit, counter.rollup, interval, samples)

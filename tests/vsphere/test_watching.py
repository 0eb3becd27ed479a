"""A case under watch: figures of exactly its window, and what the platform did to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.counters import USAGE_COUNTERS, Series, Window
from orchestrator.errors import TaskFailed, VCenterUnreachable
from orchestrator.events import PlatformEvent
from orchestrator.vsphere.base import Datastore, Host, Site
from orchestrator.vsphere.facts import VsanState
from orchestrator.vsphere.fake_observer import FakeObserver
from orchestrator.vsphere.observing import Reading
from orchestrator.vsphere.watching import CaseWatch, Watched

CASE = Path(__file__).parents[1] / "data" / "cases" / "48-performance-samples"
CPU = "cpu.usage.average"
HOSTS = ("esx1", "esx2")


def _site(kind: str = "vsan") -> Site:
    hosts = tuple(
        Host(name, name, True, False, frozenset(), frozenset(), 16, 8, 1) for name in HOSTS
    )
    store = Datastore("datastore-1", "ds", kind, 1, 1, True)
    return Site(
        "vc", "datacenter-1", "domain-c1", "c1", "resgroup-1", "group-v1", hosts, (store,), ()
    )


class Clock:
    """Time that the test moves; sleeping moves it too."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def _series(host: str, value: int, *, start: float = 0.0, count: int = 1000) -> list[Series]:
    samples = tuple((start + 20.0 * i, value) for i in range(count))
    return [Series(host, name, "percent", "average", 20, samples) for name in USAGE_COUNTERS]


def _watch(observer: FakeObserver, clock: Clock, *, site: Site | None = None) -> CaseWatch:
    return CaseWatch(
        observer, site or _site(), {"w1": "vm-1", "w2": "vm-2"}, clock=clock, sleep=clock.sleep
    )


def _run(observer: FakeObserver, *, site: Site | None = None, length: float = 600) -> Watched:
    clock = Clock()
    watch = _watch(observer, clock, site=site)
    watch.begin()
    clock.now += 60 + length
    return watch.end(Window(1060.0, 1060.0 + length))


PLACED = {"w1": "esx1", "w2": "esx2"}


def test_a_quiet_case_has_figures_and_no_reasons() -> None:
    """Both hosts' means over the window, nothing missing, nothing against the verdict."""
    watched = _run(
        FakeObserver(series=_series("esx1", 2000) + _series("esx2", 4000), placed=PLACED)
    )
    assert watched.usage is not None
    assert watched.usage.average == dict.fromkeys(USAGE_COUNTERS, 30.0)
    assert watched.warnings == ()
    assert watched.reasons() == []


def test_counters_of_a_long_case_are_fetched_while_it_runs() -> None:
    """Three hours with a vCenter that keeps one: sampled on the way, every sample is there."""

    class Forgetful(FakeObserver):
        def counters(self, site, names, window):  # type: ignore[no-untyped-def]
            oldest = clock.now - 3600
            return super().counters(site, names, Window(max(window.start, oldest), window.end))

    clock = Clock()
    series = _series("esx1", 2000) + _series("esx2", 2000)
    watch = _watch(Forgetful(series=series, placed=PLACED), clock)
    watch.begin()
    for _ in range(3 * 60):
        clock.now += 60
        watch.sample()
    watched = watch.end(Window(1000.0, clock.now))
    assert watched.usage is not None
    assert all(cell.note is None for row in watched.usage.hosts.values() for cell in row.values())


def test_the_last_samples_are_waited_for() -> None:
    """Samples that vCenter shows late are asked for again before the average is taken."""

    class Late(FakeObserver):
        def counters(self, site, names, window):  # type: ignore[no-untyped-def]
            return super().counters(site, names, Window(window.start, clock.now - 50))

    clock = Clock()
    watch = _watch(Late(series=_series("esx1", 2000) + _series("esx2", 2000), placed=PLACED), clock)
    watch.begin()
    clock.now += 200
    watched = watch.end(Window(1000.0, 1200.0))
    assert watched.usage is not None
    assert watched.usage.hosts["esx1"][CPU].used == watched.usage.hosts["esx1"][CPU].expected


def test_the_window_follows_the_vcenters_clock() -> None:
    """Samples stamped by a vCenter 7 min ahead are found where they are."""
    ahead = 420.0
    busy = [
        Series("esx1", CPU, "percent", "average", 20, ((1100 + ahead, 5000), (1120 + ahead, 5000)))
    ]
    watched = _run(FakeObserver(offset=ahead, series=busy), length=60)
    assert watched.usage is not None
    assert watched.usage.hosts["esx1"][CPU].mean == 50.0


def test_a_move_is_one_reason_whether_seen_by_event_or_by_place() -> None:
    """The event names the worker; the differing host alone is enough for another."""

    class Moving(FakeObserver):
        def placement(self, site, machines):  # type: ignore[no-untyped-def]
            first = "placement" not in self.calls
            super().placement(site, machines)
            return PLACED if first else {"w1": "esx2", "w2": "esx1"}

    event = PlatformEvent(1100.0, "migration", "VmMigratedEvent", "moved", "w1", "esx2")
    reasons = _run(Moving(happened=[event])).reasons()
    assert [(reason.code, reason.worker) for reason in reasons] == [
        ("vmotion", "w1"),
        ("vmotion", "w2"),
    ]


def test_events_before_the_case_do_not_count() -> None:
    """What happened before the watch began is not read."""
    event = PlatformEvent(994.0, "host", "HostDisconnectedEvent", "gone", None, "esx2")
    assert _run(FakeObserver(happened=[event], placed=PLACED)).events == ()


def test_a_resync_at_either_end_makes_it_unknown() -> None:
    """Bytes left after the case: unknown, with the figures."""
    states = [VsanState("green", {}, 0, 0), VsanState("green", {}, 7, 1)]
    [reason] = _run(FakeObserver(states=states, placed=PLACED)).reasons()
    assert (reason.code, reason.level) == ("resync", "unknown")
    assert reason.evidence == "0 bytes before, 7 bytes after"


def test_without_vsan_nothing_of_it_is_asked() -> None:
    """A plain datastore has neither health nor figures of vSAN."""
    observer = FakeObserver(placed=PLACED)
    watched = _run(observer, site=_site("VMFS"))
    assert not {"vsan_state", "vsan_figures"} & set(observer.calls)
    assert watched.reasons() == []


@pytest.mark.parametrize(
    "method",
    [
        "clock_offset",
        "placement",
        "counters",
        "events",
        "vsan_state",
        "vsan_figures",
    ],
)
@pytest.mark.parametrize("error", [VCenterUnreachable("vc", "x", "gone"), RuntimeError("odd")])
def test_case_48_nothing_that_fails_here_fails_the_case(method: str, error: Exception) -> None:
    """Case 48: a call that fails is a warning, the rest is told all the same."""
    observer = FakeObserver(
        series=_series("esx1", 2000) + _series("esx2", 2000),
        placed=PLACED,
        failing={method: error},
    )
    watched = _run(observer)
    assert len(watched.warnings) == 1
    assert "not available" in watched.warnings[0]
    assert all(reason.level == "note" for reason in watched.reasons())


def test_case_48_a_performance_service_that_is_off_is_a_warning() -> None:
    """Case 48: vSAN refuses the entity; the warning says so, the hosts' figures stay."""
    fault = json.loads((CASE / "scenarios.json").read_text())["vsan-perf-off"]["fault"]
    warning = str(TaskFailed("vc", "reading vSAN's cluster-domclient", *fault.split(": ")).what)
    watched = _run(
        FakeObserver(series=_series("esx1", 2000), placed=PLACED, figures=Reading((), (warning,)))
    )
    assert "InvalidArgument" in watched.warnings[0]
    assert watched.usage is not None
    assert watched.usage.hosts["esx1"][CPU].mean == 20.0


def test_vsan_figures_are_averaged_over_the_window() -> None:
    """Only five-minute samples wholly inside it count."""
    samples = ((1000.0, 9), (1360.0, 100), (1660.0, 300), (2260.0, 9))
    series = Series("cluster-domclient:1", "iopsRead", "iops", "average", 300, samples)
    watched = _run(FakeObserver(placed=PLACED, figures=Reading((series,))))
    average = watched.figures["cluster-domclient:1"]["iopsRead"]
    assert (average.mean, average.unit, average.used) == (200.0, "iops", 2)


def test_the_document_has_null_for_what_is_not_available() -> None:
    """A host without samples is null in the result, and can be written as JSON."""
    document = json.loads(json.dumps(_run(FakeObserver(placed=PLACED)).document()))
    assert document["usage"]["hosts"]["esx1"][CPU]["mean"] is None
    assert document["usage"]["average"][CPU] is None

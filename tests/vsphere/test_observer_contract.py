"""What holds for every Observes: the fake one, and the real one on the simulator."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from orchestrator.counters import USAGE_COUNTERS, Series, Window
from orchestrator.events import PlatformEvent
from orchestrator.vsphere.base import Site
from orchestrator.vsphere.facts import HostState, Policy, Vsan
from orchestrator.vsphere.fake_observer import FakeObserver
from orchestrator.vsphere.observer import Observer
from orchestrator.vsphere.observing import Observes, Reading
from orchestrator.vsphere.vcenter import VCenter
from tests.vsphere.conftest import fake_site
from tests.vsphere.simulator import Vcsim

GIB = 2**30
ENTITY = "cluster-domclient:52a1"


@dataclass
class Platform:
    """An observer, its site, a machine of it, and the instant at which the scene was set."""

    observer: Observes
    site: Site
    machine: str
    since: float


def _fake(since: float) -> Platform:
    site = fake_site()
    names = [host.name for host in site.hosts]
    ticks = [20.0 * n for n in range(int(since // 20) - 180, int(since // 20) + 30)]
    series = [
        Series(host, counter, "percent", "average", 20, tuple((tick, 2500) for tick in ticks))
        for host in names
        for counter in USAGE_COUNTERS
    ]
    stamps = tuple((since - 300 * n, 100) for n in range(3, 0, -1))
    observer = FakeObserver(
        hosts=[HostState(name, False, 0.0, 1, 2, 3, 1, GIB, 1) for name in names],
        placed={"w1": names[0]},
        known=[
            Policy("raid1-ftt1", "p1", vsan=True, compatible=frozenset({"LocalDS_0"})),
            Policy("raid5-ftt1", "p2", vsan=True, compatible=frozenset()),
        ],
        config=Vsan("osa", 4, 8, 6400 * GIB, True),
        series=series,
        figures=Reading((Series(ENTITY, "iopsRead", "iops", "average", 300, stamps),)),
        happened=[PlatformEvent(since, "migration", "VmMigratedEvent", "x", "w", names[1])],
    )
    return Platform(observer, site, "vm-1", since)


def _real(vcsim: Vcsim, client: VCenter, since: float) -> Platform:
    site = client.site("DC0", "DC0_C0", pool=None, folder=None)
    known = {host.name: {counter: [2500] for counter in USAGE_COUNTERS} for host in site.hosts}
    vcsim.ask("figures", {"values": known})
    figures = {"cluster-domclient": {"iopsRead": [100, 100, 100]}}
    vsan = {"groups": 2, "cache": 800 * GIB, "health": "green", "figures": figures}
    vcsim.ask("vsan", vsan | {"since": int(since) - 900})
    vcsim.ask("event", {"type": "VmMigratedEvent", "host": site.hosts[1].name, "message": "x"})
    machine = client.names(site, site.folder)["DC0_C0_RP1_VM0"]
    return Platform(Observer(client.session), site, machine, since)


@pytest.fixture(params=["fake", pytest.param("vcsim", marks=pytest.mark.real)])
def platform(request: pytest.FixtureRequest) -> Iterator[Platform]:
    """The two, in the same scene."""
    since = time.time()
    if request.param == "fake":
        yield _fake(since)
        return
    vcsim = Vcsim.start("-vsan=osa")
    client = VCenter(vcsim.login(), call_timeout=20)
    made = _real(vcsim, client, since)
    yield made
    made.observer.close()
    client.close()
    vcsim.stop()


def test_counters_are_cut_to_the_window_and_to_the_names(platform: Platform) -> None:
    """Each host once a counter; every stamp inside the window, 20 s apart, in order."""
    window = Window(platform.since - 600, platform.since - 300)
    found = platform.observer.counters(platform.site, USAGE_COUNTERS[:2], window)
    assert {(item.entity, item.counter) for item in found} == {
        (host.name, counter) for host in platform.site.hosts for counter in USAGE_COUNTERS[:2]
    }
    for item in found:
        stamps = [stamp for stamp, _ in item.samples]
        assert (item.unit, item.rollup, item.interval) == ("percent", "average", 20)
        assert len(stamps) in (15, 16)
        assert all(window.start < stamp <= window.end for stamp in stamps)
        assert stamps == sorted(stamps)
        assert {value for _, value in item.samples} == {2500}


def test_events_belong_to_the_window(platform: Platform) -> None:
    """What happened now is found now, and not an hour ago."""
    since = platform.since
    now = platform.observer.events(platform.site, Window(since - 60, since + 60), 0.0)
    assert [(event.kind, event.host) for event in now if event.kind == "migration"] == [
        ("migration", platform.site.hosts[1].name)
    ]
    before = Window(since - 3600, since - 1800)
    assert platform.observer.events(platform.site, before, 0.0) == []


def test_only_the_asked_policys_compatibility_is_looked_up(platform: Platform) -> None:
    """All are listed by name; the other ones' compatibility is not known."""
    policies = platform.observer.policies(platform.site, "raid1-ftt1")
    assert {"raid1-ftt1", "raid5-ftt1"} <= set(policies)
    assert policies["raid1-ftt1"].compatible is not None
    assert policies["raid5-ftt1"].compatible is None
    unasked = platform.observer.policies(platform.site, None)
    assert unasked["raid1-ftt1"].compatible is None


def test_every_object_gets_an_answer_about_privileges(platform: Platform) -> None:
    """An administrator lacks nothing, and no object is forgotten."""
    needed = {platform.site.pool: ["Resource.AssignVMToPool"], platform.site.datacenter: []}
    found = platform.observer.missing_privileges(platform.site, needed)
    assert found == {ref: [] for ref in needed}


def test_every_worker_has_a_place_or_none(platform: Platform) -> None:
    """A machine that runs has a host of the site; one that nobody knows has None."""
    place = platform.observer.placement(platform.site, {"w1": platform.machine, "gone": "vm-99999"})
    assert set(place) == {"w1", "gone"}
    assert place["w1"] in {host.name for host in platform.site.hosts}
    assert place["gone"] is None
    assert platform.observer.placement(platform.site, {}) == {}


def test_hosts_are_told_by_name_once_each(platform: Platform) -> None:
    """One state a host, with a clock."""
    states = platform.observer.host_states(platform.site, [])
    assert [state.name for state in states] == [host.name for host in platform.site.hosts]
    assert all(state.clock_offset is not None for state in states)


def test_vsan_is_told_with_its_state_and_figures(platform: Platform) -> None:
    """OSA with eight groups, healthy, at rest; figures cut to the window."""
    vsan = platform.observer.vsan(platform.site)
    assert vsan is not None
    assert (vsan.architecture, vsan.disk_groups, vsan.cache) == ("osa", 8, 6400 * GIB)
    state = platform.observer.vsan_state(platform.site, fresh=False)
    assert (state.health, state.resync_bytes) == ("green", 0)
    window = Window(platform.since - 700, platform.since)
    [series] = platform.observer.vsan_figures(platform.site, window).series
    assert (series.entity, series.counter, series.unit) == (ENTITY, "iopsRead", "iops")
    assert len(series.samples) in (2, 3)
    assert all(window.start <= stamp <= window.end for stamp, _ in series.samples)


def test_the_clock_is_compared(platform: Platform) -> None:
    """On one machine both clocks agree within the time of a call."""
    assert abs(platform.observer.clock_offset()) < 5


def test_closing_twice_is_no_error(platform: Platform) -> None:
    """Whoever cleans up needs no memory."""
    platform.observer.vsan_state(platform.site, fresh=False)
    platform.observer.close()
    platform.observer.close()

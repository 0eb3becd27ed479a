"""The real observer on the simulator: clocks, hosts, counters, events, policies, vSAN."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.counters import USAGE_COUNTERS, Window, usage_table
from orchestrator.errors import VSphereError
from orchestrator.vsphere.base import Site
from orchestrator.vsphere.finding import find_site
from orchestrator.vsphere.observer import Observer
from orchestrator.vsphere.session import Session
from orchestrator.vsphere.vsan import NEEDED_PYVMOMI, VsanService, light
from orchestrator.vsphere.watching import CaseWatch
from tests.vsphere.simulator import Vcsim

GIB = 2**30


@dataclass
class Stage:
    """A simulator, a session, and an observer on it."""

    vcsim: Vcsim
    session: Session
    observer: Observer
    site: Site

    @property
    def hosts(self) -> list[str]:
        return [host.name for host in self.site.hosts]


def _stage(vcsim: Vcsim) -> Stage:
    session = Session(vcsim.login(), call_timeout=20)
    site = find_site(session, "DC0", "DC0_C0", pool=None, folder=None)
    return Stage(vcsim, session, Observer(session), site)


@pytest.fixture
def stage(vcsim: Vcsim) -> Iterator[Stage]:
    """An OSA cluster of four hosts."""
    made = _stage(vcsim)
    yield made
    made.observer.close()
    made.session.close()


def _figures(stage: Stage, **values: list[int]) -> None:
    """The same raw values on every host, host n's first counter n hundredths more."""
    stage.vcsim.ask("figures", {"values": {
        host: {
            "cpu.usage.average": [1000 + 100 * number],
            "cpu.utilization.average": [3000],
            "mem.usage.average": [5000],
        } | values
        for number, host in enumerate(stage.hosts)
    }})  # fmt: skip


@pytest.mark.real
def test_counters_equal_the_known_figures_over_exactly_the_window(stage: Stage) -> None:
    """Per host and on average what the hosts were made to say; ten minutes are 30 samples."""
    _figures(stage)
    now = time.time()
    window = Window(now - 900, now - 300)
    series = stage.observer.counters(stage.site, USAGE_COUNTERS, window)
    table = usage_table(series, stage.hosts, window, clock_offset=0.0)
    assert table.average == {
        "cpu.usage.average": pytest.approx(11.5),
        "cpu.utilization.average": 30.0,
        "mem.usage.average": 50.0,
    }
    cell = table.hosts[stage.hosts[3]]["cpu.usage.average"]
    assert cell.mean == 13.0
    assert cell.used >= 29
    assert table.warnings == ()


@pytest.mark.real
def test_a_missing_sample_is_a_gap(stage: Stage) -> None:
    """-1 comes through as not there."""
    _figures(stage, **{"mem.usage.average": [-1, 400]})
    now = time.time()
    window = Window(now - 400, now)
    series = stage.observer.counters(stage.site, ["mem.usage.average"], window)
    cell = usage_table(series, stage.hosts, window, counters=["mem.usage.average"]).hosts
    average = cell[stage.hosts[0]]["mem.usage.average"]
    assert average.mean == 4.0
    assert average.missing in (9, 10)


@pytest.mark.real
def test_a_counter_that_this_vcenter_lacks_is_left_out(stage: Stage) -> None:
    """An unknown name is no error: its figure is not available."""
    now = time.time()
    assert stage.observer.counters(stage.site, ["no.such.average"], Window(now - 60, now)) == []


@pytest.mark.real
def test_events_of_the_window_come_with_names_and_kinds(stage: Stage) -> None:
    """A vMotion and a vSAN disk problem are read; a login isn't; order is by time."""
    started = time.time()
    stage.vcsim.ask(
        "event",
        {"type": "VmMigratedEvent", "vm": "DC0_C0_RP1_VM0", "host": stage.hosts[1], "message": "x"},
    )
    stage.vcsim.ask(
        "event",
        {
            "type": "EventEx",
            "id": "esx.problem.vob.vsan.lsom.diskerror",
            "host": stage.hosts[2],
            "message": "a disk is failing",
        },
    )
    events = stage.observer.events(stage.site, Window(started - 5, time.time() + 5), 0.0)
    assert [(event.kind, event.host) for event in events][-2:] == [
        ("migration", stage.hosts[1]),
        ("host", stage.hosts[2]),
    ]
    assert events[-2].machine == "DC0_C0_RP1_VM0"
    assert events[-1].text == "a disk is failing"
    assert stage.observer.events(stage.site, Window(started - 900, started - 600), 0.0) == []


@pytest.mark.real
def test_a_clock_that_is_ahead_is_measured_and_taken_out_of_events(stage: Stage) -> None:
    """Events are told by our clock, whatever the vCenter's shows."""
    assert abs(stage.observer.clock_offset()) < 5
    stage.vcsim.ask("event", {"type": "VmMigratedEvent", "host": stage.hosts[0], "message": "x"})
    now = time.time()
    [*_, event] = stage.observer.events(stage.site, Window(now - 130, now - 110), 120.0)
    assert event.instant == pytest.approx(now - 120, abs=8)


@pytest.mark.real
def test_hosts_tell_clock_ssh_and_others_load(stage: Stage) -> None:
    """Offset and service as set; other machines' vCPUs count, ours don't."""
    stage.vcsim.ask("clock", {"name": stage.hosts[0], "ahead": 90.0, "ssh": True})
    first, second = stage.observer.host_states(stage.site, [])[:2]
    assert first.clock_offset == pytest.approx(90.0, abs=3)
    assert (first.ssh, second.ssh) == (True, False)
    assert second.clock_offset == pytest.approx(0.0, abs=3)
    assert first.cpu_total
    assert first.cpu_used is not None
    states = stage.observer.host_states(stage.site, [])
    total = sum(state.machines or 0 for state in states)
    assert total == 2  # the strangers; template and source are off
    assert sum(state.vcpus or 0 for state in states) == 2


@pytest.mark.real
def test_policies_are_read_with_their_rules_and_compatibility(stage: Stage) -> None:
    """vSAN's default is known as a mirror; only the asked policy's compatibility is looked up."""
    policies = stage.observer.policies(stage.site, "raid1-ftt1")
    default = policies["vSAN Default Storage Policy"]
    assert (default.vsan, default.failures_to_tolerate, default.erasure_coding) == (True, 1, False)
    assert default.compatible is None
    assert policies["raid1-ftt1"].compatible == {store.name for store in stage.site.datastores}
    assert policies["VM Encryption Policy"].data_service is True


@pytest.mark.real
def test_a_vsan_datastore_has_a_default_policy_and_a_plain_one_none(stage: Stage) -> None:
    """What applies where no policy is asked is known for vSAN alone."""
    vsan, plain = stage.site.datastores
    default = stage.observer.default_policy(vsan)
    assert default is not None
    assert (default.name, default.vsan) == ("vSAN Default Storage Policy", True)
    assert stage.observer.default_policy(plain) is None


@pytest.mark.real
def test_privileges_of_an_administrator_are_complete(stage: Stage) -> None:
    """Nothing is missing, and every object that was asked for is answered."""
    needed = {
        stage.site.datacenter: ["VirtualMachine.Inventory.Create"],
        stage.site.pool: ["Resource.AssignVMToPool"],
        stage.site.datastores[0].ref: ["Datastore.AllocateSpace"],
    }
    assert stage.observer.missing_privileges(stage.site, needed) == {ref: [] for ref in needed}


@pytest.mark.real
def test_vsan_osa_tells_disk_groups_cache_and_witness(stage: Stage) -> None:
    """Two groups of 800 GiB on four hosts; a witness is named."""
    vsan = stage.observer.vsan(stage.site)
    assert vsan is not None
    assert (vsan.architecture, vsan.disk_groups, vsan.cache) == ("osa", 8, 6400 * GIB)
    assert (vsan.all_flash, vsan.witness) == (True, None)
    stage.vcsim.ask("vsan", {"groups": 1, "cache": GIB, "hybrid": True, "witness": "10.0.0.9"})
    vsan = stage.observer.vsan(stage.site)
    assert vsan is not None
    assert (vsan.disk_groups, vsan.all_flash, vsan.witness) == (4, False, "10.0.0.9")


@pytest.mark.real
def test_vsan_health_and_resync_are_told(stage: Stage) -> None:
    """Failing tests by name; info and skipped ones are no failure; bytes left as said."""
    stage.vcsim.ask("vsan", {"health": "yellow", "bytes": 5 * GIB, "objects": 3, "tests": {
        "Disk balance": "yellow", "Advisor": "info", "Time in sync": "red",
    }})  # fmt: skip
    state = stage.observer.vsan_state(stage.site, fresh=True)
    assert state.health == "yellow"
    assert state.failing == {"Disk balance": "yellow", "Time in sync": "red"}
    assert (state.resync_bytes, state.resync_objects) == (5 * GIB, 3)


@pytest.mark.real
def test_vsan_figures_come_as_series(stage: Stage) -> None:
    """The cluster's and the hosts' DOM client, cut to the window."""
    since = (int(time.time()) // 300 - 4) * 300
    stage.vcsim.ask("vsan", {"health": "green", "since": since, "figures": {
        "cluster-domclient": {"iopsRead": [100, 200, 300], "latencyAvgRead": [1.5, 2, 2.5]},
        "host-domclient": {"iopsWrite": [7, 8, 9]},
    }})  # fmt: skip
    reading = stage.observer.vsan_figures(stage.site, Window(since, since + 300))
    found = {(item.entity.split(":")[0], item.counter): item for item in reading.series}
    assert reading.warnings == ()
    assert found["cluster-domclient", "iopsRead"].samples == (
        (float(since), 100),
        (float(since + 300), 200),
    )
    assert found["cluster-domclient", "iopsRead"].interval == 300
    assert ("host-domclient", "iopsWrite") in found


@pytest.mark.real
def test_case_48_a_performance_service_that_is_off_is_a_warning(stage: Stage) -> None:
    """Case 48: the refusal is told in words, and nothing is raised."""
    stage.vcsim.ask("vsan", {"off": True})
    reading = stage.observer.vsan_figures(stage.site, Window(0, 300))
    assert reading.series == ()
    assert len(reading.warnings) == 2
    assert all("no vSAN figures" in warning for warning in reading.warnings)


@pytest.mark.real
def test_a_lost_session_is_reopened_unseen(stage: Stage) -> None:
    """Every kind of read goes on after the session expired: also vSAN's and the policies'."""
    stage.observer.vsan_state(stage.site, fresh=False)
    stage.observer.policies(stage.site, None)
    stage.vcsim.ask("expire")
    now = time.time()
    assert stage.observer.vsan_state(stage.site, fresh=False).resync_bytes == 0
    stage.vcsim.ask("expire")
    assert stage.observer.policies(stage.site, None)
    stage.vcsim.ask("expire")
    assert stage.observer.counters(stage.site, ["cpu.usage.average"], Window(now - 60, now))
    stage.vcsim.ask("expire")
    assert isinstance(stage.observer.events(stage.site, Window(now - 60, now), 0.0), list)


@pytest.mark.real
def test_a_case_under_watch_on_the_simulator(stage: Stage) -> None:
    """From begin to end: figures of the window, a move seen by its event, no warning."""
    _figures(stage)
    machines = {
        name: ref
        for name, ref in _machines(stage).items()
        if name in ("DC0_C0_RP1_VM0", "DC0_C0_RP1_VM1")
    }
    watch = CaseWatch(stage.observer, stage.site, machines, sleep=lambda seconds: None)
    watch.begin()
    stage.vcsim.ask(
        "event",
        {
            "type": "DrsVmMigratedEvent",
            "vm": "DC0_C0_RP1_VM0",
            "host": stage.hosts[1],
            "message": "",
        },
    )
    now = time.time()
    watched = watch.end(Window(now - 100, now))
    assert watched.usage is not None
    assert watched.usage.average["cpu.utilization.average"] == 30.0
    assert [(r.code, r.worker) for r in watched.reasons() if r.level == "unknown"] == [
        ("vmotion", "DC0_C0_RP1_VM0")
    ]
    assert set(watched.hosts_after.values()) <= set(stage.hosts)
    assert watched.warnings == ()


def _machines(stage: Stage) -> dict[str, str]:
    from orchestrator.vsphere.vcenter import VCenter

    client = VCenter(stage.vcsim.login(), call_timeout=20)
    try:
        return client.names(stage.site, stage.site.folder)
    finally:
        client.close()


@pytest.mark.real
def test_vsan_esa_has_no_disk_groups() -> None:
    """ESA is told apart, and what it does not have is None."""
    vcsim = Vcsim.start("-vsan=esa", "-hosts=3")
    try:
        stage = _stage(vcsim)
        vsan = stage.observer.vsan(stage.site)
        stage.observer.close()
        stage.session.close()
    finally:
        vcsim.stop()
    assert vsan is not None
    assert (vsan.architecture, vsan.hosts) == ("esa", 3)
    assert (vsan.disk_groups, vsan.cache, vsan.all_flash) == (None, None, None)


def test_case_48_an_old_pyvmomi_is_named_with_the_one_that_is_needed() -> None:
    """Case 48: a library without vSAN's types says which release has them."""
    session: Any = SimpleNamespace(host="vc.test")
    with pytest.raises(VSphereError) as caught:
        VsanService(session, types=SimpleNamespace())
    assert NEEDED_PYVMOMI in caught.value.next_step


@pytest.mark.parametrize(
    ("word", "health"),
    [
        ("green", "green"),
        ("info", "green"),
        ("skipped", "green"),
        ("Red", "red"),
        ("odd", "unknown"),
        (None, "unknown"),
    ],
)
def test_healths_that_nobody_knows_are_unknown(word: Any, health: str) -> None:
    """A word of a newer vSAN is not taken for good."""
    assert light(word) == health

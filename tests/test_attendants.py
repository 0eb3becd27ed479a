"""Attendants on fakes: what they say of a case when there is nothing to do, or nothing works."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.attendants import CacheAttendant, PlatformAttendant, Surveyor
from orchestrator.attendants.cache import CLEARED, Storage
from orchestrator.errors import VCenterUnreachable
from orchestrator.events import PlatformEvent
from orchestrator.progress import say_nothing
from orchestrator.store import PLATFORM, RunFolder, RunStore
from orchestrator.transport.base import Transport
from orchestrator.vsphere.base import VSphere
from orchestrator.vsphere.facts import Vsan, VsanState
from orchestrator.vsphere.fake_observer import FakeObserver
from orchestrator.vsphere.observing import Observes
from tests.vsphere.conftest import cluster, fake_vsphere


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """An empty run."""
    return RunStore(tmp_path).create("run-1", plan="{}")


def no_opener(host: str) -> Callable[[], Transport]:
    raise AssertionError(f"{host} must not be opened")


def cache(storage: Callable[[], Storage]) -> CacheAttendant:
    return CacheAttendant(storage, no_opener, lambda names: {}, say_nothing)


def test_esa_is_recorded_as_nothing_to_clear(folder: RunFolder) -> None:
    """No host is spoken to; the case has a note and keeps its verdict."""
    attendant = cache(lambda: Storage("esa", {"esx1": no_opener}))  # type: ignore[dict-item]
    attendant.open(folder)
    attendant.before("c", ["w1"])
    said = attendant.after("c", 0, 1)
    attendant.close()
    assert [(reason.code, reason.level) for reason in said.reasons] == [("cache_none", "note")]
    assert said.document["done"] is None


def test_storage_that_nobody_can_tell_is_not_cleared(folder: RunFolder) -> None:
    """The vCenter's silence is the evidence; the run goes on."""

    def storage() -> Storage:
        raise VCenterUnreachable("vc", "login", "no route")

    attendant = cache(storage)
    attendant.open(folder)
    attendant.before("c", ["w1"])
    [reason] = attendant.after("c", 0, 1).reasons
    assert (reason.code, reason.level) == ("cache_not_cleared", "unknown")
    assert "no route" in str(reason.evidence)


def test_a_clearing_is_told_by_a_later_process_too(folder: RunFolder) -> None:
    """The journal keeps it; a case that nobody cleared for is not taken for cleared."""
    first = cache(lambda: Storage("esa", {}))
    first.open(folder)
    first.before("c", ["w1"])
    later = cache(lambda: Storage("esa", {}))
    later.open(folder)
    assert later.after("c", 0, 1) == first.after("c", 0, 1)
    assert [r.code for r in later.after("other", 0, 1).reasons] == ["cache_not_cleared"]
    assert [event.name for event in folder.events()] == [CLEARED]


class Clock:
    """Time that sleeping moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def platform(
    observer: Observes, clock: Clock, connect: Callable[[], tuple[VSphere, Observes]] | None = None
) -> PlatformAttendant:
    section = cluster(count=1)
    surveyor = Surveyor(
        section, ("somebody-elses",), connect or (lambda: (fake_vsphere(), observer))
    )
    return PlatformAttendant(surveyor, say_nothing, clock=clock, sleep=clock.sleep)


def test_a_vcenter_that_is_away_is_a_note(folder: RunFolder) -> None:
    """Nothing is watched, the case says so, nothing fails."""

    def connect() -> tuple[VSphere, Observes]:
        raise VCenterUnreachable("vc", "login", "no route")

    attendant = platform(FakeObserver(), Clock(), connect)
    attendant.open(folder)
    attendant.begin("c", ["w1"])
    attendant.during()
    [reason] = attendant.after("c", 0, 1).reasons
    attendant.close()
    assert (reason.code, reason.level) == ("platform_unknown", "note")


def observer(**more: Any) -> FakeObserver:
    return FakeObserver(
        placed={"somebody-elses": "esx1"},
        config=Vsan("osa", 4, disk_groups=8),
        states=[VsanState("green", {}, 0, 0)],
        **more,
    )


def test_facts_of_the_start_are_kept_once_and_the_end_beside_them(folder: RunFolder) -> None:
    """vCenter, vSAN and hosts in the run folder; a later walk leaves the start as it was."""
    clock = Clock()
    attendant = platform(observer(), clock)
    attendant.open(folder)
    attendant.begin("c", ["somebody-elses"])
    attendant.after("c", 1000, 1100)
    moved = FakeObserver(placed={"somebody-elses": "esx2"}, config=None)
    later = platform(moved, clock)
    later.open(folder)
    later.begin("d", ["somebody-elses"])
    later.after("d", 1200, 1300)
    facts = json.loads(folder.read(PLATFORM) or "")
    assert facts["vsan"]["architecture"] == "osa"
    worker = facts["workers"]["somebody-elses"]
    assert (worker["host_start"], worker["host_end"]) == ("esx1", "esx2")


def test_a_case_that_is_joined_is_watched_from_its_start(folder: RunFolder) -> None:
    """A move before the resume counts: by its event, and by where the worker was."""
    clock = Clock()
    first = platform(observer(), clock)
    first.open(folder)
    first.begin("c", ["somebody-elses"])
    clock.now += 60
    move = PlatformEvent(1030.0, "migration", "VmMigratedEvent", "moved", "somebody-elses", "esx2")
    later = platform(FakeObserver(placed={"somebody-elses": "esx2"}, happened=[move]), clock)
    later.open(folder)
    later.begin("c", ["somebody-elses"])
    said = later.after("c", 1010, 1090)
    assert [reason.code for reason in said.reasons if reason.level == "unknown"] == ["vmotion"]
    assert said.document["hosts_before"] == {"somebody-elses": "esx1"}

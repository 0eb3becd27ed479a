"""The platform's events, and what they do to a verdict."""

from __future__ import annotations

import pytest

from orchestrator.events import (
    EventKind,
    PlatformEvent,
    classify_event,
    judge_cache,
    judge_events,
    judge_placement,
    judge_resync,
)


@pytest.mark.parametrize(
    ("event_type", "kind"),
    [
        ("VmMigratedEvent", "migration"),
        ("DrsVmMigratedEvent", "migration"),
        ("VmRelocatedEvent", "migration"),
        ("VmBeingHotMigratedEvent", "migration"),
        ("VmRestartedOnAlternateHostEvent", "ha"),
        ("DasHostFailedEvent", "ha"),
        ("com.vmware.vc.ha.VmRestartedByHAEvent", "ha"),
        ("HostConnectionLostEvent", "host"),
        ("EnteredMaintenanceModeEvent", "host"),
        ("esx.problem.vob.vsan.lsom.diskerror", "host"),
        ("vsan.health.test.cluster.resyncing", "resync"),
        ("ProfileReferenceHostChangedEvent", "policy"),
        ("com.vmware.pbm.profile.associate", "policy"),
        ("VmReconfiguredEvent", "reconfigured"),
        ("AlarmStatusChangedEvent", "alarm"),
        ("esx.problem.scsi.device.io.latency.high", "alarm"),
        ("UserLoginSessionEvent", None),
        ("VmPoweredOnEvent", None),
    ],
)
def test_event_types_are_sorted_by_what_they_mean(event_type: str, kind: EventKind | None) -> None:
    """What can touch a measurement has a kind; a login has none."""
    assert classify_event(event_type) == kind


def _event(kind: EventKind, *, instant: float = 50.0, machine: str | None = None) -> PlatformEvent:
    return PlatformEvent(instant, kind, f"{kind}Type", "said vCenter", machine, "esx1")


def test_a_vmotion_of_a_worker_during_the_case_makes_it_unknown() -> None:
    """The reason names the worker and shows vCenter's own words."""
    [reason] = judge_events([_event("migration", machine="w1")], ["w1", "w2"], 0, 100)
    assert (reason.code, reason.level, reason.worker) == ("vmotion", "unknown", "w1")
    assert reason.evidence == "migrationType on esx1: said vCenter"


def test_moves_of_others_and_outside_the_window_change_nothing() -> None:
    """A stranger's move is a note; before and after the case nothing counts."""
    events = [
        _event("migration", machine="web"),
        _event("migration", machine="w1", instant=-1),
        _event("migration", machine="w1", instant=101),
    ]
    assert [reason.level for reason in judge_events(events, ["w1"], 0, 100)] == ["note"]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("resync", "resync"),
        ("ha", "ha_restart"),
        ("host", "host_state"),
        ("policy", "policy_change"),
    ],
)
def test_what_disturbs_the_storage_makes_it_unknown(kind: EventKind, code: str) -> None:
    """Resync, HA, a lost host or a changed policy: the figures are not to be trusted."""
    [reason] = judge_events([_event(kind)], ["w1"], 0, 100)
    assert (reason.code, reason.level) == (code, "unknown")


def test_a_reconfigured_worker_counts_and_a_strangers_does_not() -> None:
    """Only our own machines' settings matter; an alarm is a note."""
    events = [
        _event("reconfigured", machine="w1"),
        _event("reconfigured", machine="web"),
        _event("alarm"),
    ]
    reasons = judge_events(events, ["w1"], 0, 100)
    assert [(reason.code, reason.level) for reason in reasons] == [
        ("worker_changed", "unknown"),
        ("platform_alarm", "note"),
    ]


def test_case_50_a_move_between_start_and_end_is_found_without_any_event() -> None:
    """Case 50: the hosts recorded at both ends differ: unknown, with both names."""
    [moved, lost] = judge_placement(
        {"w1": "esx1", "w2": "esx1", "w3": "esx2"}, {"w1": "esx1", "w2": "esx3", "w3": None}
    )
    assert (moved.code, moved.worker, moved.level) == ("vmotion", "w2", "unknown")
    assert moved.evidence == "esx1 at the start, esx3 at the end"
    assert (lost.code, lost.level) == ("placement_unknown", "note")


def test_resync_before_or_after_makes_it_unknown() -> None:
    """Bytes left at either end are a doubt; a state nobody read is a note; no vSAN, nothing."""
    assert judge_resync(0, 0, vsan=True) == []
    assert judge_resync(None, None, vsan=False) == []
    assert [reason.level for reason in judge_resync(0, 5, vsan=True)] == ["unknown"]
    assert [reason.level for reason in judge_resync(None, 0, vsan=True)] == ["note"]


def test_a_cache_that_was_not_cleared_is_said() -> None:
    """A clear that failed makes the verdict unknown; nothing to clear is a note."""
    assert judge_cache(False, None, "") == []
    assert judge_cache(True, True, "") == []
    [failed] = judge_cache(True, False, "esx1: not drained after 600 s")
    assert (failed.code, failed.level) == ("cache_not_cleared", "unknown")
    assert failed.evidence == "esx1: not drained after 600 s"
    [none] = judge_cache(True, None, "vSAN ESA has no cache tier")
    assert none.level == "note"

"""What holds for every VSphere: the fake one, and the real client on the simulator."""

from __future__ import annotations

import pytest

from orchestrator.errors import NotFoundInVCenter, TaskFailed
from orchestrator.vsphere.base import (
    IMAGE,
    MARK,
    Change,
    CloneOrder,
    Guest,
    Mark,
    NewDisk,
    Rule,
    Site,
)
from orchestrator.vsphere.machines import render_mark
from tests.vsphere.conftest import GIB, Stage

LONG = 30.0


def site_of(stage: Stage) -> Site:
    """The stage's cluster."""
    return stage.vsphere.site("DC0", "DC0_C0", pool=None, folder=None)


def order(stage: Stage, site: Site, name: str, *, deployment: str = "ours") -> CloneOrder:
    """A full clone of the template."""
    return CloneOrder(
        source=stage.vsphere.source(site, "ubuntu-24.04").ref,
        name=name,
        kind="full",
        folder=site.folder,
        pool=site.pool,
        host=site.hosts[1].ref,
        datastore=site.datastores[0].ref,
        cpus=2,
        memory=2 * GIB,
        settings={MARK: render_mark(Mark(deployment, "bench", "worker", name)), IMAGE: "i"},
    )


def clone(stage: Stage, site: Site, name: str) -> str:
    """The ref of a new clone."""
    return stage.vsphere.clone(order(stage, site, name), timeout=LONG)


def test_a_clone_is_off_marked_and_where_it_was_ordered(stage: Stage) -> None:
    """A clone carries its mark, CPUs, memory, host and datastore as soon as it can be listed."""
    site = site_of(stage)
    ref = clone(stage, site, "bench-001")
    (machine,) = stage.vsphere.machines(site, policies=False)
    assert (machine.ref, machine.name, machine.power) == (ref, "bench-001", "off")
    assert machine.mark == Mark("ours", "bench", "worker", "bench-001")
    assert machine.belongs_to("ours")
    assert (machine.cpus, machine.memory, machine.host) == (2, 2 * GIB, site.hosts[1].ref)
    assert {disk.datastore for disk in machine.disks} == {site.datastores[0].ref}


def test_only_marked_machines_are_listed(stage: Stage) -> None:
    """Templates and strangers are in the folder's names and in no list of ours."""
    site = site_of(stage)
    assert stage.vsphere.machines(site, policies=False) == []
    assert "ubuntu-24.04" in stage.vsphere.names(site, site.folder)


def test_a_name_that_exists_is_refused(stage: Stage) -> None:
    """The second VM of a name is vCenter's DuplicateName, and nothing is made."""
    site = site_of(stage)
    clone(stage, site, "bench-001")
    before = stage.inventory()
    with pytest.raises(TaskFailed) as caught:
        clone(stage, site, "bench-001")
    assert caught.value.fault == "DuplicateName"
    assert stage.inventory() == before


def test_a_copy_of_a_worker_is_not_ours(stage: Stage) -> None:
    """A finished mark names its VM: whoever copies a worker owns the copy."""
    site = site_of(stage)
    ref = clone(stage, site, "bench-001")
    machine = stage.vsphere.machine(ref, policies=False)
    whole = Mark("ours", "bench", "worker", "bench-001", machine.instance)
    stage.vsphere.change(ref, Change(settings={MARK: render_mark(whole)}), timeout=LONG)
    stage.add_copy("bench-001", "precious")
    ours = {m.name: m.belongs_to("ours") for m in stage.vsphere.machines(site, policies=False)}
    assert ours == {"bench-001": True, "precious": False}


def test_a_change_shows(stage: Stage) -> None:
    """CPUs, memory, disks on both kinds of controller, a card's network and policies change."""
    site = site_of(stage)
    ref = clone(stage, site, "bench-001")
    policy = stage.vsphere.policies()["raid1-ftt1"]
    image = stage.vsphere.machine(ref, policies=True).disks
    network = next(n for n in site.networks if n.name == "VM Network")
    stage.vsphere.change(
        ref,
        Change(
            cpus=4,
            memory=4 * GIB,
            add_disks=(
                NewDisk(7 * GIB, "pvscsi", 1, 0, True, policy),
                NewDisk(8 * GIB, "nvme", 1, 0, True, policy),
            ),
            networks=(network,),
            policy=policy,
            policy_disks=tuple(disk.key for disk in image),
        ),
        timeout=LONG,
    )
    machine = stage.vsphere.machine(ref, policies=True)
    assert (machine.cpus, machine.memory) == (4, 4 * GIB)
    assert [nic.network for nic in machine.nics] == [network.identity]
    new = [disk for disk in machine.disks if disk.size != image[0].size]
    assert [(disk.size, disk.controller, disk.bus) for disk in new] == [
        (7 * GIB, "pvscsi", 1),
        (8 * GIB, "nvme", 1),
    ]
    assert {disk.policy for disk in machine.disks} == {policy} == {machine.policy}
    assert all(disk.serial for disk in machine.disks)


def test_removed_disks_are_gone_and_others_stay(stage: Stage) -> None:
    """Only the disks that are named go."""
    site = site_of(stage)
    ref = clone(stage, site, "bench-001")
    add = tuple(NewDisk(GIB * n, "pvscsi", 1, n, True, None) for n in (2, 3))
    stage.vsphere.change(ref, Change(add_disks=add), timeout=LONG)
    before = stage.vsphere.machine(ref, policies=False).disks
    going = next(disk.key for disk in before if disk.size == 2 * GIB)
    stage.vsphere.change(ref, Change(remove_disks=(going,)), timeout=LONG)
    after = stage.vsphere.machine(ref, policies=False).disks
    assert [d.key for d in after] == [d.key for d in before if d.key != going]


def test_switching_and_removing_twice_is_harmless(stage: Stage) -> None:
    """What is so already is left alone, so that a repeated step does nothing."""
    site = site_of(stage)
    before = stage.inventory()
    ref = clone(stage, site, "bench-001")
    for wanted in ("on", "on"):
        stage.vsphere.power(ref, wanted, timeout=LONG)
    assert stage.vsphere.machine(ref, policies=False).power == "on"
    for wanted in ("off", "off"):
        stage.vsphere.power(ref, wanted, timeout=LONG)
    stage.vsphere.destroy(ref, timeout=LONG)
    stage.vsphere.destroy(ref, timeout=LONG)
    assert stage.inventory() == before


def test_a_running_machine_is_not_removed(stage: Stage) -> None:
    """vCenter refuses to remove what runs, and the error carries its word for it."""
    site = site_of(stage)
    ref = clone(stage, site, "bench-001")
    stage.vsphere.power(ref, "on", timeout=LONG)
    with pytest.raises(TaskFailed) as caught:
        stage.vsphere.destroy(ref, timeout=LONG)
    assert caught.value.fault == "InvalidPowerState"


def test_what_is_gone_is_not_found(stage: Stage) -> None:
    """A ref that doesn't exist, a cluster, and a template each say what was looked for."""
    site = site_of(stage)
    with pytest.raises(NotFoundInVCenter):
        stage.vsphere.machine("vm-0", policies=False)
    with pytest.raises(NotFoundInVCenter, match="no cluster 'DC0_C9'"):
        stage.vsphere.site("DC0", "DC0_C9", pool=None, folder=None)
    with pytest.raises(NotFoundInVCenter, match=r"ubuntu-18\.04"):
        stage.vsphere.source(site, "ubuntu-18.04")


def test_guests_are_awaited(stage: Stage) -> None:
    """Waiting ends when every guest is ready, and gives what the tools report."""
    site = site_of(stage)
    refs = [clone(stage, site, f"bench-00{n}") for n in (1, 2)]
    for ref in refs:
        stage.vsphere.power(ref, "on", timeout=LONG)

    def ready(_ref: str, guest: Guest) -> bool:
        return guest.running and bool(guest.ip_address)

    guests = stage.vsphere.await_guests(refs, ready, awaited="two guests", timeout=LONG)
    assert set(guests) == set(refs)
    assert all(ready(ref, guest) for ref, guest in guests.items())
    assert len({guest.ip_address for guest in guests.values()}) == 2


def test_waiting_ends_with_what_was_seen(stage: Stage) -> None:
    """A guest that never gets there doesn't hold the caller beyond its time."""
    site = site_of(stage)
    ref = clone(stage, site, "bench-001")
    guests = stage.vsphere.await_guests(
        [ref], lambda _ref, _guest: False, awaited="nothing", timeout=0.1
    )
    assert guests[ref].running is False


def test_rules_come_change_and_go(stage: Stage) -> None:
    """A keep-apart rule is made, replaced and removed by its name; removing twice is no error."""
    site = site_of(stage)
    refs = [clone(stage, site, f"bench-00{n}") for n in (1, 2, 3)]
    for chosen in (frozenset(refs[:2]), frozenset(refs)):
        stage.vsphere.set_rule(site, Rule("apart", chosen), timeout=LONG)
        assert stage.vsphere.rules(site) == [Rule("apart", chosen)]
    for _ in range(2):
        stage.vsphere.set_rule(site, Rule("apart", frozenset()), timeout=LONG)
        assert stage.vsphere.rules(site) == []


def test_pins_come_and_go(stage: Stage) -> None:
    """Automatic migration is switched off and on again, as often as it is said."""
    site = site_of(stage)
    ref = clone(stage, site, "bench-001")
    for _ in range(2):
        stage.vsphere.pin(site, [ref], True, timeout=LONG)
        assert stage.vsphere.pinned(site) == {ref}
    for _ in range(2):
        stage.vsphere.pin(site, [ref], False, timeout=LONG)
        assert stage.vsphere.pinned(site) == frozenset()


def test_closing_twice_is_harmless(stage: Stage) -> None:
    """Close may be called again."""
    stage.vsphere.close()
    stage.vsphere.close()

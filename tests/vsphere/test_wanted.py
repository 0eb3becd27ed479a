"""Where new data disks go, and how targets are named."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.inventory import BlockTarget
from orchestrator.vsphere.base import Disk, Mark
from orchestrator.vsphere.cloudinit import Seed
from orchestrator.vsphere.handover import targets_of
from orchestrator.vsphere.wanted import DataDisks, Wanted, data_disks, new_disks
from tests.vsphere.conftest import GIB, template


def wanted(count: int, controller: str = "pvscsi") -> Wanted:
    """A worker with so many disks."""
    return Wanted(
        name="w",
        mark=Mark("id", "bench", "worker", "w"),
        cpus=1,
        memory=GIB,
        disks=DataDisks(count, GIB, controller, True),  # type: ignore[arg-type]
        networks=(),
        image="i",
        seed=Seed("i", "w", "u", "k", "p", "q"),
    )


@given(st.integers(1, 45), st.sampled_from(["pvscsi", "nvme"]), st.integers(0, 44))
def test_every_disk_has_a_place_of_its_own(count: int, controller: str, kept: int) -> None:
    """No place twice, at most 15 a controller, none on PVSCSI's own unit, an even spread."""
    kept = min(kept, count)
    there = [
        Disk(key, GIB, d.controller, d.bus, d.unit, True, None, None)
        for key, d in enumerate(new_disks(kept, wanted(count, controller), [], (("pvscsi", 0),)))
    ]
    new = new_disks(count - kept, wanted(count, controller), there, (("pvscsi", 0),))
    places = [(d.bus, d.unit) for d in (*there, *new)]
    assert len(set(places)) == count
    assert all(bus in (1, 2, 3) for bus, _ in places)
    by_bus = Counter(bus for bus, _ in places)
    assert max(by_bus.values()) <= 15
    assert max(by_bus.values()) - min(by_bus.values()) <= 1
    if controller == "pvscsi":
        assert all(unit != 7 for _, unit in places)


def test_disks_are_spread_as_hcibench_does() -> None:
    """One controller for up to four disks, two for up to eight, three from nine on."""
    found = {n: len({d.bus for d in new_disks(n, wanted(n), [], ())}) for n in (1, 4, 5, 8, 9, 40)}
    assert found == {1: 1, 4: 1, 5: 2, 8: 2, 9: 3, 40: 3}


def test_a_bus_of_another_kind_is_left_alone() -> None:
    """An image with two controllers of its own keeps both."""
    found = new_disks(8, wanted(8), [], (("other", 0), ("other", 1)))
    assert {disk.bus for disk in found} == {2, 3}


def test_targets_are_scsi_serials_and_nvme_namespaces() -> None:
    """The image's disk is never a target; NVMe controllers count in the order of their buses."""
    machine = template()
    scsi = Disk(2001, GIB, "pvscsi", 1, 0, True, "6000c290", "ds")
    machine = replace(machine, disks=(*machine.disks, scsi), settings={"hcio.image_disks": "2000"})
    assert targets_of(machine) == (BlockTarget(serial="6000c290", size=GIB, label="disk0"),)
    nvme = Disk(2002, 2 * GIB, "nvme", 2, 3, True, "6000c291", "ds")
    machine = replace(
        machine,
        disks=(machine.disks[0], nvme),
        controllers=(("pvscsi", 0), ("nvme", 2), ("nvme", 1)),
    )
    assert targets_of(machine) == (BlockTarget(path="/dev/nvme1n4", size=2 * GIB, label="disk0"),)


def test_before_the_image_is_written_down_nothing_is_data() -> None:
    """A half-made worker's disks are the image's: none is ever taken for a data disk."""
    assert data_disks(template()) == ()

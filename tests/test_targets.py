"""Which targets may be written, and every reason why others may not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.devices import Device, FileFacts, enrich, parse_lsblk
from orchestrator.errors import TargetRefused
from orchestrator.targets import Judgement, Wanted, judge

CASES = Path(__file__).parent / "data" / "cases"
ORDER = CASES / "26-disk-order-changes"
IN_USE = CASES / "27-target-in-use"
EXPECTED: dict[str, Any] = json.loads((IN_USE / "expected.json").read_text())
DISKS = parse_lsblk((IN_USE / "lsblk.json").read_text())
GIB = 1 << 30
#: The codes that stand for the reasons told in case 27.
CODES = {
    "sda": {"system"},
    "sdc": {"mounted"},
    "sdd": {"partition-table", "filesystem"},
    "sde": {"in-use"},
    "sdf": {"in-use-swap"},
    "sdg": {"filesystem"},
    "sdh": {"in-use", "raid"},
    "sdi": {"read-only"},
    "sr0": {"not-a-disk"},
    "sdz": {"absent"},
}
ALL = frozenset({"partition-table", "filesystem", "swap", "lvm", "raid", "mounted", "system"})


def one(name: str, *, devices: tuple[Device, ...] = DISKS, **more: Any) -> Judgement:
    """Judge one device of case 27 by its path; the size is stated so that the letter may stand."""
    sizes = {each.path: each.size for disk in devices for each in disk.below()}
    path = f"/dev/{name}"
    wanted = Wanted(name, path=path, size=sizes.get(path, GIB), **more)
    return judge("w1", [wanted], devices, {})


def codes(judgement: Judgement) -> set[str]:
    return {refusal.code for refusal in judgement.refusals}


@pytest.mark.parametrize(("name", "allowed"), EXPECTED["write_allowed"].items())
def test_case_27_only_the_clean_disk_may_be_written(name: str, allowed: bool) -> None:
    """Case 27: a device in any use, or absent, is refused for writing."""
    judgement = one(name)
    assert bool(judgement.resolved) is allowed
    assert bool(judgement.refusals) is not allowed


@pytest.mark.parametrize("name", EXPECTED["reasons"])
def test_case_27_reasons(name: str) -> None:
    """Case 27: each refusal names its reason."""
    assert CODES[name] <= codes(one(name))


@pytest.mark.parametrize("name", EXPECTED["write_allowed"])
def test_case_27_an_allow_covers_leftovers_alone(name: str) -> None:
    """Case 27: allowing everything opens unused leftovers, and nothing that is in use."""
    allowed = bool(one(name, allow=ALL).resolved)
    assert allowed is (name in ("sdb", "sdd", "sdg"))


@pytest.mark.parametrize("name", EXPECTED["override_never_covers"])
def test_case_27_the_system_disk_is_never_allowable(name: str) -> None:
    """Case 27: no refusal of the system disk says that it could be allowed."""
    assert not [r for r in one(name).refusals if r.code == "system" and r.allowable]
    with pytest.raises(TargetRefused, match="holds /: the system"):
        one(name, allow=ALL).require()


def test_case_27_read_only_jobs() -> None:
    """Case 27: jobs that only read may use what isn't mounted; a mounted one needs an override."""
    for name in ("sdb", "sdd", "sdf", "sdg", "sdh", "sdi"):
        assert one(name, writes=False).resolved, name
    for name in ("sdc", "sde"):
        assert codes(one(name, writes=False)) == {"mounted"}
        assert one(name, writes=False, allow=frozenset({"mounted"})).resolved


def test_case_26_disks_are_found_by_serial() -> None:
    """Case 26: after a boot that moved the letters the same disks are used, never the system's."""
    plan = yaml.safe_load((ORDER / "plan.yaml").read_text())
    expected = json.loads((ORDER / "expected.json").read_text())
    wanted = [Wanted(t["label"], path=t["device"], serial=t["serial"]) for t in plan["targets"]]
    for boot in ("boot1", "boot2"):
        disks = parse_lsblk((ORDER / f"lsblk-{boot}.json").read_text())
        found = judge("w1", wanted, disks, {}).require()
        paths = {label: expected[boot][label] for label in ("data1", "data2")}
        assert {target.label: target.path for target in found} == paths
        assert expected["never"] == "/dev/sdb written on boot2"
        moved = [target.label for target in found if target.notes]
        assert moved == (["data1"] if boot == "boot2" else [])


def test_case_26_the_letter_alone_is_refused() -> None:
    """Case 26: a target named by its letter alone is refused, and the serial to add is named."""
    disks = parse_lsblk((ORDER / "lsblk-boot1.json").read_text())
    judgement = judge("w1", [Wanted("d", path="/dev/sdb")], disks, {})
    assert codes(judgement) == {"letter"}
    assert "6000c290bb" in judgement.refusals[0].text
    assert judge("w1", [Wanted("d", path="/dev/sdb", writes=False)], disks, {}).resolved


def test_a_changed_serial_is_said() -> None:
    """When no disk has the serial, the one at the named path is told with what it has."""
    judgement = judge("w1", [Wanted("d", path="/dev/sdb", serial="other")], DISKS, {})
    assert judgement.refusals[0].text.startswith("serial of /dev/sdb changed")


def test_all_reasons_come_at_once() -> None:
    """One error lists every target's every reason, and what an allow list could cover."""
    wanted = [
        Wanted("a", path="/dev/sda", size=1),
        Wanted("b", serial="s-g", size=1),
        Wanted("c", serial="nobody"),
    ]
    with pytest.raises(TargetRefused) as caught:
        judge("w7", wanted, DISKS, {}).require()
    text = str(caught.value)
    for part in (
        "w7",
        "a (/dev/sda): holds /",
        "the plan says 1",
        "b (/dev/sdg)",
        "c (serial nobody)",
    ):
        assert part in text
    assert "allow: [filesystem, partition-table]" in text


def test_wrong_size_and_ambiguous_serial() -> None:
    """A size that differs by a byte, or a serial that two disks have, is refused."""
    clean = next(disk for disk in DISKS if disk.name == "sdb")
    wrong = judge("w", [Wanted("d", serial="s-b", size=clean.size - 1)], DISKS, {})
    assert codes(wrong) == {"size"}
    twin = replace(clean, path="/dev/sdq", name="sdq")
    assert codes(judge("w", [Wanted("d", serial="s-b")], (clean, twin), {})) == {"ambiguous"}


def test_two_targets_on_one_device_are_refused() -> None:
    """By whatever names: one device can't be two targets."""
    wanted = [Wanted("a", serial="s-b"), Wanted("b", path="/dev/disk/by-id/x")]
    links = {"/dev/disk/by-id/x": "/dev/sdb"}
    judgement = judge("w", wanted, DISKS, {}, links)
    assert codes(judgement) == {"same"}
    assert [target.label for target in judgement.resolved] == ["a"]


def test_a_stable_link_is_enough() -> None:
    """A by-id path names a disk for good, through the link as it is now."""
    links = {"/dev/disk/by-id/x": "/dev/sdb"}
    judgement = judge("w", [Wanted("a", path="/dev/disk/by-id/x")], DISKS, {}, links)
    assert judgement.require()[0].path == "/dev/sdb"


@pytest.mark.parametrize(
    ("mark", "code"),
    [
        ("ext4", "filesystem"),
        ("pt:gpt", "partition-table"),
        ("dos", "partition-table"),
        ("LVM2_member", "lvm"),
        ("linux_raid_member", "raid"),
        ("swap", "swap"),
        ("mpath_member", "multipath"),
        ("crypto_LUKS", "filesystem"),
        ("ambivalent", "filesystem"),
    ],
)
def test_what_a_probe_finds_counts(mark: str, code: str) -> None:
    """A signature that only the low-level probe saw refuses a disk that lsblk calls empty."""
    disk = Device("sdb", "/dev/sdb", "disk", GIB, number="8:16")
    seen = enrich([disk], {"8:16": replace(disk, signatures=(mark,))})
    assert codes(judge("w", [Wanted("d", path="/dev/sdb", size=GIB)], seen, {})) == {code}
    allowed = Wanted("d", path="/dev/sdb", size=GIB, allow=ALL)
    assert bool(judge("w", [allowed], seen, {}).resolved) is (code != "multipath")


def test_what_the_kernel_says_counts() -> None:
    """Mounts, swap, holders and read-only that only the kernel knows refuse as well."""
    disk = Device("sdb", "/dev/sdb", "disk", GIB, number="8:16")
    changes: dict[str, dict[str, Any]] = {
        "mounted": {"mountpoints": ("/mnt/x",)},
        "in-use-swap": {"swap": True},
        "in-use": {"holders": ("dm-0",)},
        "read-only": {"read_only": True},
        "unknown": {"probed": False},
        "permission": {"writable": False},
        "size": {"size": GIB + 512},
    }
    for code, change in changes.items():
        seen = enrich([disk], {"8:16": replace(disk, **change)})
        assert codes(judge("w", [Wanted("d", path="/dev/sdb", size=GIB)], seen, {})) == {code}


def test_old_lsblk_is_read() -> None:
    """Strings for numbers, `mountpoint` for `mountpoints`, no `path`: an lsblk of 2017."""
    text = (
        '{"blockdevices": [{"name": "sdb", "type": "disk", "size": "1024", "ro": "1",'
        ' "mountpoint": "/x", "serial": " s "}]}'
    )
    (disk,) = parse_lsblk(text)
    assert (disk.path, disk.size, disk.read_only) == ("/dev/sdb", 1024, True)
    assert (disk.mountpoints, disk.serial) == (("/x",), "s")


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (FileFacts("/d/f", "absent", free=2 * GIB), set()),
        (FileFacts("/d/f", "absent", free=GIB - 1), {"space"}),
        (FileFacts("/d/f", "file", size=GIB, made_by="r1", free=0), set()),
        (FileFacts("/d/f", "file", size=GIB, free=0), {"foreign"}),
        (FileFacts("/d/f", "link"), {"not-a-file"}),
        (FileFacts("/d/f", "block"), {"not-a-file"}),
        (FileFacts("/d/f", "absent", folder=False), {"folder"}),
        (FileFacts("/d/f", "absent", writable=False), {"permission"}),
        (FileFacts("/dev/sdz", "absent", free=2 * GIB), {"absent"}),
    ],
)
def test_file_targets(facts: FileFacts, expected: set[str]) -> None:
    """A file target must be hcio's own or new, in a folder with room for it, and not below /dev."""
    wanted = Wanted("f", file=facts.path, size=GIB)
    judgement = judge("w", [wanted], (), {facts.path: facts})
    assert codes(judgement) == expected
    if not expected:
        assert judgement.require()[0].exists is (facts.kind == "file")


def test_a_file_of_which_nothing_is_known_is_refused() -> None:
    """Silence of the worker is no permission."""
    assert codes(judge("w", [Wanted("f", file="/x")], (), {})) == {"unknown"}

"""Cases 26 and 27 on real block devices: loop devices on files, and not one byte written.

What this machine doesn't allow is skipped by name.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from orchestrator.targets import Judgement, Wanted, judge
from orchestrator.worker.stream import CheckedDevice, StagedCase

from .conftest import QUICK, Bench

pytestmark = pytest.mark.real

SIZE = 16 << 20
SECTOR = 512


def raid_superblock(at: int) -> bytes:
    """A Linux software RAID superblock, version 1.2, for the byte offset `at`: magic, version,
    where it stands, and its checksum (struct mdp_superblock_1 of the kernel's md_p.h)."""
    words = [0] * 64
    words[0], words[1] = 0xA92B4EFC, 1
    words[4:8] = [1, 2, 3, 4]  # the array's UUID
    words[18], words[23] = 1, 2  # level, disks
    words[36] = at // SECTOR
    words[54] = sum(words) & 0xFFFFFFFF
    return b"".join(word.to_bytes(4, "little") for word in words)


#: A DOS partition table with one partition (type 0x83) from sector 2048 on.
ONE_PARTITION = (
    b"\x00" * 446
    + b"\x00\x00\x00\x00\x83\x00\x00\x00"
    + (2048).to_bytes(4, "little")
    + (16384).to_bytes(4, "little")
    + b"\x00" * 48
    + b"\x55\xaa"
)


def tool(*command: str) -> str:
    """Run a tool of the machine, or skip the test and say what isn't allowed."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} on this machine")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"not allowed on this machine: {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()


class Loops:
    """Loop devices on files of one test."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.stack = stack
        self.count = 0

    def file(self, content: bytes = b"", at: int = 0) -> Path:
        self.count += 1
        path = self.folder / f"disk{self.count}"
        with path.open("wb") as disk:
            disk.truncate(SIZE)
            disk.seek(at)
            disk.write(content)
        return path

    def attach(self, path: Path, *options: str) -> str:
        device = tool("losetup", "-f", "--show", *options, str(path))
        self.stack.callback(subprocess.run, ["losetup", "-d", device], check=False)
        return device

    def then(self, *command: str) -> None:
        self.stack.callback(subprocess.run, command, check=False, capture_output=True)


@pytest.fixture
def loops(tmp_path: Path) -> Iterator[Loops]:
    with ExitStack() as stack:
        yield Loops(tmp_path, stack)


def look(bench: Bench, device: str, *, size: int = SIZE, allow: str = "") -> Judgement:
    """Ask the worker, and judge what it says of one device."""
    facts = bench.worker.facts(devices=[device])
    wanted = Wanted("d", path=device, size=size, allow=frozenset(allow.split()))
    return judge("w1", [wanted], facts.devices, facts.files, facts.links)


def codes(judgement: Judgement) -> set[str]:
    return {refusal.code for refusal in judgement.refusals}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def refused(bench: Bench, device: str, path: Path, *expected: str) -> None:
    """The device is refused for these reasons, and looking at it wrote nothing."""
    before = digest(path)
    assert codes(look(bench, device)) == set(expected)
    assert digest(path) == before


@pytest.mark.parametrize("shell", ["dash", "busybox"])
def test_a_clean_device_is_accepted(
    make_bench: Callable[..., Bench], loops: Loops, shell: str
) -> None:
    """An empty device of the right size is the only one that may be written."""
    path = loops.file()
    device = loops.attach(path)
    target = look(make_bench(shell), device).require()[0]
    assert (target.path, target.size) == (device, SIZE)
    assert target.number is not None
    assert digest(path) == hashlib.sha256(bytes(SIZE)).hexdigest()


def test_wrong_size_and_missing(make_bench: Callable[..., Bench], loops: Loops) -> None:
    """A device of another size, and one that isn't there, are refused; no file appears in /dev."""
    bench = make_bench()
    device = loops.attach(loops.file())
    assert codes(look(bench, device, size=SIZE + 512)) == {"size"}
    assert codes(look(bench, "/dev/hcio-missing")) == {"absent"}
    assert not Path("/dev/hcio-missing").exists()


def test_a_filesystem_and_its_mount(make_bench: Callable[..., Bench], loops: Loops) -> None:
    """A file system refuses (a leftover), mounted it is in use whatever is allowed."""
    bench = make_bench()
    path = loops.file()
    tool("mkfs.ext4", "-q", "-F", str(path))
    device = loops.attach(path)
    refused(bench, device, path, "filesystem")
    assert look(bench, device, allow="filesystem").resolved
    folder = loops.folder / "mounted here"
    folder.mkdir()
    tool("mount", "-o", "ro", device, str(folder))
    loops.then("umount", str(folder))
    assert codes(look(bench, device, allow="filesystem mounted")) == {"mounted"}


def test_swap(make_bench: Callable[..., Bench], loops: Loops) -> None:
    """A swap signature refuses."""
    path = loops.file()
    tool("mkswap", str(path))
    refused(make_bench(), loops.attach(path), path, "swap")


def test_swap_in_use(make_bench: Callable[..., Bench], loops: Loops) -> None:
    """Swap in use refuses, and no allow covers it."""
    path = loops.file()
    tool("mkswap", str(path))
    device = loops.attach(path)
    tool("swapon", device)
    loops.then("swapoff", device)
    assert "in-use-swap" in codes(look(make_bench(), device, allow="swap"))


def test_an_lvm_volume(make_bench: Callable[..., Bench], loops: Loops) -> None:
    """An LVM physical volume refuses by its label, which stands in the second sector."""
    path = loops.file()
    device = loops.attach(path)
    tool("pvcreate", "-ff", "-y", device)
    refused(make_bench(), device, path, "lvm")


def test_a_raid_member(make_bench: Callable[..., Bench], loops: Loops) -> None:
    """A software RAID superblock refuses."""
    path = loops.file(raid_superblock(4096), at=4096)
    refused(make_bench(), loops.attach(path), path, "raid")


@pytest.mark.parametrize("options", [(), ("-P",)], ids=["table alone", "partition made"])
def test_a_partition_table(
    make_bench: Callable[..., Bench], loops: Loops, options: tuple[str, ...]
) -> None:
    """A partition table refuses, with and without partitions that the kernel knows."""
    path = loops.file(ONE_PARTITION)
    refused(make_bench(), loops.attach(path, *options), path, "partition-table")


def test_read_only(make_bench: Callable[..., Bench], loops: Loops) -> None:
    """A read-only device refuses."""
    path = loops.file()
    refused(make_bench(), loops.attach(path, "-r"), path, "read-only")


def test_a_mount_between_stage_and_start_is_seen(
    make_bench: Callable[..., Bench], loops: Loops
) -> None:
    """A device that got mounted, or another size, after it was staged refuses the arm."""
    bench = make_bench()
    path = loops.file()
    tool("mkfs.ext4", "-q", "-F", str(path))
    device = loops.attach(path)
    (target,) = look(bench, device, allow="filesystem").require()
    assert target.number is not None
    good = CheckedDevice(device, SIZE, target.number)
    bench.worker.stage(
        [
            StagedCase("a", QUICK, devices=(good,)),
            StagedCase("b", QUICK, devices=(CheckedDevice(device, SIZE * 2, target.number),)),
            StagedCase("c", QUICK, devices=(good,)),
        ]
    )
    assert bench.arm("c") == "armed"
    bench.wait("c", "done")
    folder = loops.folder / "m"
    folder.mkdir()
    tool("mount", "-o", "ro", device, str(folder))
    loops.then("umount", str(folder))
    arm = {"t0": time.time() + 5, "deadline_s": 1.0, "attempt": 1}
    replies = {case: bench.worker.arm(case, **arm) for case in ("a", "b")}  # type: ignore[arg-type]
    assert {case: reply.answer for case, reply in replies.items()} == dict.fromkeys("ab", "refused")
    assert "is mounted on" in replies["a"].why
    assert f"not {SIZE * 2}" in replies["b"].why


def test_case_26_devices_that_change_places(make_bench: Callable[..., Bench], loops: Loops) -> None:
    """Case 26: when another disk stands under the same name, its size gives it away."""
    bench = make_bench()
    data, system = loops.file(), loops.file()
    with system.open("r+b") as disk:
        disk.truncate(SIZE * 2)
    device = loops.attach(data)
    assert look(bench, device).resolved
    tool("losetup", "-d", device)
    tool("losetup", device, str(system))
    before = digest(system)
    assert codes(look(bench, device)) == {"size"}
    assert digest(system) == before

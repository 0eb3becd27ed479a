"""Block devices end to end: a run on loop devices, and one of them refused."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pwd
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster

SIZE = 16 * 2**20


def loop_refusal() -> str | None:
    """Why this machine gives no loop devices; None when it does."""
    if os.geteuid() != 0:
        return "loop devices need root"
    done = subprocess.run(["losetup", "--find"], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"losetup --find: {done.stderr.strip()}"


pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(loop_refusal() is not None, reason=str(loop_refusal())),
]


@pytest.fixture
def loops(
    make_cluster: Callable[..., Cluster], tmp_path: Path
) -> Iterator[tuple[Cluster, dict[str, tuple[str, Path]]]]:
    """Two workers with a loop device each: (cluster, worker: (device, its file))."""
    cluster = make_cluster(2)
    devices: dict[str, tuple[str, Path]] = {}
    owner = pwd.getpwnam(cluster.sshd.user).pw_uid
    try:
        for name in cluster.names:
            file = tmp_path / f"{name}.img"
            file.write_bytes(b"\0" * SIZE)
            command = ["losetup", "--find", "--show", str(file)]
            found = subprocess.run(command, capture_output=True, text=True, check=True)
            device = found.stdout.strip()
            devices[name] = (device, file)
            os.chown(device, owner, -1)
        cluster.write_inventory(
            **{
                name: {"targets": [{"path": device, "size": SIZE}]}
                for name, (device, _) in devices.items()
            }
        )
        yield cluster, devices
    finally:
        for device, _ in devices.values():
            os.chown(device, 0, -1)
            with contextlib.suppress(subprocess.CalledProcessError):
                subprocess.run(["losetup", "--detach", device], check=True)


def words(cluster: Cluster) -> list[str]:
    sets = ("runtime=2", "ramp=0", "prepare=random", "iodepth=4")
    return [
        *("run", "4k-70r-random", "-i", str(cluster.inventory), "--json", "--poll", "0.5"),
        *(word for item in sets for word in ("--set", item)),
    ]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_run_on_loop_devices(loops: tuple[Cluster, dict[str, tuple[str, Path]]]) -> None:
    """Clean devices are filled, measured and counted as preconditioned."""
    cluster, devices = loops
    done = cluster.hcio(*words(cluster))
    assert done.status in (0, 3), done.err
    case = json.loads(done.out)["cases"][0]
    assert (case["outcome"], case["received_workers"]) == ("done", 2)
    assert "not-preconditioned" not in {r["code"] for r in case["verdict"]["reasons"]}
    for _, file in devices.values():
        assert file.read_bytes().count(b"\0" * 4096) == 0


def test_a_device_with_a_filesystem_is_refused(
    loops: tuple[Cluster, dict[str, tuple[str, Path]]],
) -> None:
    """One device that holds a filesystem: nothing is run, and not one byte of either is changed."""
    cluster, devices = loops
    subprocess.run(["mkfs.ext4", "-q", devices["w2"][0]], check=True)
    before = {name: digest(file) for name, (_, file) in devices.items()}
    done = cluster.hcio(*words(cluster))
    assert done.status == 4
    assert "w2" in done.err
    assert "ext4" in done.err
    os.sync()
    assert {name: digest(file) for name, (_, file) in devices.items()} == before

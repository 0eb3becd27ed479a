"""How a case can end, and that nothing foreign is ever touched."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.errors import WorkerError
from orchestrator.worker.stream import CheckedDevice, StagedCase

from .conftest import LONG, QUICK, Bench, alive, job

#: Real shells, real fio, real time.
pytestmark = pytest.mark.real

#: A fio that hangs: it ignores TERM, and its jobs are in sessions of their own, as fio's are.
STUBBORN = job(
    "echo '{}' >$out",
    "trap '' TERM",
    "setsid sh -c 'trap \"\" TERM; echo $$ >child; while :; do sleep 1; done' &",
    "echo $$ >pid",
    "while :; do sleep 1; done",
)


def read_pid(path: Path) -> int:
    """A pid that a process is about to write."""
    for _ in range(200):
        if path.exists() and path.read_text().strip():
            return int(path.read_text())
        time.sleep(0.05)
    raise AssertionError(f"nothing wrote {path}")


def gone(pid: int) -> bool:
    """Does the process end within a few seconds?"""
    for _ in range(100):
        if not alive(pid):
            return True
        time.sleep(0.05)
    return False


def test_the_deadline_ends_a_hung_fio(bench: Bench) -> None:
    """A fio that ignores TERM, and its jobs that left the group, end at the deadline by KILL."""
    bench.stage(a=STUBBORN)
    bench.arm("a", deadline=1.0)
    child = read_pid(bench.folder("a") / "out" / "child")
    ending = bench.wait("a", "done").ending
    assert ending is not None
    assert (ending.by, ending.exit, ending.signal) == ("deadline", 137, 9)
    assert gone(child)
    assert gone(bench.pid("a"))
    assert bench.worker.fetch("a").files["out/fio.json"] == b"{}\n"


def test_the_deadline_lets_fio_write_its_json(make_bench: Callable[..., Bench]) -> None:
    """TERM comes first: a fio that obeys it ends by itself and its output is kept."""
    bench = make_bench("dash")
    bench.stage(a=job("trap 'echo whole >$out; exit 0' TERM", "while :; do sleep 0.05; done"))
    bench.arm("a", deadline=0.3)
    ending = bench.wait("a", "done").ending
    assert ending is not None
    assert (ending.by, ending.exit) == ("deadline", 0)
    assert bench.worker.fetch("a").files["out/fio.json"] == b"whole\n"


def test_stop_ends_this_case_and_no_other(bench: Bench) -> None:
    """Stop kills what belongs to the case; another case and a foreign process live on."""
    foreign = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        bench.stage(a=STUBBORN, b=LONG, ab=LONG)
        for case in ("a", "b"):
            bench.arm(case)
        child = read_pid(bench.folder("a") / "out" / "child")
        other = bench.pid("b")
        state = bench.worker.stop("a", grace_s=0.2)
        assert state.state == "done"
        ending = bench.wait("a", "done").ending
        assert ending is not None
        assert ending.by == "stopped"
        assert gone(child)
        assert alive(other)
        assert foreign.poll() is None
        assert bench.worker.poll(["b"])["b"].state == "running"
    finally:
        foreign.kill()
        foreign.wait()


def test_stop_before_the_start_is_a_disarm(bench: Bench) -> None:
    """Stopping an armed case prevents its start."""
    bench.stage(a=QUICK)
    bench.arm("a", lead=1.2)
    assert bench.worker.stop("a", grace_s=0.2).state == "staged"
    time.sleep(1.4)
    assert bench.starts("a") == 0


def test_a_foreign_process_that_names_the_mark_lives_on(make_bench: Callable[..., Bench]) -> None:
    """Only the variable itself marks a process, not a text that holds it."""
    bench = make_bench("dash")
    bench.stage(a=LONG)
    near = {**os.environ, "NOTE": f"HCIO_CASE={bench.folder('a')};"}
    foreign = subprocess.Popen(["sleep", "60"], env=near, start_new_session=True)
    try:
        bench.arm("a")
        bench.pid("a")
        assert bench.worker.stop("a", grace_s=0.2).state == "done"
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()


def test_a_killed_owner_is_lost(bench: Bench) -> None:
    """When the case's own process is killed it is reported as lost, with what still runs there."""
    bench.stage(a=LONG)
    bench.arm("a")
    pid = bench.pid("a")
    owner = int((bench.folder("a") / "owner").read_text().split()[0])
    os.kill(owner, signal.SIGKILL)
    state = bench.wait("a", "lost")
    assert state.alive
    assert state.began is not None
    with pytest.raises(WorkerError, match="lost"):
        bench.worker.fetch("a")
    assert bench.worker.fetch("a", partial=True).files["out/fio.json"] == b"{}\n"
    assert bench.arm("a", attempt=2) == "already"
    assert bench.worker.stop("a").alive in (0, None)
    assert gone(pid)
    assert bench.starts("a") == 1


def test_a_reboot_in_between_is_lost(make_bench: Callable[..., Bench]) -> None:
    """After a boot no pid of before is believed, even when a process with that number lives."""
    bench = make_bench("dash")
    bench.stage(a=LONG)
    bench.arm("a")
    bench.pid("a")
    owner = bench.folder("a") / "owner"
    pid, start, _, attempt = owner.read_text().split()
    owner.write_text(f"{pid} {start} 00000000-another-boot {attempt}\n")
    assert bench.worker.poll(["a"])["a"].state == "lost"


def test_a_boot_between_stage_and_arm_is_told(make_bench: Callable[..., Bench]) -> None:
    """Device names may have moved: a case staged before a boot must be staged again."""
    bench = make_bench("dash")
    bench.stage(a=QUICK)
    (bench.folder("a") / "staged").write_text("boot=another\n")
    assert bench.arm("a") == "rebooted"
    bench.stage(a=QUICK)
    assert bench.arm("a") == "armed"


def test_fio_killed_by_a_signal_is_told(bench: Bench) -> None:
    """A fio that something else killed ended by that signal, not by itself."""
    bench.stage(a=LONG)
    bench.arm("a")
    os.kill(bench.pid("a"), signal.SIGKILL)
    ending = bench.wait("a", "done").ending
    assert ending is not None
    assert (ending.by, ending.signal, ending.exit) == ("signal", 9, 137)


def test_what_fio_leaves_behind_is_ended(bench: Bench) -> None:
    """A job that survives its fio does not go on writing into the next case."""
    bench.stage(a=job("setsid sleep 60 & echo $! >child; sleep 0.2", "echo '{}' >$out"))
    bench.arm("a")
    child = read_pid(bench.folder("a") / "out" / "child")
    bench.wait("a", "done")
    assert gone(child)


def test_a_target_that_changed_is_refused_at_arm(make_bench: Callable[..., Bench]) -> None:
    """A target that isn't what was staged refuses the arm, with its reason, and nothing starts."""
    bench = make_bench("dash")
    missing = CheckedDevice("/dev/nosuch", 4096, "7:200")
    bench.worker.stage(
        [
            StagedCase("a", QUICK, devices=(missing,)),
            StagedCase("b", QUICK, file_targets=("/no/such/target file",)),
        ]
    )
    reply = bench.worker.arm("a", t0=time.time() + 5, deadline_s=1, attempt=1)
    assert (reply.answer, reply.why) == ("refused", "/dev/nosuch is not a block device")
    reply = bench.worker.arm("b", t0=time.time() + 5, deadline_s=1, attempt=1)
    assert (reply.answer, reply.why) == ("refused", "file /no/such/target file isn't there")


def test_a_target_that_goes_before_t0_is_refused(bench: Bench, tmp_path: Path) -> None:
    """Targets are looked at once more before the start; the ending says why there was none."""
    target = tmp_path / "t"
    target.write_bytes(b"x")
    bench.worker.stage([StagedCase("a", QUICK, file_targets=(str(target),))])
    assert bench.arm("a", lead=3.5) == "armed"
    target.unlink()
    ending = bench.wait("a", "done").ending
    assert ending is not None
    assert (ending.by, ending.started, ending.why) == (
        "refused",
        None,
        f"file {target} isn't there",
    )
    assert bench.starts("a") == 0


def test_one_case_ends_while_another_runs(bench: Bench) -> None:
    """Two cases on one worker don't disturb each other."""
    bench.stage(a=QUICK, b=LONG)
    bench.arm("b")
    bench.arm("a")
    bench.wait("a", "done")
    assert bench.worker.poll(["b"])["b"].state == "running"
    assert alive(bench.pid("b"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A 1 MiB file system of its own, or a skip that says why not."""
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip(f"this machine doesn't mount a small tmpfs: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.real
def test_a_disk_that_fills_during_the_case_is_told(
    make_bench: Callable[..., Bench], small_disk: Path
) -> None:
    """When fio's own output fills the worker's disk, the done marker is still whole and says so."""
    bench = make_bench("dash", base=small_disk / "base")
    bench.stage(a=job("head -c 4000000 /dev/zero >$out", "exit 0"))
    bench.arm("a")
    state = bench.wait("a", "done")
    assert state.ending is not None
    assert state.ending.by == "exited"
    assert state.ending.disk_full


@pytest.mark.real
def test_a_full_disk_refuses_the_stage(make_bench: Callable[..., Bench], small_disk: Path) -> None:
    """Staging on a full disk says so, by host and step, and leaves no half-written case."""
    bench = make_bench("dash", base=small_disk / "base")
    with pytest.raises(WorkerError, match=r"w1: stage: .*(full|free|can not write|can't write)"):
        bench.worker.stage([StagedCase("a", QUICK, files={"big": b"x" * 2_000_000})])
    assert not (bench.folder("a") / "staged").exists()


@pytest.mark.real
def test_a_real_fio_runs_and_stops(make_bench: Callable[..., Bench]) -> None:
    """The real fio writes whole JSON at its end, and when it is stopped."""
    bench = make_bench("dash", fake=False)
    text = b"[j]\nioengine=null\nsize=1g\nrw=randread\ntime_based\nruntime=%d\nnumjobs=2\n"
    bench.worker.stage([StagedCase("short", text % 1), StagedCase("long", text % 60)])
    bench.arm("short", lead=1.0)
    bench.arm("long", lead=1.0)
    short = bench.wait("short", "done")
    assert short.ending is not None
    assert (short.ending.by, short.ending.exit) == ("exited", 0)
    assert bench.worker.fetch("short").files["out/fio.json"].rstrip().endswith(b"}")
    for _ in range(100):
        eta = bench.worker.poll(["long"])["long"].eta
        if eta is not None and eta.iops:
            break
        time.sleep(0.1)
    assert eta is not None
    assert eta.total_iops
    assert eta.total_bytes_per_s
    assert bench.worker.stop("long").state == "done"
    output = bench.worker.fetch("long").files["out/fio.json"]
    assert b'"jobname" : "j"' in output
    assert output.rstrip().endswith(b"}")

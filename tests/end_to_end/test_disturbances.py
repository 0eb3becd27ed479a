"""What goes wrong in labs: each fault has its named outcome, and nothing earned is lost."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster, Done
from tests.sshd import Sshd

pytestmark = [pytest.mark.real, pytest.mark.slow]


def run_case(cluster: Cluster, *more: str, runtime: int = 3) -> Done:
    return cluster.hcio(*words(cluster, runtime), *more)


def words(cluster: Cluster, runtime: int = 3) -> list[str]:
    fields = {"runtime": runtime, "ramp": 0, "iodepth": 2}
    sets = [word for key, value in fields.items() for word in ("--set", f"{key}={value}")]
    given = ["run", "4k-100r-random", "-i", str(cluster.inventory)]
    return [*given, *sets, "--poll", "0.3", "--json", "--keep"]


def the_case(done: Done) -> dict[str, Any]:
    assert done.out, done.err
    case: dict[str, Any] = json.loads(done.out)["cases"][0]
    return case


DATE_AHEAD = '#!/bin/sh\nexec /bin/date -d "+300 seconds" "$@"\n'
#: bash has a clock of its own; without it the program asks `date`.
NO_BASH = '#!/bin/sh\n[ "$1" != --posix ] || shift\nexec /bin/sh "$@"\n'
#: Says what fio says to questions; asked to run a job it stays for ever.
HUNG_FIO = """#!/bin/sh
case "$*" in
*--output=*) trap "" TERM INT; while :; do sleep 1; done ;;
*) exec /usr/bin/fio "$@" ;;
esac
"""


def path_with(folder: Path, **programs: str) -> str:
    """A line of sshd_config: a PATH whose first folder has programs of ours."""
    folder.mkdir()
    folder.chmod(0o755)
    for name, text in programs.items():
        program = folder / name
        program.write_text(text)
        program.chmod(0o755)
    return f"SetEnv PATH={folder}:/usr/bin:/bin"


def fio_pids(cluster: Cluster, worker: str, case: str = "4k-100r-random") -> list[int]:
    """The worker's own fio of a case, found by the mark that hcio gives it."""
    mark = f"{cluster.sshd.work / worker / 'hcio'}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            line = (folder / "cmdline").read_bytes() if folder.name.isdigit() else b""
            environ = (folder / "environ").read_bytes() if line.startswith(b"fio\0") else b""
            if mark in environ and f"/{case};".encode() in environ:
                found.append(int(folder.name))
    return found


def does_io(cluster: Cluster, worker: str) -> bool:
    logs = (cluster.sshd.work / worker / "hcio").glob("*/4k-100r-random/out/eta.log")
    return any("IOPS]" in log.read_text() for log in logs)


def wait_for(what: Callable[[], Any], seconds: float = 60) -> Any:
    """Poll until something is there; the deadline only bounds a broken test."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.1)
    raise AssertionError("it never happened")


@pytest.fixture
def cluster(make_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    made = make_cluster(3, size="4MiB")
    yield made
    for name in made.names:
        for case in ("4k-100r-random", "prepare"):
            for pid in fio_pids(made, name, case):
                os.kill(pid, signal.SIGKILL)


def test_ssh_cut_during_a_case(cluster: Cluster) -> None:
    """Every session killed, then no logins for a while: the case goes on and nothing is lost."""
    process = cluster.start(*words(cluster, runtime=6))
    wait_for(lambda: all(fio_pids(cluster, name) for name in cluster.names))
    assert cluster.sshd.kill_sessions() >= 3
    cluster.sshd.refuse()
    time.sleep(2)
    cluster.sshd.accept()
    out, err = process.communicate(timeout=120)
    case = the_case(Done(process.returncode, out, err))
    assert (case["outcome"], case["received_workers"]) == ("done", 3), case["verdict"]
    assert set(cluster.starts("4k-100r-random").values()) == {1}


def test_fio_killed(cluster: Cluster) -> None:
    """fio killed on one worker: that worker failed by signal 9, the others are kept."""
    process = cluster.start(*words(cluster, runtime=5))
    pid = wait_for(lambda: fio_pids(cluster, "w2"))[0]
    os.kill(pid, signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    case = the_case(Done(process.returncode, out, err))
    assert process.returncode == 1
    assert (case["workers"]["w2"]["outcome"], case["received_workers"]) == ("failed", 2)
    assert "signal 9" in case["workers"]["w2"]["reason"]
    assert case["outcome"] == "failed"


def test_fio_killed_within_the_quorum(cluster: Cluster) -> None:
    """The same with a quorum of 60 %: done and degraded, the missing worker named."""
    process = cluster.start(*words(cluster, runtime=5), "--set", "policy.quorum=60%")
    os.kill(wait_for(lambda: fio_pids(cluster, "w2"))[0], signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    case = the_case(Done(process.returncode, out, err))
    assert (case["outcome"], case["degraded"]) == ("done", True)
    assert (case["expected_workers"], case["received_workers"]) == (3, 2)
    assert any(reason["worker"] == "w2" for reason in case["verdict"]["reasons"])


def test_a_worker_gone_for_good(cluster: Cluster, make_server: Callable[..., Sshd]) -> None:
    """A worker that stops answering for ever is broken by name; the others' figures stand."""
    other = make_server()
    cluster.write_inventory(w2=cluster.behind(other, "w2"))
    more = ("--set", "policy.quorum=2", "--set", "grace=8", "--set", "fast_fail=0")
    process = cluster.start(*words(cluster, runtime=4), *more)
    wait_for(lambda: all(fio_pids(cluster, name) for name in ("w1", "w3")))
    other.kill_sessions()
    other.refuse()
    out, err = process.communicate(timeout=240)
    case = the_case(Done(process.returncode, out, err))
    assert case["workers"]["w2"]["outcome"] == "broken"
    assert "127.0.1.2" in case["workers"]["w2"]["reason"]
    assert (case["outcome"], case["received_workers"]) == ("done", 2)
    other.accept()


def test_a_clock_off_by_300_s(
    cluster: Cluster,
    make_server: Callable[..., Sshd],
) -> None:
    """A worker whose clock is five minutes ahead starts with the others: offsets are measured."""
    wrong = make_server(path_with(cluster.sshd.folder / "bin", date=DATE_AHEAD, bash=NO_BASH))
    cluster.write_inventory(w2=cluster.behind(wrong, "w2"))
    done = run_case(cluster)
    case = the_case(done)
    assert (case["outcome"], case["received_workers"]) == ("done", 3), case["verdict"]
    timing = case["workers"]["w2"]["timing"]
    assert 299 < timing["clock_offset_s"] < 301
    assert case["timing"]["skew_s"] < 1
    assert case["timing"]["overlap"] > 0.6


def test_a_hung_fio(cluster: Cluster, make_server: Callable[..., Sshd]) -> None:
    """A fio that does no I/O and ends for no signal but KILL: named after the fast-fail time, and
    the case is not waited out."""
    hung = make_server(path_with(cluster.sshd.folder / "bin", fio=HUNG_FIO))
    cluster.write_inventory(w2=cluster.behind(hung, "w2"))
    done = run_case(cluster, "--set", "fast_fail=2", "--set", "prepare=none", runtime=60)
    case = the_case(done)
    assert case["workers"]["w2"]["outcome"] == "failed"
    assert "no I/O" in case["workers"]["w2"]["reason"]
    assert case["outcome"] == "failed"


def test_a_hung_fio_ends_at_its_deadline(
    cluster: Cluster,
    make_server: Callable[..., Sshd],
) -> None:
    """Without fast fail the worker itself ends the hung fio, and the outcome says so."""
    hung = make_server(path_with(cluster.sshd.folder / "bin", fio=HUNG_FIO))
    cluster.write_inventory(w2=cluster.behind(hung, "w2"))
    done = run_case(
        cluster, "--set", "fast_fail=0", "--set", "prepare=none", "--set", "grace=1", runtime=1
    )
    case = the_case(done)
    assert case["workers"]["w2"]["outcome"] == "failed"
    assert "deadline" in case["workers"]["w2"]["reason"]
    assert case["received_workers"] == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="a full disk needs a small one: mount needs root")
def test_a_full_disk_on_the_worker(cluster: Cluster) -> None:
    """A worker whose own disk fills up is broken by that name, and the others are kept."""
    small = cluster.own(cluster.sshd.work / "small")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=777", "tmpfs", small], check=True)
    try:
        place = cluster.own(small / "own")
        cluster.write_inventory(w2={"work_dir": str(place / "hcio")})
        process = cluster.start(*words(cluster, runtime=5), "--set", "policy.quorum=2")
        wait_for(lambda: list(place.glob("hcio/*/4k-100r-random/started")))
        with contextlib.suppress(OSError):
            (small / "fill").write_bytes(b"x" * 2**20)
        out, err = process.communicate(timeout=120)
    finally:
        subprocess.run(["umount", "-l", small], check=True)
    case = the_case(Done(process.returncode, out, err))
    assert case["workers"]["w2"]["outcome"] == "broken"
    assert "disk" in case["workers"]["w2"]["reason"]
    assert case["received_workers"] == 2


def test_interrupt_stops_fio_and_keeps_what_is_there(cluster: Cluster) -> None:
    """Ctrl-C ends fio on the workers; what they wrote is collected, and the exit code is 130."""
    process = cluster.start(*words(cluster, runtime=60))
    wait_for(lambda: all(does_io(cluster, name) for name in cluster.names))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert not any(fio_pids(cluster, name) for name in cluster.names)
    case = the_case(Done(process.returncode, out, err))
    assert case["outcome"] == "skipped"
    raw = cluster.run_folder() / "raw" / "4k-100r-random"
    assert all((raw / name / "fio.json").stat().st_size > 0 for name in cluster.names)


def test_interrupt_during_the_fill_stops_it(cluster: Cluster) -> None:
    """Ctrl-C while the targets are filled ends fio there too, with the exit code 130."""
    cluster.write_inventory(
        **{
            name: {"targets": [{"file": str(cluster.sshd.work / name / "disk0"), "size": "2GiB"}]}
            for name in cluster.names
        }
    )
    process = cluster.start(*words(cluster))
    wait_for(lambda: all(fio_pids(cluster, name, "prepare") for name in cluster.names))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert not any(fio_pids(cluster, name, "prepare") for name in cluster.names)


def test_detached_and_collected(cluster: Cluster) -> None:
    """--detach arms every case and leaves; `collect` fetches all of them later."""
    suite = cluster.folder / "two.yaml"
    suite.write_text(
        "set: {runtime: 2, ramp: 0, iodepth: 2}\ncases: [4k-100r-random, 4k-0r-random]\n"
    )
    left = cluster.hcio(
        "run", str(suite), "-i", str(cluster.inventory), "--detach", "--set", "grace=2"
    )
    assert left.status == 0, left.err
    early = cluster.hcio("collect", "latest", "--no-wait")
    assert early.status == 3
    done = cluster.hcio("collect", "latest", "--json", "--poll", "0.5", "--keep")
    assert done.status in (0, 3), done.err
    result = json.loads(done.out)
    assert [case["received_workers"] for case in result["cases"]] == [3, 3]
    assert set(cluster.starts("4k-0r-random").values()) == {1}

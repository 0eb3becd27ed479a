"""The life of a case on a worker: stage, arm, poll, disarm, fetch, under every shell."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import TransferFailed, WorkerError
from orchestrator.transport.base import Command
from orchestrator.worker.stream import StagedCase

from .conftest import LONG, QUICK, Bench, job

#: Real shells, real fio, real time.
pytestmark = pytest.mark.real

CASES = Path(__file__).parent.parent / "data" / "cases"


def test_a_case_goes_from_stage_to_fetch(bench: Bench) -> None:
    """A case is staged, armed, runs once at T0, and its files come back whole."""
    bench.stage(**{"case 1": QUICK})
    t0 = time.time() + 0.8
    reply = bench.worker.arm("case 1", t0=t0, deadline_s=20, attempt=1, margin_s=0.1)
    assert (reply.answer, reply.state.state) == ("armed", "armed")
    state = bench.wait("case 1", "done")
    ending = state.ending
    assert ending is not None
    assert (ending.by, ending.exit, ending.signal, ending.attempt) == ("exited", 0, None, 1)
    assert ending.t0 == pytest.approx(t0, abs=1e-6)
    assert ending.started is not None
    assert ending.started >= t0 - 0.02  # /proc/uptime counts hundredths
    assert ending.ended is not None
    assert ending.ended >= ending.started
    assert state.eta is not None
    assert state.eta.iops == {"read": 1}
    fetched = bench.worker.fetch("case 1")
    assert fetched.files["out/fio.json"] == b"{}\n"
    assert ending.output_sha256 == hashlib.sha256(b"{}\n").hexdigest()
    assert ending.output_size == 3
    assert fetched.files["job.fio"] == QUICK
    assert bench.starts("case 1") == 1


def test_a_second_arm_changes_nothing(bench: Bench) -> None:
    """An arm of an armed, running or finished case answers its state; fio is executed once."""
    bench.stage(a=QUICK)
    assert bench.arm("a") == "armed"
    assert bench.arm("a") == "already"
    assert bench.arm("a", attempt=2) == "already"
    bench.wait("a", "done")
    assert bench.arm("a", attempt=3) == "already"
    time.sleep(0.7)
    assert bench.starts("a") == 1


def test_two_arms_at_once_start_it_once(make_bench: Callable[..., Bench]) -> None:
    """Concurrent arms, of one attempt and of two, never execute fio twice."""
    bench = make_bench("dash")
    bench.stage(a=QUICK)
    threads = [
        threading.Thread(target=bench.arm, args=("a",), kwargs={"lead": 1.0, "attempt": n % 2 + 1})
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bench.wait("a", "done", "staged")
    time.sleep(1.2)
    assert bench.starts("a") <= 1


def test_a_late_t0_is_refused(bench: Bench) -> None:
    """A T0 that is past or nearer than the margin is answered `late`, with the worker's time."""
    bench.stage(a=QUICK)
    before = time.time()
    reply = bench.worker.arm("a", t0=before - 1, deadline_s=5, attempt=1)
    assert reply.answer == "late"
    assert reply.state.now >= before - 0.02
    near = bench.worker.arm("a", t0=time.time() + 1, deadline_s=5, attempt=1, margin_s=30)
    assert near.answer == "late"
    assert near.state.state == "staged"


def test_arm_before_stage_is_told(bench: Bench) -> None:
    """Arming what was never staged says so."""
    bench.stage(a=QUICK)
    assert bench.arm("b") == "unstaged"


def test_disarm_then_arm_again(bench: Bench) -> None:
    """A disarmed case is staged again and can't start; the next attempt starts it later."""
    bench.stage(a=QUICK)
    assert bench.arm("a", lead=0.8) == "armed"
    assert bench.worker.disarm("a").state == "staged"
    assert bench.arm("a", attempt=1) == "used"
    time.sleep(1.0)
    assert bench.starts("a") == 0
    assert bench.arm("a", attempt=2) == "armed"
    ending = bench.wait("a", "done").ending
    assert ending is not None
    assert ending.attempt == 2
    assert bench.starts("a") == 1


def test_disarm_races_the_start(make_bench: Callable[..., Bench]) -> None:
    """Whoever is first at T0, the answer is true: `staged` means that fio was never executed."""
    bench = make_bench("dash")
    names = [f"c{n}" for n in range(4)]
    bench.stage(**dict.fromkeys(names, QUICK))
    for n, name in enumerate(names):
        t0 = time.time() + 0.4
        bench.worker.arm(name, t0=t0, deadline_s=9, attempt=1, margin_s=0.1)
        time.sleep(max(0.0, t0 - 0.02 + n * 0.01 - time.time()))
        state = bench.worker.disarm(name).state
        if state == "staged":
            time.sleep(0.4)
            assert bench.starts(name) == 0
        else:
            bench.wait(name, "done")
            assert bench.starts(name) == 1


def test_stage_twice_is_harmless(bench: Bench) -> None:
    """Staging again replaces files of a staged case and leaves an armed one alone."""
    bench.stage(a=QUICK, b=QUICK)
    bench.stage(a=LONG, b=QUICK)
    assert (bench.folder("a") / "job.fio").read_bytes() == LONG
    bench.arm("b", lead=1.0)
    replies = bench.worker.stage([StagedCase("a", QUICK), StagedCase("b", LONG)])
    assert not replies["a"].kept
    assert replies["b"].kept
    assert (bench.folder("b") / "job.fio").read_bytes() == QUICK
    bench.wait("b", "done")
    assert bench.starts("b") == 1


def test_bytes_of_any_kind_are_staged(bench: Bench) -> None:
    """Extra files arrive byte for byte, whatever is in them and in their names."""
    content = bytes(range(256)) * 41 + b"no newline at the end"
    bench.worker.stage([StagedCase("a", QUICK, files={"odd name; $(x) 'y'": content, "e": b""})])
    assert (bench.folder("a") / "odd name; $(x) 'y'").read_bytes() == content
    assert (bench.folder("a") / "e").read_bytes() == b""


def test_a_changed_stream_writes_nothing(make_bench: Callable[..., Bench]) -> None:
    """A stream that arrives cut is refused before one file of the case is there."""
    bench = make_bench("dash")

    class Cutting:
        host = "w1"

        def run(self, command: Command, *, timeout: float, stdin: bytes = b"") -> object:
            return bench_transport.run(command, timeout=timeout, stdin=stdin[:-1])

    bench_transport = bench.worker.transport
    bench.worker.transport = Cutting()  # type: ignore[assignment]
    with pytest.raises(WorkerError, match="w1: stage: the stream arrived changed or short"):
        bench.stage(a=QUICK)
    assert not bench.folder("a").exists()


def test_case_33_an_absent_engine_is_found_before_the_run(bench: Bench) -> None:
    """Case 33: the job's engine isn't in fio's list: host, engine and what there is are named."""
    text = (CASES / "33-engine-or-direct-missing" / "job.fio").read_bytes()
    missing = text.replace(b"libaio", b"io_uring")
    reply = bench.worker.stage([StagedCase("a", missing), StagedCase("b", text)])
    assert reply["b"].check("w1") is reply["b"]
    with pytest.raises(WorkerError) as caught:
        reply["a"].check("w1")
    for word in ("w1", "io_uring", "null, libaio"):
        assert word in str(caught.value)


def test_a_job_that_fio_refuses_is_named(bench: Bench) -> None:
    """fio's own words about a bad job file are in the error; its neighbours are still good."""
    replies = bench.worker.stage(
        [StagedCase("good", QUICK), StagedCase("bad", QUICK + b"bad_option=1\n")]
    )
    assert replies["good"].parses
    with pytest.raises(WorkerError, match=r"stage case bad.*\n?.*Bad option"):
        replies["bad"].check("w1")


def test_fetch_needs_the_done_marker(bench: Bench) -> None:
    """Case 4: what is still being written is never taken for a result."""
    bench.stage(a=LONG)
    bench.arm("a")
    bench.pid("a")
    with pytest.raises(WorkerError, match="no done marker yet"):
        bench.worker.fetch("a")
    partial = bench.worker.fetch("a", partial=True)
    assert partial.state.state == "running"
    assert partial.files["out/fio.json"] == b"{}\n"
    assert "done" not in partial.files


def test_case_4_a_result_changed_after_its_end_is_refused(bench: Bench) -> None:
    """Case 4: output shorter than the done marker says is not a result."""
    bench.stage(a=QUICK)
    bench.arm("a")
    bench.wait("a", "done")
    (bench.folder("a") / "out" / "fio.json").write_text("{")
    with pytest.raises(TransferFailed, match="fetch case a"):
        bench.worker.fetch("a")


def test_case_16_the_exit_status_is_kept(bench: Bench) -> None:
    """Case 16: fio's own status is in the done marker, also when its JSON is complete."""
    bench.stage(a=job("echo '{}' >$out", "exit 4"))
    bench.arm("a")
    ending = bench.wait("a", "done").ending
    assert ending is not None
    assert (ending.by, ending.exit) == ("exited", 4)


def test_a_login_greeting_does_no_harm(make_bench: Callable[..., Bench]) -> None:
    """Text that a login prints around the replies, even without a newline, is skipped."""
    bench = make_bench("dash")
    inner = bench.worker.transport

    class Greeting:
        host = "w1"

        def run(self, command: Command, *, timeout: float, stdin: bytes = b"") -> object:
            from dataclasses import replace

            result = inner.run(command, timeout=timeout, stdin=stdin)
            return replace(result, stdout=b"Welcome! a=b\nLast login" + result.stdout + b"bye")

    bench.worker.transport = Greeting()  # type: ignore[assignment]
    bench.stage(a=QUICK)
    assert bench.worker.poll(["a"])["a"].state == "staged"


def test_several_cases_in_one_poll(bench: Bench) -> None:
    """One command tells of many cases, also of those that aren't there."""
    bench.stage(a=QUICK, b=LONG)
    bench.arm("a")
    bench.arm("b")
    bench.wait("a", "done")
    bench.pid("b")
    states = bench.worker.poll(["a", "b", "c"])
    assert {name: each.state for name, each in states.items()} == {
        "a": "done",
        "b": "running",
        "c": "gone",
    }
    assert states["b"].alive == 1
    assert states["b"].elapsed_s is not None


def test_the_clock_answers_each_line(bench: Bench) -> None:
    """The clock verb's offset on the same machine is within its uncertainty and a tick."""
    bench.stage(a=QUICK)
    reading = bench.worker.measure_clock(rounds=3)
    assert reading.samples == 3
    assert abs(reading.offset_s) <= reading.uncertainty_s + 0.05


def test_clean_refuses_while_at_work(bench: Bench, tmp_path: Path) -> None:
    """A run at work is not removed; afterwards it is, and nothing beside it."""
    foreign = tmp_path / "foreign"
    foreign.write_text("mine")
    target = tmp_path / "target file"
    bench.stage(a=LONG)
    assert bench.worker.make_file(str(target), 8192) == "made"
    bench.arm("a")
    with pytest.raises(WorkerError, match="still at work: a"):
        bench.worker.clean()
    bench.pid("a")
    bench.worker.stop("a", grace_s=0.2)
    assert bench.worker.list() == {"run-1": {"a": "done"}}
    assert bench.worker.clean() == 1
    assert not bench.folder("a").parent.exists()
    assert not target.exists()
    assert foreign.read_text() == "mine"
    assert bench.worker.list() == {}


def test_make_file_never_touches_a_foreign_file(bench: Bench, tmp_path: Path) -> None:
    """A file that hcio didn't make stays as it is; its own is kept or made anew at another size."""
    foreign = tmp_path / "foreign"
    foreign.write_text("mine")
    with pytest.raises(WorkerError, match="was not made by hcio"):
        bench.worker.make_file(str(foreign), 4096)
    link = tmp_path / "link"
    link.symlink_to(foreign)
    with pytest.raises(WorkerError, match="symbolic link"):
        bench.worker.make_file(str(link), 4096)
    assert foreign.read_text() == "mine"
    own = tmp_path / "own"
    assert bench.worker.make_file(str(own), 4096) == "made"
    assert bench.worker.make_file(str(own), 4096) == "kept"
    assert bench.worker.make_file(str(own), 8192) == "made"
    assert own.stat().st_size == 8192
    with pytest.raises(WorkerError, match="bytes free"):
        bench.worker.make_file(str(tmp_path / "big"), 1 << 50)
    assert not (tmp_path / "big").exists()


def test_a_base_of_someone_else_is_refused(
    make_bench: Callable[..., Bench], tmp_path: Path
) -> None:
    """A base that is a link (anyone may make one in /var/tmp) is refused before anything is run."""
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    bench = make_bench("dash", base=tmp_path / "link")
    with pytest.raises(WorkerError, match="not a folder of its own"):
        bench.stage(a=QUICK)
    assert list(real.iterdir()) == []


def test_folders_are_ours_alone(bench: Bench) -> None:
    """Base, run and case folders can't be entered by other users."""
    bench.stage(a=QUICK)
    for folder in (bench.base, bench.folder("a").parent, bench.folder("a")):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_facts_need_no_stage(bench: Bench, tmp_path: Path) -> None:
    """Facts come from a worker where nothing of ours is, and leave nothing there."""
    (tmp_path / "t").write_bytes(b"x" * 10)
    facts = bench.worker.facts(files=[str(tmp_path / "t"), "/no/such/file"])
    assert facts.fio_version == "fio-3.33"
    assert facts.engines == ("null", "libaio")
    assert facts.cpus
    assert facts.memory
    assert facts.base_free
    assert facts.files[str(tmp_path / "t")].size == 10
    assert facts.files["/no/such/file"].kind == "absent"
    assert not facts.files["/no/such/file"].folder
    assert not bench.base.exists()


def test_facts_use_no_json_that_lsblk_did_not_write(make_bench: Callable[..., Bench]) -> None:
    """The device list is lsblk's own, and every device has a size."""
    facts = make_bench("dash").worker.facts()
    assert json.dumps([device.path for device in facts.devices])
    assert all(device.path.startswith("/dev/") for device in facts.devices)

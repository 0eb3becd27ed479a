"""Workers on this machine, one for each shell that a real one may have, with a fio of our own."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.transport.local import LocalTransport
from orchestrator.worker.session import WorkerSession
from orchestrator.worker.states import CaseState
from orchestrator.worker.stream import StagedCase

SHELLS = ("dash", "bash", "busybox")

#: Stands for fio: `#do:` lines of the job file are what it does; `$out` is its --output.
FAKE_FIO = r"""#!/bin/sh
case $1 in
--version) echo fio-3.33; exit ;;
--enghelp) printf 'Available IO engines:\n\tnull\n\tlibaio\n'; exit ;;
--parse-only)
    shift
    for f; do ! grep -q '^bad_option' "$f" || { echo 'Bad option <bad_option=1>'; exit 1; }; done
    exit 0 ;;
esac
for a; do case $a in --output=*) out=${a#*=} ;; esac; job=$a; done
eval "$(sed -n 's/^#do: //p' "$job")"
"""


def job(*doings: str) -> bytes:
    """A job file that tells the fake fio what to do."""
    return b"[j]\nioengine=null\n" + b"".join(f"#do: {doing}\n".encode() for doing in doings)


QUICK = job("echo '{}' >$out", "echo 'Jobs: 1 (f=1): [r(1)][50.0%][r=4096B/s][r=1 IOPS]'")
LONG = job("echo $$ >pid", "echo '{}' >$out", "sleep 30")


@dataclass
class Bench:
    """A worker with its folder on this machine, and the shortest way through its verbs."""

    worker: WorkerSession
    base: Path
    environment: dict[str, str]

    def folder(self, case: str) -> Path:
        return self.base / self.worker.run / case

    def stage(self, **jobs: bytes) -> None:
        self.worker.stage([StagedCase(name, text) for name, text in jobs.items()])

    def arm(self, case: str, *, lead: float = 0.8, deadline: float = 20, attempt: int = 1) -> str:
        t0 = time.time() + lead
        reply = self.worker.arm(
            case, t0=t0, deadline_s=deadline, attempt=attempt, margin_s=0.1, grace_s=0.4
        )
        return reply.answer

    def wait(self, case: str, *states: str, seconds: float = 15) -> CaseState:
        """Poll until the case is in one of `states`."""
        for _ in range(int(seconds / 0.05)):
            state = self.worker.poll([case])[case]
            if state.state in states:
                return state
            time.sleep(0.05)
        raise AssertionError(f"{case} is {state}, not one of {states}")

    def pid(self, case: str) -> int:
        """The pid that LONG wrote."""
        path = self.folder(case) / "out" / "pid"
        for _ in range(200):
            if path.exists() and path.read_text().strip():
                return int(path.read_text())
            time.sleep(0.05)
        raise AssertionError("the fake fio wrote no pid")

    def starts(self, case: str) -> int:
        path = self.folder(case) / "starts"
        return len(path.read_text().splitlines()) if path.exists() else 0


def alive(pid: int) -> bool:
    """Is there such a process, and not a dead one that nobody reaped?"""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(") ")[2][0] != "Z"


def tool_folder(folder: Path, shell: str) -> Path:
    """A folder for PATH where `sh` is that shell, and with busybox every tool is its own."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on this machine")
    folder.mkdir()
    real = shutil.which(shell)
    if shell == "busybox":
        for name in subprocess.check_output(["busybox", "--list"], text=True).split():
            (folder / name).symlink_to(str(real))
        for name in ("lsblk", "losetup", "mount", "umount"):
            (folder / name).unlink(missing_ok=True)
    else:
        (folder / "sh").symlink_to(str(real))
    if shell != "bash":  # an absent bash: the owner of a case must do without
        script(folder / "bash", "#!/bin/sh\nexit 127\n")
    return folder


def script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IRGRP | stat.S_IXGRP)


@pytest.fixture
def make_bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """Builds workers; at the end ends what their cases still run."""
    made: list[Bench] = []

    def build(shell: str = "dash", *, fake: bool = True, base: Path | None = None) -> Bench:
        tools = tool_folder(tmp_path / f"tools {len(made)}", shell)
        if fake:
            script(tools / "fio", FAKE_FIO)
        environment = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(tmp_path)}
        base = base or tmp_path / f"base {len(made)}"
        worker = WorkerSession(
            LocalTransport("w1", environment=environment), "run-1", base=str(base)
        )
        bench = Bench(worker, base, environment)
        made.append(bench)
        return bench

    yield build
    for bench in made:
        program = bench.base / "run-1" / "program.sh"
        if program.exists():
            for case in bench.worker.list().get("run-1", {}):
                bench.worker.stop(case, grace_s=0.1)
                bench.worker.stop(case, grace_s=0.1)


@pytest.fixture(params=SHELLS)
def bench(request: pytest.FixtureRequest, make_bench: Callable[..., Bench]) -> Bench:
    """One worker for each shell, with the fake fio."""
    return make_bench(request.param)

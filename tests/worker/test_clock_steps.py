"""A worker whose clock is set while a case is armed or runs: its start and its instants."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.endings import ended_at
from orchestrator.worker.states import Ending

from .conftest import QUICK, Bench, job, script

#: Real shells, real time.
pytestmark = pytest.mark.real

STEP_S = 30
SHORT = job("echo '{}' >$out", "sleep 1.5")
#: A date that is ahead by the seconds that stand in a file, once it is there.
DATE = """#!/bin/sh
ahead=0
[ ! -r "{file}" ] || read -r ahead <"{file}"
case $1 in
+%s%N) echo $(($({date} +%s%N) + ahead * 1000000000)) ;;
+%s) echo $(($({date} +%s) + ahead)) ;;
*) exec {date} "$@" ;;
esac
"""


@pytest.fixture
def stepping(make_bench: Callable[..., Bench], tmp_path: Path) -> Bench:
    """A worker that reads its clock from a `date` that can be set."""
    bench = make_bench("dash")
    tools = Path(bench.environment["PATH"].split(":")[0])
    script(tools / "date", DATE.format(file=tmp_path / "ahead", date=shutil.which("date")))
    return bench


def _set_clock(folder: Path) -> None:
    (folder / "part").write_text(f"{STEP_S}\n")
    (folder / "part").rename(folder / "ahead")


def _ending(bench: Bench) -> Ending:
    ending = bench.wait("a", "done").ending
    assert ending is not None
    assert ending.started is not None
    assert ending.clock_step_s == pytest.approx(STEP_S, abs=1)
    return ending


def test_a_clock_set_before_the_start_moves_no_start(stepping: Bench, tmp_path: Path) -> None:
    """The instant that was meant is kept, not the number: fio starts as far off as before."""
    stepping.stage(a=QUICK)
    t0 = time.time() + 4
    stepping.worker.arm("a", t0=t0, deadline_s=20, attempt=1, margin_s=0.1)
    _set_clock(tmp_path)
    ending = _ending(stepping)
    assert ending.start_step_s == pytest.approx(STEP_S, abs=1)
    assert ending.started == pytest.approx(t0 + STEP_S, abs=5)


def test_a_clock_set_during_the_case_is_told_and_its_end_is_right(
    stepping: Bench, tmp_path: Path
) -> None:
    """The start stands; the end is told by the clock as it was at the start."""
    stepping.stage(a=SHORT)
    stepping.arm("a")
    stepping.wait("a", "running")
    _set_clock(tmp_path)
    ending = _ending(stepping)
    assert ending.start_step_s == 0
    assert ending.started is not None
    ended = ended_at(ending)
    assert ended is not None
    assert ending.started <= ended < ending.started + STEP_S / 2

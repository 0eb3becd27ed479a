"""The course of a case: windows, steadiness and anomalies from a series file."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from orchestrator.course import case_course, read_course
from orchestrator.evidence import WorkerEvidence
from orchestrator.fio_logs import log_options
from orchestrator.log_reader import Member, find_logs
from orchestrator.results import CaseResult, RunResult, Verdict, read_result, write_result
from orchestrator.series import write_series
from orchestrator.steady import SteadyRule
from orchestrator.windows import Course

LOGS = Path(__file__).parent / "data" / "fio_logs"
BASE_MS = 1_796_076_000_000


def course(tmp_path: Path, members: list[Member], rule: SteadyRule | None = None) -> Course:
    """The course of these workers."""
    path = tmp_path / "series.parquet"
    summary = write_series(path, members)
    assert summary is not None
    return read_course(path, summary, rule=rule)


def worker(tmp_path: Path, name: str, rates: list[int], *, late_ms: int = 0) -> Member:
    """A worker that reads at these rates, one a second, 4 KiB each, at 1 ms."""
    folder = tmp_path / name
    folder.mkdir()
    rows = [(BASE_MS + late_ms + 1000 * (n + 1), rate) for n, rate in enumerate(rates) if rate]
    for kind, factor in (("iops", 1), ("bw", 4)):
        text = "".join(f"{time}, {rate * factor}, 0, 0, 0\n" for time, rate in rows)
        (folder / f"series_{kind}.1.log").write_text(text)
    text = "".join(f"{time}, 1000000, 0, 0, 0\n" for time, _ in rows)
    (folder / "series_lat.1.log").write_text(text)
    return Member(name, find_logs(folder))


def test_common_window_stands_beside_the_whole_run(tmp_path: Path) -> None:
    """A worker 5 s late and one 3 s short leave a window in which all measured, and are named."""
    found = course(
        tmp_path,
        [
            worker(tmp_path, "w1", [100] * 30),
            worker(tmp_path, "w2", [100] * 30, late_ms=5000),
            worker(tmp_path, "w3", [100] * 27),
        ],
    )
    assert found.common is not None
    assert (found.common.begin_s, found.common.end_s) == (5, 27)
    assert found.common.read is not None
    assert found.common.read.iops == pytest.approx(300)
    assert found.common.read.bytes_per_s == pytest.approx(300 * 4096)
    assert found.common.read.lat_mean_ns == pytest.approx(1e6)
    assert (found.whole.begin_s, found.whole.end_s) == (0, 35)
    assert found.whole.read is not None
    assert found.whole.read.iops == pytest.approx(100 * 87 / 35)
    assert found.common.write is None
    assert (found.late_s, found.tail_s) == (5.0, 8.0)
    assert found.late_workers == {"w2": 5.0}
    assert found.early_workers == {"w1": 5.0, "w3": 8.0}


def test_the_interval_that_fio_loses_names_nobody(tmp_path: Path) -> None:
    """Logs that end a second apart are those of workers that ended together."""
    members = [worker(tmp_path, "w1", [100] * 30), worker(tmp_path, "w2", [100] * 29, late_ms=-40)]
    found = course(tmp_path, members)
    assert found.tail_s == pytest.approx(1.04)
    assert found.early_workers == {}


def test_a_worker_without_one_of_its_rates_is_left_out_by_name(tmp_path: Path) -> None:
    """A lost bandwidth log is no bandwidth of 0: the sums are the others', and it is said."""
    lost = worker(tmp_path, "w2", [100] * 20)
    lost = Member("w2", [path for path in lost.files if "_bw." not in path.name])
    found = course(tmp_path, [worker(tmp_path, "w1", [100] * 20), lost])
    assert found.without_series == {"w2": "no rows of bw"}
    assert found.common is not None
    assert found.common.read is not None
    assert found.common.read.iops == pytest.approx(100)
    assert found.common.read.bytes_per_s == pytest.approx(100 * 4096)


def test_own_rule_judges_the_last_window(tmp_path: Path) -> None:
    """With a rule of 20 s only the last 20 s count, and their rates stand beside the verdict."""
    rates = [10] * 20 + [100] * 20
    found = course(tmp_path, [worker(tmp_path, "w1", rates)], SteadyRule(window_s=20))
    assert found.steady is not None
    assert found.steady.steady is True
    assert found.judged is not None
    assert (found.judged.begin_s, found.judged.end_s) == (20, 40)
    assert found.judged.read is not None
    assert found.judged.read.iops == pytest.approx(100)


def test_workers_that_never_met_have_no_common_window(tmp_path: Path) -> None:
    """One after the other is no measurement of all together: no window, and no steadiness."""
    found = course(
        tmp_path,
        [
            worker(tmp_path, "w1", [100] * 20),
            worker(tmp_path, "w2", [100] * 20, late_ms=30_000),
        ],
    )
    assert found.common is None
    assert found.steady is not None
    assert found.steady.steady is None


def test_stall_of_one_worker_is_its_own(tmp_path: Path) -> None:
    """One of ten workers stalls: the cluster doesn't dip, the worker is named with the time."""
    rates = [100] * 60
    rates[20:25] = [0] * 5
    others = [worker(tmp_path, f"w{n}", [100] * 60) for n in range(9)]
    found = course(tmp_path, [*others, worker(tmp_path, "slow", rates)])
    assert [(one.kind, one.worker, one.begin_s, one.end_s) for one in found.anomalies] == [
        ("stall", "slow", 20, 25)
    ]


def test_dip_of_the_cluster_counts_its_workers(tmp_path: Path) -> None:
    """When all dip at once it is one event of the cluster, in so many workers."""
    rates = [100] * 60
    rates[30:33] = [20] * 3
    found = course(tmp_path, [worker(tmp_path, f"w{n}", rates) for n in range(4)])
    assert [(one.kind, one.worker, one.begin_s, one.workers_too) for one in found.anomalies] == [
        ("dip", None, 30, 4)
    ]


def test_steadiness_is_that_of_the_sum(tmp_path: Path) -> None:
    """One worker rises while the other falls: neither is steady, their sum is."""
    up, down = [100 + n for n in range(100)], [200 - n for n in range(100)]
    found = course(tmp_path, [worker(tmp_path, "w1", up), worker(tmp_path, "w2", down)])
    alone = course(tmp_path, [worker(tmp_path, "w3", up)])
    assert found.steady is not None
    assert found.steady.steady is True
    assert found.steady.window_s == 100
    assert found.judged is not None
    assert found.judged.read is not None
    assert found.judged.read.iops == pytest.approx(found.steady.mean)
    assert alone.steady is not None
    assert alone.steady.steady is False


def test_recorded_dip_is_found(tmp_path: Path) -> None:
    """A real fio at 600 I/Os a second, stopped for 4.3 s after 24 s, then catching up: the dip and
    the spike behind it, and two seconds later on that the busy machine itself took."""
    found = course(tmp_path, [Member("w1", find_logs(LOGS / "standstill"))])
    dip, spike, *later = found.anomalies
    assert (dip.kind, dip.begin_s, dip.end_s) == ("dip", 24, 28)
    assert dip.usual == pytest.approx(600, rel=0.01)
    assert dip.worst == pytest.approx(63, rel=0.1)
    assert (spike.kind, spike.begin_s) == ("spike", 29)
    assert [(one.kind, one.begin_s) for one in later] == [("dip", 31), ("dip", 39)]
    assert dip.workers_too == 1
    (still,) = found.standstills
    assert (still.worker, still.begin_s, still.end_s) == (
        "w1",
        pytest.approx(24.03, abs=0.1),
        pytest.approx(28.86, abs=0.1),
    )


def test_course_survives_the_result_file(tmp_path: Path) -> None:
    """A course in a case's result is read back as it was written."""
    found = course(tmp_path, [Member("w1", find_logs(LOGS / "dip"))])
    case = CaseResult(
        case="c",
        outcome="done",
        verdict=Verdict(value="valid"),
        expected_workers=1,
        received_workers=1,
        total=None,
        workers={},
        course=found,
    )
    back = read_result(write_result(RunResult(cases=(case,))), "result.json")
    assert back.cases[0].course == found


def test_case_folder_becomes_a_course(tmp_path: Path) -> None:
    """From raw/<case>/<worker>/ and the evidence: offsets applied, workers that failed left out."""
    raw = tmp_path / "raw"
    raw.mkdir()
    worker(raw, "w1", [100] * 20)
    worker(raw, "w2", [100] * 20, late_ms=60_000)
    worker(raw, "w3", [100] * 20)
    evidence = [
        WorkerEvidence("w1", clock_offset_s=0.0),
        WorkerEvidence("w2", clock_offset_s=60.0, host="h2"),
        WorkerEvidence("w3", outcome="failed"),
        WorkerEvidence("w4"),
    ]
    found = case_course(raw, tmp_path / "series.parquet", evidence)
    assert found is not None
    assert found.common is not None
    assert found.common.seconds == 20
    assert found.common.read is not None
    assert found.common.read.iops == pytest.approx(200)
    assert found.without_series == {"w4": "no logs"}
    assert case_course(raw, tmp_path / "none.parquet", evidence[2:]) is None


@pytest.mark.real
@pytest.mark.slow
def test_real_standstill_is_found_where_it_was_made(tmp_path: Path) -> None:
    """A real fio at 300 I/Os a second, stopped for three seconds in the middle of 18: a dip, or
    (when it caught up before its log's next tick) a standstill over the instant noted then."""
    options = "".join(f"{key}={value}\n" for key, value in log_options(18.0).items())
    (tmp_path / "job.fio").write_text(
        "[global]\nioengine=null\nsize=16m\nruntime=18\ntime_based=1\nthread=1\n"
        f"rate_iops=300\n{options}[disk0]\nrw=randread\n"
    )
    fio = subprocess.Popen(["fio", "--output=fio.txt", "job.fio"], cwd=tmp_path)
    try:
        time.sleep(9)
        fio.send_signal(signal.SIGSTOP)
        stopped = time.time()
        time.sleep(3)
        fio.send_signal(signal.SIGCONT)
        assert fio.wait(60) == 0
    finally:
        fio.kill()
        fio.wait()
    found = course(tmp_path, [Member("w1", find_logs(tmp_path))])
    middle = stopped + 1.5 - found.origin_ms / 1000.0
    low = [one for one in found.anomalies if one.kind in ("dip", "stall", "throttled")]
    events = [*low, *found.standstills]
    assert any(one.begin_s - 1 <= middle <= one.end_s + 1 for one in events)

"""A search over real fio: short probes, one run, the answer confirmed, resumable in the middle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.here import Here

pytestmark = [pytest.mark.real, pytest.mark.slow]

WORDS = ("--local", "--size", "8MiB", "--probe", "1s", "--probe-ramp", "0", "--poll", "0.3")
SHORT = ("--set", "runtime=1", "--set", "ramp=0", "--set", "series=false")
DEPTHS = ("4k-100r-random", "--slo", "read.p99 <= 10s", "--most", "8", "--points", "3")


def test_a_search_by_depth_goes_on_after_a_kill(tmp_path: Path) -> None:
    """Killed in its second probe (the fill was armed first) and resumed: no probe runs twice."""
    here = Here(tmp_path)
    here.killed_at("case.armed", 3, "search", *DEPTHS, *WORDS, *SHORT)
    planned = [e["case"] for e in here.journal() if e["event"] == "case.planned"]
    assert len(planned) == 2

    done = here.hcio("resume", "latest", "--keep", "--json", "--poll", "0.3")

    assert done.status == 0, done.err
    document = json.loads(done.out)
    search = document["search"]
    assert (search["ending"], search["best"]["load"], search["best"]["full"]) == (
        "confirmed",
        8.0,
        True,
    )
    ids = [case["case"] for case in document["cases"]]
    assert ids[:2] == planned
    assert ids[-1].endswith("iodepth=8.full")
    assert [here.starts(case) for case in ids] == [1] * len(ids)
    assert len(search["curve"]) == len(ids)
    kept = json.loads((here.run_folder() / "search.json").read_text())
    assert kept == search
    shown = here.hcio("report", "latest").out
    curve, _, answer = shown.partition("\nwhat ")
    assert all(f"iodepth {load}" in curve for load in ("1", "8"))
    assert answer.count(f"{ids[-1]}: ") == 1
    assert ids[0] not in answer


def test_an_objective_that_nothing_keeps_is_a_no(tmp_path: Path) -> None:
    """No depth keeps a p99 of a microsecond: exit code 1, the curve is printed all the same, and
    the report from the folder alone says the same."""
    here = Here(tmp_path)
    words = ("4k-100r-random", "--slo", "read.p99 <= 1us", "--most", "4")
    done = here.hcio("search", *words, *WORDS, *SHORT)
    assert done.status == 1, done.err
    assert done.out.startswith("never met: read.latency.p99 <= 1.00 µs")
    assert [line.split()[:2] for line in done.out.splitlines() if "iodepth " in line] == [
        ["iodepth", "1"],
        ["iodepth", "2"],
        ["iodepth", "4"],
    ]
    assert here.hcio("report", "latest").out == done.out


def test_a_search_by_rate_asks_for_what_it_says(tmp_path: Path) -> None:
    """Probes below the anchor carry a cap, and a depth at which late I/Os are still issued."""
    here = Here(tmp_path)
    words = ("4k-70r-random", "--axis", "rate", "--slo", "p99 <= 10s", "--points", "2")
    done = here.hcio("search", *words, *WORDS, *SHORT, "--keep", "--json")
    assert done.status in (0, 3), done.err
    capped = [c["case"] for c in json.loads(done.out)["cases"] if "rate=most" not in c["case"]]
    assert capped
    load = int(capped[0].split("rate=")[1].split(".")[0])
    job = (here.run_folder() / "raw" / capped[0] / "local" / "job.fio").read_text()
    caps = next(line for line in job.splitlines() if line.startswith("rate_iops="))
    assert load <= sum(int(cap) for cap in caps.split("=")[1].split(",") if cap) <= load + 2
    depth = next(line for line in job.splitlines() if line.startswith("iodepth="))
    assert int(depth.split("=")[1]) >= min(load, 1024)

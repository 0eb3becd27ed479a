"""A case until it is steady, its warm-up on the same evidence, repeats until they are enough."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.here import Here

pytestmark = [pytest.mark.real, pytest.mark.slow]

#: A rate that this machine keeps whatever else it does, so that it is steady.
CALM = "set: {runtime: 1, ramp: 0, iodepth: 64, rate: {iops: 300}}\n"
#: Small windows are ragged; that the rule is applied at all is what is tested here.
RULE = "{window: 10, cap: 40, range: 80, excursion: 80}"
WORDS = ("--local", "--size", "8MiB", "--json", "--keep")


def test_a_case_ends_when_it_is_steady(tmp_path: Path) -> None:
    """Warm-up and case each end on evidence, before their caps; the result says so, the judged
    window is the rule's, and the series is made of the logs that are read and of no others."""
    here = Here(tmp_path)
    suite = here.suite("calm", f"{CALM}until: {RULE}\nwarm_up: {RULE}\ncases: [4k-100r-random]\n")
    done = here.hcio("run", suite, *WORDS)
    assert done.status in (0, 3), done.err
    (case,) = json.loads(done.out)["cases"]
    assert (case["outcome"], case["ended_by"]) == ("done", "steady"), case["verdict"]
    assert case["warm_up"]["ended_by"] == "steady"
    assert case["warm_up"]["seconds"] < 40
    course = case["course"]
    assert course["steady"]["steady"] is True
    assert 8 <= course["judged"]["end_s"] - course["judged"]["begin_s"] <= 10
    assert course["judged"]["read"]["iops"] == pytest.approx(300, rel=0.2)

    decided = {e["case"]: e for e in here.journal() if e["event"] == "case.decided"}
    assert set(decided) == {"4k-100r-random", "4k-100r-random.warm-up"}
    assert all(e["ended_by"] == "steady" and e["measured_s"] < 40 for e in decided.values())
    assert [here.starts(name) for name in decided] == [1, 1]
    raw = here.run_folder() / "raw" / "4k-100r-random" / "local"
    kinds = {path.name.split(".")[0] for path in raw.glob("series_*.log.gz")}
    assert kinds == {"series_iops", "series_bw", "series_lat", "series_clat_hist"}


def test_repeats_stop_when_their_interval_is_narrow(tmp_path: Path) -> None:
    """Of up to six repeats with a calm load three or four are enough; the others are skipped
    with the reason, and the spread and the acceptance rules come with the result."""
    here = Here(tmp_path)
    repeats = "repeats: {least: 3, most: 6, within: 25%}\nseries: false\n"
    rules = "accept: ['iops >= 100', 'iops >= 1M', 'vs baseline iops >= -90%']\n"
    suite = here.suite("often", f"{CALM}{repeats}{rules}cases: [4k-100r-random]\n")
    done = here.hcio("run", suite, *WORDS, "--poll", "0.3")
    assert done.status == 1, done.err
    document = json.loads(done.out)
    skipped = document["provenance"]["cases_skipped"]
    ran = [case["case"] for case in document["cases"]]
    assert 3 <= len(ran) < 6
    assert len(ran) + len(skipped) == 6
    assert all("interval" in why or "within" in why for why in skipped.values()), skipped
    spread = {item["metric"]: item["summary"] for item in document["repeats"]}
    assert spread["iops"]["count"] == len(ran)
    answers = [finding["answer"] for finding in document["acceptance"]["findings"]]
    assert answers == ["pass", "fail", "unknown"]

    before = tmp_path / "runs" / "before"
    shutil.copytree(here.run_folder(), before)
    again = here.hcio("report", "latest", "--json", "--baseline", "before")
    assert again.status == 1, again.err
    findings = json.loads(again.out)["acceptance"]["findings"]
    assert [finding["answer"] for finding in findings] == ["pass", "fail", "pass"]
    assert here.hcio("report", "latest", "--baseline", "latest").status == 2
    text = here.hcio("report", "latest").out
    assert "of 3 runs" in text or "of 4 runs" in text or "of 5 runs" in text
    assert max(map(len, text.splitlines())) <= 120

"""The controller killed at any moment: `resume` ends the run, and no case runs twice."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster import Cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]

DRIVER = str(Path(__file__).parent.parent / "crash_driver.py")
CASES = ("4k-100r-random", "4k-0r-random")
#: Events in the journal of the whole run below; `test_every_event_is_swept` counts them.
EVENTS = 22


def small_cluster(make_cluster: Callable[..., Cluster]) -> tuple[Cluster, list[str]]:
    cluster = make_cluster(2, size="4MiB")
    suite = cluster.folder / "two.yaml"
    cases = "".join(f"- {case}\n" for case in CASES)
    suite.write_text(f"set: {{runtime: 1, ramp: 0, iodepth: 4}}\ncases:\n{cases}")
    return cluster, [str(suite), str(cluster.inventory)]


def journal(cluster: Cluster) -> list[dict[str, object]]:
    lines = (cluster.run_folder() / "state.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_every_event_is_swept(make_cluster: Callable[..., Cluster]) -> None:
    """The sweep below kills after each event that a whole run journals, and after no other."""
    cluster, words = small_cluster(make_cluster)
    process = cluster.start("0", *words, program=(DRIVER,))
    _, err = process.communicate(timeout=120)
    assert process.returncode in (0, 3), err
    assert len(journal(cluster)) == EVENTS


@pytest.mark.parametrize("number", range(1, EVENTS + 1))
def test_killed_after_event(make_cluster: Callable[..., Cluster], number: int) -> None:
    """Killed after this event and resumed: all cases whole, each run once on each worker."""
    cluster, words = small_cluster(make_cluster)
    process = cluster.start(str(number), *words, program=(DRIVER,))
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    assert len(journal(cluster)) == number

    resumed = cluster.hcio("resume", "latest", "--keep", "--json", "--poll", "0.3")
    assert resumed.status in (0, 3), resumed.err
    result = json.loads(resumed.out)
    assert [case["case"] for case in result["cases"]] == list(CASES)
    for case in result["cases"]:
        assert (case["outcome"], case["received_workers"]) == ("done", 2), case["verdict"]
        assert cluster.starts(case["case"]) == {"w1": 1, "w2": 1}
    assert cluster.starts("prepare") == {"w1": 1, "w2": 1}

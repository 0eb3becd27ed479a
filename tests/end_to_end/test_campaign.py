"""A campaign over real fio: killed in the middle and run again, it ends in its matrix."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.here import Here

pytestmark = [pytest.mark.real, pytest.mark.slow]

SUITE = """\
name: pair
set: {runtime: 1, ramp: 0}
series: false
cases: [4k-100r-random, 256k-100r-sequential]
"""
FILE = """\
name: disks
suites: [pair]
configurations:
- {name: two disks, set: {iodepth: 4}}
- {name: one disk, targets: 1, conditions: {compression: false}}
"""


def prepared(tmp_path: Path) -> tuple[Here, list[str]]:
    """A campaign of two steps on one or two files."""
    here = Here(tmp_path)
    (tmp_path / "profiles" / "suites").mkdir(parents=True)
    (tmp_path / "profiles" / "suites" / "pair.yaml").write_text(SUITE)
    (tmp_path / "disks.yaml").write_text(FILE)
    targets = [word for n in (0, 1) for word in ("--target", str(tmp_path / f"disk{n}"))]
    return here, ["disks.yaml", "--local", *targets, "--size", "8MiB", "--poll", "0.3"]


def test_a_campaign_goes_on_after_a_kill(tmp_path: Path) -> None:
    """Killed in its first step's second case: that run is resumed, the second step follows, and
    what is done isn't done again."""
    here, words = prepared(tmp_path)
    here.killed_at("case.armed", 2, "campaign", "run", *words)
    first = here.run_folder().name

    status = here.hcio("campaign", "status", "disks.yaml")
    assert status.status == 3
    assert f"pair on two disks: running, {first}" in status.out
    assert "pair on one disk: waiting" in status.out

    done = here.hcio("campaign", "run", *words, "--format", "json")
    assert done.status == 0, done.err
    document = json.loads(done.out)
    assert [step["outcome"] for step in document["steps"]] == ["done", "done"]
    assert document["steps"][0]["run"] == first
    assert sorted(p.name for p in (tmp_path / "runs").glob("2*")) == sorted(
        step["run"] for step in document["steps"]
    )
    provenance = json.loads((here.run_folder() / "result.json").read_text())["provenance"]
    assert provenance["conditions"] == {"configuration": "one disk", "compression": False}

    again = here.hcio("campaign", "run", *words)
    assert again.status == 0
    head, two, one = again.out.splitlines()
    assert head.split("  ")[0] == "configuration"
    assert (two.split("  ")[0], one.split("  ")[0]) == ("two disks", "one disk")
    assert "step " not in again.err


def test_every_step_is_planned_before_the_first_runs(tmp_path: Path) -> None:
    """A configuration that the lab can't carry is an error before anything was run."""
    here, words = prepared(tmp_path)
    (tmp_path / "disks.yaml").write_text(FILE.replace("targets: 1", "targets: 3"))
    done = here.hcio("campaign", "run", *words)
    assert done.status == 2
    assert "'one disk' asks for 3 targets a worker, the inventory has 2" in done.err
    assert not (tmp_path / "runs").exists()


def test_a_policy_without_workers_of_its_own_is_refused(tmp_path: Path) -> None:
    """A storage policy that nothing would be deployed with must not stand beside figures."""
    here, words = prepared(tmp_path)
    (tmp_path / "disks.yaml").write_text(FILE.replace("targets: 1", "storage_policy: RAID-5"))
    done = here.hcio("campaign", "run", *words)
    assert done.status == 2
    assert "hcio workers deploy" in done.err

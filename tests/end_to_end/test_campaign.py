"""A campaign over real fio: killed in the middle and run again, it ends in its matrix."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from tests.end_to_end.vsphere_lab import lab_refusal, vsphere_lab
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


def _armed(here: Here) -> list[str]:
    """The cases of the latest run that were armed; the fill isn't one."""
    armed = [line["case"] for line in here.journal() if line["event"] == "case.armed"]
    return [case for case in armed if case != "prepare"]


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
    assert done.status in (0, 3), done.err
    document = json.loads(done.out)
    assert [step["outcome"] for step in document["steps"]] == ["done", "done"]
    assert document["exit_code"] == done.status
    assert document["steps"][0]["run"] == first
    assert sorted(p.name for p in (tmp_path / "runs").glob("2*")) == sorted(
        step["run"] for step in document["steps"]
    )
    provenance = json.loads((here.run_folder() / "result.json").read_text())["provenance"]
    assert provenance["conditions"] == {"configuration": "one disk", "compression": False}

    again = here.hcio("campaign", "run", *words)
    assert again.status == done.status
    head, two, one, *_ = again.out.splitlines()
    assert head.split("  ")[0] == "configuration"
    assert (two.split("  ")[0], one.split("  ")[0]) == ("two disks", "one disk")
    assert "step " not in again.err


def test_a_case_that_ctrl_c_ended_is_measured_again(tmp_path: Path) -> None:
    """Gone on with, a campaign has no hole where it was interrupted: the case is measured again,
    in a run of its own, and no other one is. Here it is stopped before its start: that is nobody's
    fault, and the lab isn't called broken."""
    here, words = prepared(tmp_path)
    file = FILE.replace("set: {iodepth: 4}", "set: {runtime: 3}").splitlines()
    (tmp_path / "disks.yaml").write_text("\n".join(file[:-1]) + "\n")
    process = here.start("campaign", "run", *words)
    deadline = time.monotonic() + 60
    while not _armed(here):
        assert time.monotonic() < deadline, process.poll()
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1].endswith("goes on where this stopped\n")
    assert process.returncode == 130
    first = here.run_folder()
    (stopped,) = json.loads((first / "result.json").read_text())["cases"]
    assert stopped["outcome"] == "skipped", stopped

    done = here.hcio("campaign", "run", *words, "--json")
    assert done.status in (0, 3), done.err
    (step,) = json.loads(done.out)["steps"]
    assert step["outcome"] == "done"
    assert step["runs"] == [first.name, here.run_folder().name]
    assert _armed(here) == ["4k-100r-random"]
    (cells,) = json.loads(done.out)["rows"].values()
    assert len(cells) == 2
    assert all(cell["value"] for cell in cells)


def test_rules_of_suites_decide_a_step_and_retry_measures_it_again(tmp_path: Path) -> None:
    """A step whose suite's rule doesn't hold has failed, and says so; --retry runs it once more."""
    here, words = prepared(tmp_path)
    suite = SUITE.replace(", 256k-100r-sequential", "") + "accept: ['iops >= 100M']\n"
    (tmp_path / "profiles" / "suites" / "pair.yaml").write_text(suite)
    (tmp_path / "disks.yaml").write_text("\n".join(FILE.splitlines()[:-1]) + "\n")
    done = here.hcio("campaign", "run", *words)
    assert done.status == 1, done.err
    assert "FAIL  iops >= 100M" in done.out
    assert "--retry" in done.err
    first = here.run_folder()
    again = here.hcio("campaign", "run", *words, "--retry", "--json")
    assert again.status == 1, again.err
    (step,) = json.loads(again.out)["steps"]
    assert step["outcome"] == "failed"
    assert step["runs"] == [first.name, here.run_folder().name]
    assert step["acceptance"]["exit_code"] == 1


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
    assert "nothing is deployed with policy 'RAID-5'" in done.err


@pytest.mark.skipif(lab_refusal() is not None, reason=str(lab_refusal()))
def test_policies_over_the_same_workers(tmp_path: Path) -> None:
    """Two storage policies on a vSphere cluster: workers are made once and changed between the
    steps; the policy that vCenter reports stands beside each run's figures."""
    (tmp_path / "profiles" / "suites").mkdir(parents=True)
    suite = SUITE.replace(", 256k-100r-sequential", "")
    (tmp_path / "profiles" / "suites" / "pair.yaml").write_text(suite)
    policies = "".join(
        f"- {{name: {name}, storage_policy: {name}-ftt1}}\n" for name in ("raid1", "raid5")
    )
    file = tmp_path / "policies.yaml"
    file.write_text(f"name: policies\nsuites: [pair]\nconfigurations:\n{policies}")
    with vsphere_lab(tmp_path, 2) as lab:
        words = ("-i", "inventory.yaml", "--poll", "0.5", "--format", "json")
        done = lab.hcio("campaign", "run", "policies.yaml", *words)
        assert done.status in (0, 1, 3), done.err
        steps = json.loads(done.out)["steps"]
        runs = [tmp_path / "runs" / step["run"] / "result.json" for step in steps]
        said = [json.loads(path.read_text())["provenance"]["conditions"] for path in runs]
        assert [c["storage policy"] for c in said] == ["raid1-ftt1", "raid5-ftt1"]
        assert [c["configuration"] for c in said] == ["raid1", "raid5"]

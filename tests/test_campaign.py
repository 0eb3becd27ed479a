"""Campaigns: their steps, where they go on after a stop, and the matrix at the end."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.campaign import (
    Campaign,
    Configuration,
    Record,
    configured_inventory,
    matrix_rows,
    next_step,
    plan_steps,
    runs_of,
    step_cases,
    stopped_cases,
    unmeasured,
)
from orchestrator.cli.main import run_cli
from orchestrator.cluster import Cluster
from orchestrator.errors import ConfigError
from orchestrator.inventory import Inventory
from orchestrator.matrix import build_matrix
from orchestrator.results import (
    CaseResult,
    DirectionResult,
    RunResult,
    TotalResult,
    Verdict,
)
from orchestrator.results import Outcome as CaseOutcome


def _campaign(**changes: Any) -> Campaign:
    words: dict[str, Any] = {
        "name": "c",
        "suites": ["easy-run", "smoke"],
        "configurations": [
            {"name": "RAID-1", "storage_policy": "R1", "conditions": {"compression": "off"}},
            {"name": "RAID-5", "targets": 1},
        ],
    }
    return Campaign.model_validate({**words, **changes})


def test_steps_in_both_orders_and_rounds() -> None:
    """All suites of a configuration, or one suite on all; repeats as whole rounds."""
    titles = [step.title for step in plan_steps(_campaign())]
    assert titles == [
        "easy-run on RAID-1",
        "smoke on RAID-1",
        "easy-run on RAID-5",
        "smoke on RAID-5",
    ]
    by_suite = [step.title for step in plan_steps(_campaign(order="suite-first", repeats=2))]
    assert by_suite[:2] == ["easy-run on RAID-1", "easy-run on RAID-5"]
    assert by_suite[4] == "easy-run on RAID-1, repeat 2"
    assert len({step.key for step in plan_steps(_campaign(repeats=2))}) == 8


def test_a_campaign_goes_on_where_it_stopped() -> None:
    """Cut after any record, the same steps follow in the same order, none twice."""
    campaign = _campaign()
    records: list[Record] = []
    done = []
    while (found := next_step(campaign, records)) is not None:
        step, run = found
        assert run is None
        records.append(Record(step=step.key, run=f"r{len(records)}", outcome="running"))
        # stopped here: the same step comes again, with its run to resume
        assert next_step(campaign, records) == (step, f"r{len(records) - 1}")
        records.append(Record(step=step.key, run=records[-1].run, outcome="done"))
        done.append(step)
    assert tuple(done) == plan_steps(campaign)


def test_a_changed_configuration_runs_again_the_others_dont() -> None:
    """Only the step whose words changed is left to do."""
    records = [Record(step=s.key, run="r", outcome="done") for s in plan_steps(_campaign())]
    changed = _campaign(configurations=[{"name": "RAID-1", "storage_policy": "other"}])
    found = next_step(changed, records)
    assert found is not None
    assert found[0].title == "easy-run on RAID-1"
    assert next_step(_campaign(), records) is None


def test_failures() -> None:
    """A failed step ends the campaign, or has had its turn, as the file says."""
    first = plan_steps(_campaign())[0]
    failed = [Record(step=first.key, run="r", outcome="failed")]
    found = next_step(_campaign(), failed)
    assert found is not None
    assert found[0].title == "smoke on RAID-1"
    assert next_step(_campaign(on_failure="stop"), failed) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"configurations": []},
        {"configurations": [{"name": "a"}, {"name": "A"}]},
        {"suites": ["a", "a"]},
        {"configurations": [{"name": "a", "disks": 4}]},
        {"repeats": 0},
    ],
)
def test_wrong_files_are_refused(changes: dict[str, Any]) -> None:
    """Nothing to do, two of one name, unknown words."""
    with pytest.raises(ValidationError):
        _campaign(**changes)


def _inventory(workers: int, targets: int) -> Inventory:
    return Inventory.model_validate(
        {
            "workers": [
                {
                    "name": f"w{n}",
                    "host": f"127.0.0.{n + 1}",
                    "targets": [
                        {"label": f"t{t}", "file": f"/scratch/{t}", "size": 4096}
                        for t in range(targets)
                    ],
                }
                for n in range(workers)
            ]
        }
    )


def test_inventories_are_cut_to_the_configuration() -> None:
    """So many workers, so many targets, from the front; fewer than asked is an error."""
    inventory = _inventory(3, 2)
    cut = configured_inventory(Configuration(name="x", workers=2, targets=1), inventory)
    assert [worker.name for worker in cut.workers] == ["w0", "w1"]
    assert [len(worker.targets) for worker in cut.workers] == [1, 1]
    for asked in (Configuration(name="x", workers=4), Configuration(name="x", targets=3)):
        with pytest.raises(ConfigError, match="the inventory has"):
            configured_inventory(asked, inventory)


def test_what_is_stated_beside_the_figures() -> None:
    """Name, policy and the file's own words."""
    assert _campaign().configurations[0].stated() == {
        "configuration": "RAID-1",
        "storage policy": "R1",
        "compression": "off",
    }


def _case(case: str, iops: float, outcome: CaseOutcome = "done") -> CaseResult:
    total = TotalResult(read=DirectionResult(ios=1, bytes=1, iops=iops, bytes_per_s=iops))
    return CaseResult(
        case=case,
        outcome=outcome,
        verdict=Verdict(value="valid"),
        expected_workers=1,
        received_workers=1,
        total=total,
        workers={},
    )


def test_a_step_of_several_runs_has_each_case_once() -> None:
    """What a second run measured again stands for what the first one lost."""
    step, other, *_ = plan_steps(_campaign())
    records = [
        Record(step=step.key, run="r0", outcome="running"),
        Record(step=step.key, run="r0", outcome="failed"),
        Record(step=other.key, run="r9", outcome="done"),
        Record(step=step.key, run="r1", outcome="done"),
    ]
    results = {
        "r0": RunResult(cases=(_case("4k", 1.0), _case("8k", 2.0, "skipped"))),
        "r1": RunResult(cases=(_case("8k", 3.0),)),
    }
    assert runs_of(step, records) == ("r0", "r1")
    first = step_cases(step, records[:2], results)
    assert stopped_cases(first) == {"8k"}
    cases = step_cases(step, records, results)
    assert [(c.case, c.outcome) for c in cases] == [("4k", "done"), ("8k", "done")]
    assert not stopped_cases(cases)


def test_what_is_left_to_measure() -> None:
    """What has no end, or a bad one; repeats that a gate left out are not left."""
    cases = [_case("a", 1.0), _case("b", 1.0, "failed")]
    assert unmeasured(["a", "b", "c"], cases, gated=False) == {"b", "c"}
    assert unmeasured(["a", "b", "c"], cases, gated=True) == {"b"}
    assert unmeasured(["a", "b"], [], gated=False) == {"a", "b"}


def test_the_matrix_has_a_row_for_every_configuration() -> None:
    """Suites of a configuration share its row; one that never ran is there, without figures."""

    campaign = _campaign()
    first, second, *_ = plan_steps(campaign)
    rows = matrix_rows(campaign, {first.key: [_case("4k", 1e3)], second.key: [_case("8k", 2e3)]})
    matrix = build_matrix(rows)
    assert [cell.value for cell in matrix.rows["RAID-1"]] == [1e3, 2e3]
    assert [cell.value for cell in matrix.rows["RAID-5"]] == [None, None]


def test_a_vsphere_section_is_told_what_to_make() -> None:
    """Policy, number of workers and disks of each; what a configuration doesn't say stays."""
    section = {
        "vcenter": {"host": "vc", "user": "u", "password": "env:P"},
        "datacenter": "DC",
        "cluster": "C",
        "storage_policy": "R1",
        "networks": ["n"],
        "datastores": ["d"],
        "workers": {"source": {"template": "t"}, "count": 4, "disks": {"count": 8}},
    }
    inventory = Inventory(workers=(), vsphere=Cluster.model_validate(section))

    def made(**words: Any) -> Cluster:
        found = configured_inventory(Configuration(name="x", **words), inventory).vsphere
        assert found is not None
        return found

    changed = made(storage_policy="R5", workers=2, targets=4)
    assert changed.storage_policy == "R5"
    assert (changed.workers.count, changed.workers.disks.count) == (2, 4)
    assert made() == inventory.vsphere


def test_workers_that_cannot_be_made_break_one_step_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without its vCenter every step is tried, none has a run, and each invocation tries again."""
    monkeypatch.setenv("NO_SECRET", "x")
    monkeypatch.chdir(tmp_path)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    section = {
        "vcenter": {"host": "127.0.0.1", "port": port, "user": "u", "password": "env:NO_SECRET"},
        "datacenter": "DC",
        "cluster": "C",
        "networks": ["n"],
        "datastores": ["d"],
        "workers": {"source": {"template": "t"}, "count": 1},
    }
    Path("lab.yaml").write_text(json.dumps({"vsphere": section}))
    words = {"name": "c", "suites": ["smoke"], "configurations": [{"name": "a"}, {"name": "b"}]}
    Path("c.yaml").write_text(json.dumps(words))
    arguments = ["campaign", "run", "c.yaml", "-i", "lab.yaml", "--runs", "runs", "--json"]
    for _ in range(2):
        assert run_cli(arguments) == 4
        shown = capsys.readouterr()
        steps = json.loads(shown.out)["steps"]
        assert [(s["run"], s["outcome"]) for s in steps] == [(None, "broken")] * 2
        assert shown.err.count("no connection") == 2
        assert "smoke on b: broken; the same command tries again" in shown.err
    assert run_cli(["campaign", "status", "c.yaml", "--runs", "runs"]) == 4
    assert "smoke on a: broken, no run yet" in capsys.readouterr().out

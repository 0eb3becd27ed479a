"""A worker that acknowledges too late moves T0 for all, or is left out by the policy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from orchestrator.catalog import Catalog, dump_yaml
from orchestrator.engine import Fleet
from orchestrator.expansion import expand_suite
from orchestrator.inventory import FileTarget, Inventory, Worker
from orchestrator.jobfile import FILL_TEMPLATE, JOB_TEMPLATE
from orchestrator.plan import Plan, build_plan
from orchestrator.progress import say_nothing
from orchestrator.runner import Conductor
from orchestrator.spec import Lab
from orchestrator.store import RunFolder, RunStore
from orchestrator.suites import Suite
from orchestrator.transport.base import Command, CommandResult, Exchange, Transport
from orchestrator.transport.local import open_local
from orchestrator.turn import Mode

pytestmark = [pytest.mark.real, pytest.mark.slow]


class LateTransport:
    """A transport whose arms reach the worker late: each pause in seconds is used once, the last
    one again and again."""

    def __init__(self, inner: Transport, pauses: Sequence[float]) -> None:
        self._inner = inner
        self._pauses = list(pauses)

    @property
    def host(self) -> str:
        return self._inner.host

    def run(self, command: Command, *, timeout: float, stdin: bytes = b"") -> CommandResult:
        if command.label == "arm" and self._pauses:
            time.sleep(self._pauses.pop(0) if len(self._pauses) > 1 else self._pauses[0])
        return self._inner.run(command, timeout=timeout, stdin=stdin)

    def exchange(
        self, command: Command, lines: Sequence[bytes], *, timeout: float
    ) -> list[Exchange]:
        return self._inner.exchange(command, lines, timeout=timeout)

    def put(self, content: bytes, path: str, *, timeout: float, mode: int = 0o600) -> None:
        self._inner.put(content, path, timeout=timeout, mode=mode)

    def get(self, path: str, *, timeout: float) -> bytes:
        return self._inner.get(path, timeout=timeout)

    def close(self) -> None:
        self._inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def make_plan(tmp_path: Path, **rules: Any) -> Plan:
    workers = tuple(
        Worker(
            name=name,
            host="localhost",
            work_dir=str(tmp_path / name / "hcio"),
            targets=(FileTarget(file=str(tmp_path / name / "disk0"), size=4 << 20, label="disk0"),),
        )
        for name in ("w1", "w2")
    )
    for worker in workers:
        (tmp_path / worker.name).mkdir()
    catalog = Catalog.of()
    suite = Suite.model_validate(
        {
            "name": "late",
            "cases": ["4k-0r-random"],
            "set": {"runtime": 1, "ramp": 0},
            "prepare": "none",
            **rules,
        }
    )
    return build_plan(
        suite,
        expand_suite(suite, catalog.find_profile),
        Inventory(workers=workers),
        run="late",
        version="test",
        templates={name: catalog.template(name).text for name in (JOB_TEMPLATE, FILL_TEMPLATE)},
        local=True,
    )


def conduct(plan: Plan, tmp_path: Path, pauses: Sequence[float]) -> tuple[RunFolder, Any]:
    """Run the plan; w2's arms are late by these pauses."""

    def open_worker(worker: Worker) -> Transport:
        inner = open_local(worker.name)
        return LateTransport(inner, pauses) if worker.name == "w2" else inner

    folder = RunStore(tmp_path / "runs").create(plan.run, dump_yaml(plan.model_dump(mode="json")))
    lab = Lab(clock=time.time, sleep=time.sleep, report=say_nothing, poll_s=0.3)
    conductor = Conductor(plan, folder, Fleet(plan, open_worker), lab, Mode(keep=True))
    return folder, conductor.conduct()


def test_a_late_worker_moves_the_start_for_all(tmp_path: Path) -> None:
    """Late once: T0 is moved, both start at the second one, and nobody started at the first."""
    plan = make_plan(tmp_path)
    folder, result = conduct(plan, tmp_path, [4.0, 0.0])
    armings = [e.fields for e in folder.events() if e.name == "case.arming"]
    assert [arming["attempt"] for arming in armings] == [1, 2]
    assert armings[1]["t0"] > armings[0]["t0"]
    (case,) = result.cases
    assert (case.outcome, case.received_workers) == ("done", 2), case.verdict
    assert case.timing.skew_s < 1
    for name in ("w1", "w2"):
        starts = tmp_path / name / "hcio" / "late" / "4k-0r-random" / "starts"
        assert len(starts.read_text().splitlines()) == 1


def test_a_worker_that_stays_late_is_left_out_by_the_policy(tmp_path: Path) -> None:
    """Late every time: the others measure without it, and the result names it."""
    plan = make_plan(tmp_path, policy={"quorum": 1})
    _, result = conduct(plan, tmp_path, [25.0])
    (case,) = result.cases
    assert (case.outcome, case.degraded, case.received_workers) == ("done", True, 1)
    assert case.workers["w2"].outcome == "broken"
    assert "too late" in case.workers["w2"].reason

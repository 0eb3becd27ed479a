"""How a campaign's steps stand: what their runs came to, and which go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.acceptance import Finding, acceptance_exit_code, judge_rules, parse_rules
from orchestrator.campaign import Outcome, Record, Step, runs_of, step_cases
from orchestrator.cli.presenting import exit_code, worst
from orchestrator.cli.sides import load_run
from orchestrator.errors import (
    EXIT_BROKEN,
    EXIT_NO,
    EXIT_UNKNOWN,
    IncompatibleResults,
    StoreError,
)
from orchestrator.repeats import group_repeats
from orchestrator.results import CaseResult, RunResult
from orchestrator.store import RunFolder, RunStore


@dataclass(frozen=True)
class Standing:
    """A step's cases over all its runs, and its suite's rules held against them."""

    cases: tuple[CaseResult, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def exit_code(self) -> int:
        """The worst of its cases' and rules'; 3 without any case."""
        if not self.cases:
            return EXIT_UNKNOWN
        cases = exit_code(RunResult(cases=self.cases))
        return worst((cases, acceptance_exit_code(self.findings)))

    @property
    def outcome(self) -> Outcome:
        """What is kept of it; figures that are only unknown don't fail a step."""
        code = self.exit_code
        return "broken" if code == EXIT_BROKEN else "failed" if code == EXIT_NO else "done"


def standing(step: Step, records: Sequence[Record], store: RunStore) -> Standing:
    """What a step's runs came to. Those that were taken away, or have no result yet, count for
    nothing."""
    results: dict[str, RunResult] = {}
    rules: list[str] = []
    for run in runs_of(step, records):
        folder = existing(store, run)
        if folder is None:
            continue
        try:
            results[run], plan, _ = load_run(str(folder.path), store.path)
        except IncompatibleResults:
            continue
        rules = [str(rule) for rule in plan.get("accept") or ()]
    cases = step_cases(step, records, results)
    if not cases:
        return Standing()
    found = judge_rules(parse_rules(rules, f"suite {step.suite}"), group_repeats(cases))
    return Standing(cases, found)


def renewed(step: Step, records: Sequence[Record], store: RunStore) -> Record | None:
    """What to record of a step that the lab broke: its run goes on where it isn't over; it has
    another outcome where `hcio resume` ended it since."""
    last = next((record for record in reversed(records) if record.step == step.key), None)
    folder = existing(store, last.run) if last is not None else None
    if last is None or last.outcome != "broken" or folder is None:
        return None
    if not any(event.name == "run.finished" for event in folder.events()):
        return last.model_copy(update={"outcome": "running"})
    outcome = standing(step, records, store).outcome
    return None if outcome == "broken" else last.model_copy(update={"outcome": outcome})


def existing(store: RunStore, run: str | None) -> RunFolder | None:
    """A run's folder; None when it was taken away, so that its step is carried out anew."""
    try:
        return None if run is None else store.find(run)
    except StoreError:
        return None

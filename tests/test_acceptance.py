"""Acceptance rules: how they are written, and pass, fail or could not tell with evidence."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.acceptance import (
    Answer,
    Finding,
    acceptance_exit_code,
    judge_rules,
    needs_baseline,
    parse_rule,
    parse_rules,
)
from orchestrator.cli.main import run_cli
from orchestrator.compare import Side, compare
from orchestrator.contrast import Observation, Rules
from orchestrator.errors import ConfigError, InputError
from orchestrator.report.acceptance import findings_document, render_findings
from orchestrator.results import (
    CaseResult,
    DirectionResult,
    LatencyResult,
    Outcome,
    Reason,
    RunResult,
    TotalResult,
    Verdict,
    VerdictValue,
    write_result,
)
from orchestrator.store import RunStore


def _result(
    iops: float | None = 60_000.0,
    p99: int | None = 4_000_000,
    *,
    outcome: Outcome = "done",
    verdict: VerdictValue = "valid",
) -> CaseResult:
    latency = LatencyResult(
        kind="lat", count=10_000, min=1, max=9, mean=2e6, stddev=1.0, percentiles={"99": p99}
    )
    read = DirectionResult(ios=1, bytes=1, iops=iops, bytes_per_s=4e8, latency_ns=latency)
    return CaseResult(
        case="c",
        outcome=outcome,
        verdict=Verdict(value=verdict, reasons=(Reason(code="skew", text="..."),)),
        expected_workers=1,
        received_workers=1,
        total=TotalResult(read=read),
        workers={},
    )


def _one(rule: str, *results: CaseResult) -> Finding:
    (finding,) = judge_rules([parse_rule(rule)], {"c": list(results)})
    return finding


@pytest.mark.parametrize(
    ("text", "metric", "operator", "limit", "relative", "case"),
    [
        ("iops >= 50000", "iops", ">=", 50_000, False, "*"),
        ("iops>=50k", "iops", ">=", 50_000, False, "*"),
        ("read.latency.p99 <= 5ms", "read.latency.p99", "<=", 5e6, False, "*"),
        ("  write.p99.9 < 500us ", "write.latency.p99.9", "<", 5e5, False, "*"),
        ("bytes_per_s > 1GB/s", "bytes_per_s", ">", 1e9, False, "*"),
        ("4k-*: iops >= 1", "iops", ">=", 1, False, "4k-*"),
        ("vs baseline iops >= -5%", "iops", ">=", -0.05, True, "*"),
        ("a: vs  baseline read.p99 <= +10.5 %", "read.latency.p99", "<=", 0.105, True, "a"),
    ],
)
def test_rules_as_they_are_written(
    text: str, metric: str, operator: str, limit: float, relative: bool, case: str
) -> None:
    """A rule reads as metric, operator, limit in the metric's unit, scope and baseline."""
    rule = parse_rule(text)
    assert (rule.metric.name, rule.operator, rule.relative) == (metric, operator, relative)
    assert rule.limit == pytest.approx(limit)
    assert rule.case == case


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("iops", "not an acceptance rule"),
        ("", "not an acceptance rule"),
        ("iops == 5", "can't be asked"),
        ("iops => 5", "can't be asked"),
        ("iopz >= 5", "did you mean 'iops'"),
        ("read.p99 <= 5", "with its unit"),
        ("iops >= 5ms", "not a count"),
        ("iops >= -5%", "vs baseline"),
        ("vs baseline iops >= 5", "not a change"),
        ("bytes_per_s >= fast", "not a rate"),
    ],
)
def test_bad_rules_say_what_is_wrong(text: str, said: str) -> None:
    """Each mistake has its own message."""
    with pytest.raises(ConfigError, match=said):
        parse_rule(text)


@given(st.text(max_size=40))
def test_no_text_is_a_crash(text: str) -> None:
    """Any text is a rule or a ConfigError."""
    with contextlib.suppress(ConfigError):
        parse_rule(text)


def test_all_bad_rules_are_listed_together() -> None:
    """A suite with two bad rules gets both with their places."""
    with pytest.raises(InputError) as caught:
        parse_rules(["iops >= 1", "x", "y > 1"], "suite s")
    assert [problem.path for problem in caught.value.problems] == ["accept.1", "accept.2"]


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        ("iops >= 50000", "pass"),
        ("iops >= 60000", "pass"),
        ("iops > 60000", "fail"),
        ("read.p99 <= 5ms", "pass"),
        ("read.p99 < 4ms", "fail"),
        ("write.iops >= 1", "unknown"),
        ("read.p50 <= 1ms", "unknown"),
        ("other: iops >= 1", "unknown"),
    ],
)
def test_one_run(rule: str, answer: Answer) -> None:
    """One run's figure is held against the limit; what isn't known can't be told."""
    finding = _one(rule, _result())
    assert finding.answer == answer
    assert finding.evidence


def test_repeats_are_held_with_their_interval() -> None:
    """Three repeats pass or fail only when the whole interval is on one side."""
    steady = [_result(iops) for iops in (100.0, 101.0, 99.0)]
    assert _one("iops >= 95", *steady).answer == "pass"
    assert _one("iops >= 105", *steady).answer == "fail"
    assert _one("iops >= 100", *steady).answer == "unknown"
    assert "3 runs" in _one("iops >= 100", *steady).evidence


def test_two_repeats_are_held_by_their_mean() -> None:
    """Two repeats have no useful interval: their mean counts and the evidence says so."""
    finding = _one("iops >= 100", _result(99.0), _result(103.0))
    assert finding.answer == "pass"
    assert "mean of 2 runs" in finding.evidence


@pytest.mark.parametrize(
    ("result", "answer", "said"),
    [
        (_result(outcome="failed"), "fail", "the case is failed"),
        (_result(outcome="broken"), "unknown", "the case is broken"),
        (_result(verdict="invalid"), "unknown", "invalid: skew"),
        (_result(verdict="unknown"), "unknown", "unknown: skew"),
        (_result(iops=None), "unknown", "isn't known"),
    ],
)
def test_figures_that_are_not_trusted(result: CaseResult, answer: Answer, said: str) -> None:
    """A failed case fails; a broken lab and doubtful figures can't tell."""
    finding = _one("iops >= 1", result)
    assert finding.answer == answer
    assert said in finding.evidence


def _sides(before: Sequence[float], after: Sequence[float]) -> tuple[Side, Side]:
    def side(name: str, values: Sequence[float]) -> Side:
        seen = tuple(Observation(_result(value)) for value in values)
        return Side(name, {"c": seen} if seen else {})

    return side("a", before), side("b", after)


def _against(rule: str, before: Sequence[float], after: Sequence[float]) -> Finding:
    baseline, candidate = _sides(before, after)
    parsed = parse_rule(rule)
    comparison = compare(baseline, candidate, Rules(metrics=(parsed.metric,)))
    cases: Mapping[str, list[CaseResult]] = {
        name: [seen.result for seen in repeats] for name, repeats in candidate.cases.items()
    }
    return judge_rules([parsed], cases, comparison)[0]


STEADY = [100.0, 100.2, 99.8, 100.1, 99.9]


@pytest.mark.parametrize(
    ("rule", "before", "after", "answer"),
    [
        ("vs baseline iops >= -5%", STEADY, STEADY, "pass"),
        ("vs baseline iops >= -5%", STEADY, [90.0, 90.2, 89.8, 90.1, 89.9], "fail"),
        ("vs baseline iops >= -5%", STEADY, [95.0, 95.2, 94.8, 95.1, 94.9], "unknown"),
        ("vs baseline iops >= -5%", [100.0], [80.0], "fail"),
        ("vs baseline iops >= -5%", [100.0], [100.0], "unknown"),
        ("vs baseline iops >= -5%", [], [100.0], "unknown"),
        ("vs baseline iops >= -5%", STEADY, [], "fail"),
        ("vs baseline write.iops >= -5%", STEADY, STEADY, "unknown"),
        ("vs baseline iops >= -5%", [0.0], [5.0], "unknown"),
    ],
)
def test_against_a_baseline(
    rule: str, before: Sequence[float], after: Sequence[float], answer: Answer
) -> None:
    """The change's interval decides; bare figures can only fail; a missing case fails."""
    finding = _against(rule, before, after)
    assert finding.answer == answer
    assert finding.evidence


def test_doubtful_figures_do_not_pass_against_a_baseline() -> None:
    """What a check doubts can't tell, on either side; a case that failed fails."""
    rule = parse_rule("vs baseline iops >= -5%")

    def answer(before: CaseResult, after: CaseResult) -> Answer:
        sides = [
            Side(
                name, {"c": (*(Observation(_result(value)) for value in STEADY), Observation(one))}
            )
            for name, one in (("a", before), ("b", after))
        ]
        comparison = compare(*sides, Rules(metrics=(rule.metric,)))
        cases = {"c": [seen.result for seen in sides[1].cases["c"]]}
        return judge_rules([rule], cases, comparison)[0].answer

    sure, doubtful = _result(100.0), _result(100.0, verdict="unknown")
    assert answer(sure, sure) == "pass"
    assert answer(sure, doubtful) == "unknown"
    assert answer(doubtful, sure) == "unknown"
    assert answer(sure, _result(100.0, outcome="failed")) == "fail"


def test_no_baseline_at_all_is_unknown() -> None:
    """A relative rule without a comparison can't be told."""
    assert needs_baseline([parse_rule("vs baseline iops >= 0%")])
    assert _one("vs baseline iops >= 0%", _result()).answer == "unknown"


def test_exit_codes_and_reports() -> None:
    """1 for a failure, 3 when something can't be told, 0 else; reports carry every finding."""
    good, bad, open_ = (_one(f"iops >= {limit}", _result()) for limit in (1, 99_999, 1))
    open_ = Finding(open_.rule, "c", "unknown", "why")
    assert acceptance_exit_code([good]) == 0
    assert acceptance_exit_code([good, open_]) == 3
    assert acceptance_exit_code([good, open_, bad]) == 1
    text = render_findings([good, open_, bad])
    assert "FAIL  iops >= 99999" in text
    assert "1 passed, 1 failed, 1 could not be told" in text
    assert json.dumps(findings_document([good]))


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`hcio accept` takes the plan's rules or --rule, and needs a baseline where one is meant."""
    folder = RunStore(tmp_path).create("r", "suite: s\naccept: ['iops >= 50000']\n")
    folder.write("result.json", write_result(RunResult(cases=(_result(),))).decode())
    base = ["accept", "r", "--runs", str(tmp_path)]
    assert run_cli(base) == 0
    assert "pass  iops >= 50000" in capsys.readouterr().out
    assert run_cli([*base, "--rule", "iops >= 99999", "--json"]) == 1
    assert run_cli([*base, "--rule", "vs baseline iops >= 0%"]) == 2
    assert run_cli([*base, "--rule", "vs baseline iops >= 0%", "--baseline", "r"]) == 2
    RunStore(tmp_path).create("bare", "suite: s\n").write(
        "result.json", write_result(RunResult(cases=(_result(),))).decode()
    )
    assert run_cli([*base, "--rule", "vs baseline iops >= 0%", "--baseline", "bare"]) == 3
    assert run_cli(["accept", "bare", "--runs", str(tmp_path)]) == 2


def test_a_suite_with_wrong_rules_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`hcio run` reads the suite's rules first, and its plan carries good ones."""
    (tmp_path / "suites").mkdir()
    suite = tmp_path / "suites" / "s.yaml"
    suite.write_text("cases: [4k-100r-random]\naccept: ['iopz >= 1', 'read.p99 <= 5']\n")
    arguments = ["run", "s", "--profiles", str(tmp_path), "--local", "--dry-run"]
    assert run_cli(arguments) == 2
    shown = capsys.readouterr().err
    assert "accept.0" in shown
    assert "accept.1" in shown
    suite.write_text("cases: [4k-100r-random]\naccept: ['iops >= 1']\n")
    assert run_cli(arguments) == 0


def test_a_baseline_that_is_not_there_stops_a_run_before_it_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`latest` is the run before; where there is none, no folder of a run is left behind."""
    runs = tmp_path / "runs"
    arguments = ["run", "smoke", "--local", "--runs", str(runs), "--baseline", "latest"]
    assert run_cli(arguments) == 2
    assert "latest: no run like this" in capsys.readouterr().err
    assert not runs.exists()

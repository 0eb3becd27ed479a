"""Acceptance rules: what a run must reach, in a line each, and whether it did.

    iops >= 50000
    read.latency.p99 <= 5ms
    4k-*: bytes_per_s >= 400MB/s
    vs baseline iops >= -5%

A rule before whose metric `CASE:` stands holds for the cases of that glob, else for every case.
The answer is pass, fail or could not tell (`unknown`), with the figures it rests on.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from orchestrator.compare import Comparison
from orchestrator.contrast import Row
from orchestrator.errors import (
    EXIT_GOOD,
    EXIT_NO,
    EXIT_UNKNOWN,
    ConfigError,
    InputError,
    Problem,
)
from orchestrator.gate import CONFIDENCE
from orchestrator.metrics import Metric, parse_metric, show_value
from orchestrator.results import CaseResult
from orchestrator.search import Objective
from orchestrator.statistics import LEAST_RUNS, summarize
from orchestrator.units import parse_byte_rate, parse_count, parse_latency

Operator = Literal[">=", "<=", ">", "<"]
Answer = Literal["pass", "fail", "unknown"]

_RULE: Final = re.compile(
    r"(?:(?P<case>[^:\s]+)\s*:\s*)?(?P<versus>vs\s+baseline\s+)?"
    r"(?P<metric>[A-Za-z][\w.]*)\s*(?P<operator>[<>=!]+)\s*(?P<limit>.+)"
)
_CHANGE: Final = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*%")
_OPERATORS: Final[dict[str, Operator]] = {">=": ">=", "<=": "<=", ">": ">", "<": "<"}
_FORM: Final = "write it like 'iops >= 50000', 'read.p99 <= 5ms' or 'vs baseline iops >= -5%'"


class Rule(Struct, frozen=True):
    """One rule. `limit` is in the metric's unit, or a change (-0.05 is -5 %) where `relative`."""

    text: str
    metric: Metric
    operator: Operator
    limit: float
    relative: bool = False
    case: str = "*"

    def holds(self, value: float) -> bool:
        """Whether a figure or change is on the right side of the limit."""
        if self.operator in (">=", "<="):
            return value >= self.limit if self.operator == ">=" else value <= self.limit
        return value > self.limit if self.operator == ">" else value < self.limit


class Finding(Struct, frozen=True):
    """What became of one rule for one case. `case` is empty when the rule met none."""

    rule: str
    case: str
    answer: Answer
    evidence: str


def parse_rule(text: str) -> Rule:
    """One rule. ConfigError says what is wrong and how to write it."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{text!r} is not an acceptance rule", next_step=_FORM)
    operator = _OPERATORS.get(match["operator"])
    if operator is None:
        raise ConfigError(
            f"{text!r}: {match['operator']!r} can't be asked of a measured figure",
            next_step="use >=, <=, > or <",
        )
    metric = parse_metric(match["metric"])
    relative = match["versus"] is not None
    try:
        limit = _change(match["limit"]) if relative else _limit(metric, match["limit"].strip())
    except ValueError as error:
        raise ConfigError(f"{text!r}: {error}", next_step=_FORM) from None
    return Rule(text.strip(), metric, operator, limit, relative, match["case"] or "*")


def _change(text: str) -> float:
    match = _CHANGE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text.strip()!r} is not a change; write it like -5% or +10%")
    return float(match[1]) / 100


def _limit(metric: Metric, text: str) -> float:
    if text.endswith("%"):
        raise ValueError("a percent needs a baseline: begin with 'vs baseline'")
    if metric.unit == "ns":
        return float(parse_latency(text))
    return float(parse_byte_rate(text) if metric.unit == "B/s" else parse_count(text))


def parse_rules(texts: Sequence[str], source: str) -> tuple[Rule, ...]:
    """All rules of a source; InputError lists everything that is wrong."""
    rules: list[Rule] = []
    problems: list[Problem] = []
    for index, text in enumerate(texts):
        try:
            rules.append(parse_rule(text))
        except ConfigError as error:
            problems.append(Problem(source, None, f"accept.{index}", error.what))
    if problems:
        raise InputError(problems, next_step=_FORM)
    return tuple(rules)


def parse_objective(text: str) -> Objective:
    """A search's objective, written as a rule: `read.p99 <= 1ms`.

    Raises ConfigError for a rule that speaks of a baseline or of one case.
    """
    rule = parse_rule(text)
    if rule.relative or rule.case != "*":
        raise ConfigError(
            f"{text!r}: an objective is of the probe itself", next_step="write 'read.p99 <= 1ms'"
        )
    return Objective(rule.metric, rule.limit, rule.operator in ("<=", "<"))


def needs_baseline(rules: Iterable[Rule]) -> bool:
    """Whether any rule speaks of the baseline."""
    return any(rule.relative for rule in rules)


def judge_rules(
    rules: Iterable[Rule],
    cases: Mapping[str, Sequence[CaseResult]],
    comparison: Comparison | None = None,
    *,
    confidence: float = CONFIDENCE,
) -> tuple[Finding, ...]:
    """Hold every rule against every case it means.

    `cases` holds the repeats of each case; `comparison` must have judged the metrics of the rules
    that speak of the baseline, this run being its candidate.
    """
    findings: list[Finding] = []
    for rule in rules:
        known = _known_cases(rule, cases, comparison)
        for case in known:
            if rule.relative:
                answer, evidence = _relative(rule, case, cases.get(case, ()), comparison)
            else:
                answer, evidence = _absolute(rule, cases[case], confidence)
            findings.append(Finding(rule.text, case, answer, evidence))
        if not known:
            text = f"no case is called {rule.case}" if rule.case != "*" else "there is no case"
            findings.append(Finding(rule.text, "", "unknown", text))
    return tuple(findings)


def _known_cases(
    rule: Rule, cases: Mapping[str, Sequence[CaseResult]], comparison: Comparison | None
) -> list[str]:
    names = list(cases)
    if rule.relative and comparison is not None:
        names += [case.case for case in comparison.cases if case.case not in cases]
    return [name for name in names if fnmatch.fnmatchcase(name, rule.case)]


def _absolute(rule: Rule, repeats: Sequence[CaseResult], confidence: float) -> tuple[Answer, str]:
    if blocked := _blocked(repeats):
        return blocked
    found = [rule.metric.value(result.total) for result in repeats]
    values = [value for value in found if value is not None]
    if len(values) < len(found):
        return "unknown", f"{rule.metric.name} isn't known"
    summary = summarize(values, confidence)
    unit = rule.metric.unit
    evidence = f"{rule.metric.name} is {show_value(summary.mean, unit)}"
    if summary.count < LEAST_RUNS or summary.half_width is None:
        if summary.count > 1:
            evidence += f" (mean of {summary.count} runs)"
        return ("pass" if rule.holds(summary.mean) else "fail"), evidence
    evidence += f" ± {show_value(summary.half_width, unit, summary.mean)} ({summary.count} runs)"
    ends = (summary.mean - summary.half_width, summary.mean + summary.half_width)
    return _of_interval(rule, *ends), evidence


def _of_interval(rule: Rule, low: float, high: float) -> Answer:
    held = {rule.holds(low), rule.holds(high)}
    if len(held) > 1:
        return "unknown"
    return "pass" if held == {True} else "fail"


def _blocked(repeats: Sequence[CaseResult]) -> tuple[Answer, str] | None:
    """Why no figure is looked at: the case didn't end well, or its figures aren't trusted."""
    lost = [result for result in repeats if result.outcome != "done"]
    if lost:
        reason = f" ({lost[0].reason})" if lost[0].reason else ""
        answer: Answer = "fail" if any(r.outcome == "failed" for r in lost) else "unknown"
        return answer, f"the case is {lost[0].outcome}{reason}"
    doubtful = [result for result in repeats if result.verdict.value != "valid"]
    if doubtful:
        verdict = doubtful[0].verdict
        codes = sorted({reason.code for reason in verdict.reasons if reason.level != "note"})
        return (
            "unknown",
            f"the figures are {verdict.value}: {', '.join(codes) or 'no reason given'}",
        )
    return None


def _relative(
    rule: Rule, case: str, repeats: Sequence[CaseResult], comparison: Comparison | None
) -> tuple[Answer, str]:
    if comparison is None:
        return "unknown", "no baseline was named (--baseline RUN)"
    if blocked := _blocked(repeats):
        return blocked
    found = next((item for item in comparison.cases if item.case == case), None)
    if found is None or found.presence != "both":
        missing = found is not None and found.presence == "missing"
        words = "not compared" if found is None else found.words
        return ("fail" if missing else "unknown"), words
    if found.doubts:
        return "unknown", "; ".join(found.doubts)
    row = next((row for row in found.rows if row.metric == rule.metric.name), None)
    if row is None:
        return "unknown", f"{rule.metric.name} isn't known"
    return _of_row(rule, row)


def _of_row(rule: Rule, row: Row) -> tuple[Answer, str]:
    if row.change is None:
        return "unknown", row.words
    evidence = f"{row.metric} {row.change:+.1%}"
    if row.low is None or row.high is None:
        # Bare figures can show that a limit was passed by; that it holds needs an interval.
        return ("unknown" if rule.holds(row.change) else "fail"), f"{evidence} ({row.words})"
    evidence += f" ({row.low:+.1%} .. {row.high:+.1%})"
    return _of_interval(rule, row.low, row.high), evidence


def acceptance_exit_code(findings: Sequence[Finding]) -> int:
    """1 when a rule failed, 3 when one could not be told, else 0."""
    answers = {finding.answer for finding in findings}
    if "fail" in answers:
        return EXIT_NO
    return EXIT_UNKNOWN if "unknown" in answers else EXIT_GOOD

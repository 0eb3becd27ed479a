"""Acceptance findings for people and programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from orchestrator.acceptance import Answer, Finding, acceptance_exit_code

_MARKS: Final[dict[Answer, str]] = {"pass": "pass", "fail": "FAIL", "unknown": "????"}
_WORDS: Final[dict[Answer, str]] = {
    "pass": "passed",
    "fail": "failed",
    "unknown": "could not be told",
}


def render_findings(findings: Sequence[Finding]) -> str:
    """One line a rule and case, and the count of each answer."""
    rules = max((len(finding.rule) for finding in findings), default=0)
    cases = max((len(finding.case) for finding in findings), default=0)
    lines = [
        f"{_MARKS[f.answer]}  {f.rule:<{rules}}  {f.case:<{cases}}  {f.evidence}" for f in findings
    ]
    count = Counter(finding.answer for finding in findings)
    said = ", ".join(f"{count[answer]} {words}" for answer, words in _WORDS.items())
    return "\n".join([*lines, f"{len(findings)} checks of rules: {said}"]) + "\n"


def findings_document(findings: Sequence[Finding]) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "schema": 1,
        "exit_code": acceptance_exit_code(findings),
        "findings": msgspec.to_builtins(list(findings)),
    }

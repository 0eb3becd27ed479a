"""The preflight as people and programs read it: one line a check, and what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from orchestrator.preflight import Check, Light

_MARKS: Final = {Light.GREEN: "ok", Light.YELLOW: "warn", Light.RED: "FAIL"}


def render_checks(checks: Sequence[Check]) -> str:
    """The table: mark, name, evidence, and the next step under each that isn't green."""
    width = max((len(check.name) for check in checks), default=0)
    lines = [line for check in checks for line in _check_lines(check, width)]
    return "\n".join([*lines, "", _summary(checks)]) + "\n"


def checks_document(checks: Sequence[Check]) -> dict[str, Any]:
    """What `--json` prints: every check, and how many of each light."""
    count = Counter(check.light for check in checks)
    return {
        "schema": 1,
        "counts": {light.value: count[light] for light in Light},
        "checks": [
            {
                "name": check.name,
                "result": check.light.value,
                "evidence": check.evidence,
                "next_step": check.next_step or None,
                "ran": check.ran,
                "seconds": None if check.seconds is None else round(check.seconds, 3),
            }
            for check in checks
        ],
    }


def _check_lines(check: Check, width: int) -> list[str]:
    mark = "????" if not check.ran else _MARKS[check.light]
    indent = " " * (width + 8)
    first, *rest = check.evidence.splitlines() or [""]
    lines = [f"{mark:<5} {check.name:<{width}}  {first}", *(indent + line for line in rest)]
    if check.next_step and check.light is not Light.GREEN:
        lines.append(f"{indent}next: {check.next_step}")
    return lines


def _summary(checks: Sequence[Check]) -> str:
    count = Counter(check.light for check in checks)
    absent = sum(not check.ran for check in checks)
    text = f"{len(checks)} checks: " + ", ".join(f"{count[light]} {light}" for light in Light)
    return text + (f" ({absent} could not run)" if absent else "")

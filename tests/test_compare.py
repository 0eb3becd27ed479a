"""Comparisons: verdicts with evidence, zero and missing in words, differences first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from orchestrator.compare import CaseComparison, Comparison, Side, compare, exit_code
from orchestrator.contrast import Observation, Row, Rules
from orchestrator.errors import ConfigError
from orchestrator.metrics import METRICS, parse_metric
from orchestrator.report.compare import (
    comparisons_document,
    render_comparisons,
    render_markdown,
)
from orchestrator.results import (
    CaseResult,
    DirectionResult,
    LatencyResult,
    Reason,
    TotalResult,
    Verdict,
)

CASE_54 = Path(__file__).parent / "data" / "cases" / "54-compare-edge-cases"


def _direction(iops: float | None, p99: float | None, kind: str = "lat") -> DirectionResult:
    latency = None
    if p99 is not None:
        latency = LatencyResult(
            kind=kind,
            count=10_000,
            min=1,
            max=round(p99 * 2),
            mean=p99 / 3,
            stddev=1.0,
            percentiles={"50": round(p99 / 4), "95": round(p99 / 2), "99": round(p99)},
        )
    return DirectionResult(ios=None, bytes=None, iops=iops, bytes_per_s=None, latency_ns=latency)


def _result(case: str, read: DirectionResult, write: DirectionResult | None = None) -> CaseResult:
    return CaseResult(
        case=case,
        outcome="done",
        verdict=Verdict(value="valid"),
        expected_workers=4,
        received_workers=4,
        total=TotalResult(read=read, write=write),
        workers={},
    )


def _side(name: str, iops: Sequence[float], p99: Sequence[float] | None = None) -> Side:
    latencies = p99 or [1e6] * len(iops)
    repeats = tuple(
        Observation(_result("c", _direction(i, p))) for i, p in zip(iops, latencies, strict=True)
    )
    return Side(name, {"c": repeats})


def _row(comparison: Comparison, metric: str, case: str = "c") -> Row:
    found = next(item for item in comparison.cases if item.case == case)
    return next(row for row in found.rows if row.metric == metric)


def _case_54(name: str) -> Side:
    content: dict[str, dict[str, Any]] = json.loads((CASE_54 / f"{name}.json").read_text())
    return Side(
        name,
        {
            case: (
                Observation(
                    _result(
                        case,
                        _direction(values["read_iops"], values["read_p99_ns"]),
                        _direction(values["write_iops"], values["write_p99_ns"]),
                    )
                ),
            )
            for case, values in content.items()
        },
    )


@pytest.fixture
def case_54() -> Comparison:
    """The two sides of case 54, by a threshold of the user's."""
    return compare(_case_54("base"), _case_54("new"), Rules(threshold=0.05))


def test_case_54_direction_of_good(case_54: Comparison) -> None:
    """Case 54: 10 % fewer IOPS is worse, a p99 20 % lower is better, 25 % higher is worse."""
    iops = _row(case_54, "read.iops", "randread-4k")
    assert (iops.change, iops.verdict) == (pytest.approx(-0.1), "worse")
    p99 = _row(case_54, "read.latency.p99", "randread-4k")
    assert (p99.change, p99.verdict) == (pytest.approx(-0.2), "better")
    slower = _row(case_54, "read.latency.p99", "mix70")
    assert (slower.change, slower.verdict) == (pytest.approx(0.25), "worse")


def test_case_54_zero_and_missing_are_said_in_words(case_54: Comparison) -> None:
    """Case 54: no ratio to zero, no invented baseline, no case silently dropped."""
    grown = _row(case_54, "write.iops", "randwrite-4k")
    assert (grown.change, grown.words) == (None, "was 0, now 50")
    fresh = _row(case_54, "read.latency.p99", "seqread")
    assert (fresh.change, fresh.words) == (None, "no baseline value")
    cases = {case.case: case for case in case_54.cases}
    assert cases["old-only"].presence == "missing"
    assert "missing in new" in cases["old-only"].words
    assert (cases["new-only"].presence, cases["new-only"].words) == ("new", "no baseline")


def test_case_54_exit_code_is_by_the_users_threshold() -> None:
    """Case 54: what is missing fails whatever the threshold; a wide threshold lets 10 % pass."""
    base, new = _case_54("base"), _case_54("new")
    assert compare(base, new, Rules(threshold=0.05)).exit_code == 1
    only = {"randread-4k": base.cases["randread-4k"]}
    narrow = compare(Side("base", only), new, Rules(threshold=0.05))
    wide = compare(Side("base", only), new, Rules(threshold=0.5))
    assert narrow.exit_code == 1
    assert wide.exit_code == 3


def test_one_run_a_side_is_unknown_never_same() -> None:
    """Without repeats, a series or a threshold of the user's, even equal figures are unknown."""
    for after in (100.0, 50.0):
        row = _row(compare(_side("a", [100.0]), _side("b", [after])), "iops")
        assert (row.verdict, row.low) == ("unknown", None)
        assert "one run a side" in row.words


def test_repeats_give_verdicts() -> None:
    """Five repeats: 10 % less is worse, 0.1 % is the same, and a noisy side is unknown."""
    base = _side("a", [100.0, 100.4, 99.8, 100.1, 99.9], [1e6, 1.01e6, 0.99e6, 1.02e6, 0.98e6])
    worse = _side("b", [90.0, 90.3, 89.9, 90.2, 89.7], [0.8e6, 0.81e6, 0.79e6, 0.82e6, 0.78e6])
    close = _side("c", [100.1, 100.2, 99.9, 100.0, 100.3], [1e6, 1.01e6, 0.99e6, 1.02e6, 0.985e6])
    noisy = _side("d", [60.0, 140.0, 95.0, 130.0, 80.0], [1e6, 1.01e6, 0.99e6, 1.02e6, 0.98e6])
    assert _row(compare(base, worse), "iops").verdict == "worse"
    assert _row(compare(base, worse), "read.latency.p99").verdict == "better"
    assert _row(compare(base, close), "iops").verdict == "same"
    assert _row(compare(base, noisy), "iops").verdict == "unknown"
    assert compare(base, worse).exit_code == 1
    assert exit_code([compare(base, close), compare(base, worse)]) == 1


def test_three_repeats_judge_rates_but_not_latency() -> None:
    """Three runs a side are enough for Welch's t on a large change, not for ranks."""
    base = _side("a", [100.0, 100.4, 99.8], [1e6, 1.01e6, 0.99e6])
    worse = _side("b", [80.0, 80.3, 79.9], [2e6, 2.01e6, 1.99e6])
    found = compare(base, worse)
    assert _row(found, "iops").verdict == "worse"
    latency = _row(found, "read.latency.p99")
    assert latency.verdict == "unknown"
    assert "at least 4" in latency.words


def test_like_against_like_is_rarely_called_different() -> None:
    """A whole case of several metrics: in at most 5 % (+ 3 errors) of trials is any different."""
    draw = np.random.default_rng(11)
    wrong, trials = 0, 200
    for _ in range(trials):
        sides = [
            _side(name, draw.normal(100, 3, 5).tolist(), draw.normal(1e6, 6e4, 5).tolist())
            for name in "ab"
        ]
        rows = compare(*sides).cases[0].rows
        wrong += any(row.verdict in ("better", "worse") for row in rows)
    assert wrong / trials <= 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5


def test_one_run_a_side_with_series() -> None:
    """Sixty seconds of each run stand in for repeats when the change is far beyond run noise."""
    draw = np.random.default_rng(5)

    def run(name: str, level: float) -> Side:
        windows = draw.normal(level, level / 50, 60).tolist()
        seen = Observation(_result("c", _direction(level, 1e6)), {"iops": windows})
        return Side(name, {"c": (seen,)})

    assert _row(compare(run("a", 100), run("b", 75)), "iops").verdict == "worse"
    assert _row(compare(run("a", 100), run("b", 102)), "iops").verdict == "unknown"


def test_another_workload_is_refused() -> None:
    """A case whose block size differs isn't compared, unless it is asked for."""
    base = _side("a", [100.0] * 5)
    other = _side("b", [90.0] * 5)
    base = Side("a", base.cases, {}, {"c": {"block_size": "4k", "ramp": 60}})
    other = Side("b", other.cases, {}, {"c": {"block_size": "8k", "ramp": 0}})
    found = compare(base, other)
    assert found.cases[0].presence == "refused"
    assert "block_size" in found.cases[0].words
    assert {item.name for item in found.differences} == {"block_size", "ramp"}
    assert found.exit_code == 3
    assert compare(base, other, Rules(anyway=True)).cases[0].rows


def test_invalid_figures_are_refused() -> None:
    """Figures that a check found invalid are not compared, and the check is named."""
    base = _side("a", [100.0] * 5)
    bad = _result("c", _direction(100.0, 1e6))
    reason = Reason(code="zero-latency", text="...", level="invalid")
    bad = replace(bad, verdict=Verdict(value="invalid", reasons=(reason,)))
    case = compare(base, Side("b", {"c": (Observation(bad),)})).cases[0]
    assert case.presence == "refused"
    assert "zero-latency" in case.words


def test_a_failed_candidate_counts_as_missing() -> None:
    """A case that ran and left no figures is a failure of the candidate."""
    failed = CaseResult(
        case="c",
        outcome="failed",
        verdict=Verdict(value="invalid"),
        expected_workers=4,
        received_workers=0,
        total=None,
        workers={},
        reason="0 of 4 workers",
    )
    found = compare(_side("a", [100.0]), Side("b", {"c": (Observation(failed),)}))
    assert found.cases[0].presence == "missing"
    assert "failed (0 of 4 workers)" in found.cases[0].words
    assert found.exit_code == 1


def test_two_kinds_of_latency_are_not_compared() -> None:
    """Total latency against completion latency is unknown, and says so."""
    base = _side("a", [100.0] * 5)
    other = tuple(Observation(_result("c", _direction(100.0, 1e6, "clat"))) for _ in range(5))
    row = _row(compare(base, Side("b", {"c": other})), "read.latency.p99")
    assert row.verdict == "unknown"
    assert "lat against clat" in row.words


def test_differences_come_first_and_shared_ones_once() -> None:
    """What differs stands above the first figure; what every case shares is said once."""

    def side(name: str, policy: str, version: str) -> Side:
        cases = {
            case: tuple(Observation(_result(case, _direction(100.0 + i, 1e6))) for i in range(5))
            for case in ("c", "d")
        }
        conditions = {case: {"engine": version, "ramp": len(case)} for case in cases}
        return Side(name, cases, {"storage policy": policy, "image": "x"}, conditions)

    found = compare(side("a", "RAID-1", "io_uring"), side("b", "RAID-5", "libaio"))
    assert [item.name for item in found.differences] == ["storage policy", "engine"]
    assert not any(case.differences for case in found.cases)
    for text in (render_comparisons([found]), render_markdown([found])):
        assert text.index("RAID-1") < text.index("102")


def test_nothing_to_compare_is_unknown() -> None:
    """Two sides without any case in common, and two empty ones, can't be told."""
    assert compare(Side("a", {}), Side("b", {})).exit_code == 3
    assert compare(Side("a", {}), _side("b", [1.0])).exit_code == 3


def test_reports_say_the_same(case_54: Comparison) -> None:
    """Text, Markdown and JSON carry every case, every word and every verdict."""
    text, markdown = render_comparisons([case_54]), render_markdown([case_54])
    for case in case_54.cases:
        assert case.case in text
        assert case.case in markdown
        assert all(row.words in text and row.words in markdown for row in case.rows)
    document = json.loads(json.dumps(comparisons_document([case_54]), allow_nan=False))
    assert document["exit_code"] == 1
    assert [case["verdict"] for case in document["comparisons"][0]["cases"]] == [
        case.verdict for case in case_54.cases
    ]


def test_markdown_rows_hold_together() -> None:
    """Every table row has as many cells as its head, whatever the case is called."""
    seen = Observation(_result("a|b\nc", _direction(1.0, 1e6)))
    found = compare(Side("x", {"a|b\nc": (seen,)}), Side("y", {"a|b\nc": (seen,)}))
    rows = [line for line in render_markdown([found]).splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1


def test_chosen_metrics_alone_are_judged() -> None:
    """`metrics` limits the rows; a case none of whose metrics exists is unknown."""
    rules = Rules(metrics=(parse_metric("read.p99"),))
    found = compare(_side("a", [1.0] * 5), _side("b", [1.0] * 5), rules)
    assert [row.metric for row in found.cases[0].rows] == ["read.latency.p99"]
    assert CaseComparison("x", "both").verdict == "unknown"
    assert len(METRICS) > 1


def test_a_baseline_without_figures_is_refused() -> None:
    """When the baseline failed there is nothing to be better or worse than."""
    failed = _result("c", _direction(1.0, None))
    failed = replace(failed, outcome="failed", total=None)
    base = Side("a", {"c": (Observation(failed),)})
    case = compare(base, _side("b", [100.0])).cases[0]
    assert case.presence == "refused"
    assert "no figures in a: failed" in case.words


def test_repeats_that_ran_under_different_conditions_say_all() -> None:
    """A side whose repeats differ in workers names both numbers."""
    two = replace(_result("c", _direction(1.0, 1e6)), expected_workers=2)
    mixed = Side("a", {"c": (Observation(two), *_side("x", [1.0]).cases["c"])})
    found = compare(mixed, _side("b", [1.0])).differences
    assert ("workers", "2, 4", 4) in [(d.name, d.baseline, d.candidate) for d in found]


def test_what_one_case_ran_under_is_said_before_its_figures() -> None:
    """Of a lone case too; the report doesn't call things equal that differ below."""
    base, other = _side("a", [100.0] * 5), _side("b", [90.0] * 5)
    base = Side("a", base.cases, {}, {"c": {"iodepth": 8}})
    other = Side("b", other.cases, {}, {"c": {"iodepth": 4}})
    found = compare(base, other)
    assert [item.name for item in found.differences] == ["iodepth"]
    assert "nothing else is known to differ" not in render_comparisons([found])
    only_d = Observation(_result("d", _direction(1.0, 1e6)))
    two = [Side(s.name, {**s.cases, "d": (only_d,)}, {}, s.case_conditions) for s in (base, other)]
    of_a_case = compare(*two)
    assert not of_a_case.differences
    for text in (render_comparisons([of_a_case]), render_markdown([of_a_case])):
        assert "nothing else is known to differ" not in text
        assert text.index("iodepth") < text.index("read.iops")


def test_a_workload_that_one_side_does_not_tell_is_not_called_different() -> None:
    """Figures from elsewhere come without their job: that is said, and `anyway` compares them."""
    base, other = _side("import", [100.0] * 5), _side("b", [90.0] * 5)
    other = Side("b", other.cases, {}, {"c": {"block_size": "4k"}})
    case = compare(base, other).cases[0]
    assert case.presence == "refused"
    assert "import doesn't say what its workload was" in case.words
    assert compare(base, other, Rules(anyway=True)).cases[0].rows


def _with(side: Side, **changes: Any) -> Side:
    """The side with its first run changed."""
    first, *rest = side.cases["c"]
    return Side(side.name, {"c": (Observation(replace(first.result, **changes)), *rest)})


def test_several_cases_say_what_chance_alone_makes_of_them() -> None:
    """At 95 % one in twenty unchanged cases may look different: said where several are judged."""
    sides = [_side("A", [100.0, 101.0, 99.0]), _side("B", [100.5, 101.0, 99.5])]
    several = [Side(s.name, {f"c{n}": s.cases["c"] for n in range(20)}) for s in sides]
    for render in (render_comparisons, render_markdown):
        assert "20 unchanged cases up to 1.0 look different" in render([compare(*several)])
        assert "by chance" not in render([compare(*sides)])


def test_doubtful_figures_are_compared_and_said() -> None:
    """A check that found a run's figures unknown is named beside the comparison."""
    reason = Reason(code="skew", text="...")
    doubtful = _with(_side("b", [100.0] * 5), verdict=Verdict(value="unknown", reasons=(reason,)))
    found = compare(_side("a", [100.0] * 5), doubtful)
    words = "b: the figures of 1 of 5 runs are unknown: skew"
    assert found.cases[0].doubts == (words,)
    assert words in render_comparisons([found])
    assert words in render_markdown([found])
    assert words in json.dumps(comparisons_document([found]))


def test_an_invalid_repeat_is_left_out_and_counted() -> None:
    """One invalid or empty run among several doesn't spoil the others."""
    steady = [100.0, 100.2, 99.8, 100.1, 99.9]
    reason = Reason(code="zero-latency", text="...", level="invalid")
    verdict = Verdict(value="invalid", reasons=(reason,))
    spoiled = _with(_side("b", [5.0, *steady]), verdict=verdict)
    found = compare(_side("a", steady), spoiled).cases[0]
    assert _row(compare(_side("a", steady), spoiled), "iops").candidate == pytest.approx(100.0)
    assert "b: 1 of 6 runs left out" in found.doubts[0]
    assert "zero-latency" in found.doubts[0]


def test_a_run_on_both_sides_is_refused() -> None:
    """It agrees with itself, which is no evidence."""
    base, same = (Side(name, {}, sources=("/runs/r",)) for name in "ab")
    with pytest.raises(ConfigError, match="baseline"):
        compare(base, same)


def test_a_small_but_certain_change_is_neither_worse_nor_the_same() -> None:
    """2 % less, certain, with an interval that reaches beyond 3 %: unknown, and says why."""
    base = _side("a", [100.0, 102.0, 98.0, 101.0, 99.0])
    less = _side("b", [97.4, 99.4, 95.4, 98.4, 96.4])
    row = _row(compare(base, less, Rules(metrics=(parse_metric("iops"),))), "iops")
    assert row.verdict == "unknown"


def test_a_stalled_run_does_not_hide_a_change() -> None:
    """Five runs a side at 2000 and 1900, one of which stalled: still worse."""
    base = _side("a", [1990.0, 1990.0, 1995.0, 1990.0, 1980.0])
    slower = _side("b", [1891.0, 1891.0, 1896.0, 1462.0, 1896.0])
    assert _row(compare(base, slower), "iops").verdict == "worse"

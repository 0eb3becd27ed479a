"""The search against synthetic storage: knees, noise, odd curves, never and always met."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from orchestrator.acceptance import parse_objective
from orchestrator.errors import ConfigError
from orchestrator.report.search import full_length_cases, render_search, search_document
from orchestrator.results import (
    CaseResult,
    DirectionResult,
    LatencyResult,
    Outcome,
    TotalResult,
    Verdict,
)
from orchestrator.search import Finished, Measured, Probe, Settings, measured, next_probe

SLO = parse_objective("read.p99 <= 1ms")
DEPTH = Settings((SLO,))
RATE = Settings((SLO,), axis="rate")
P99 = "read.latency.p99"
CAP = 100_000.0
#: load, full length -> (IOPS, p99 in ns)
Storage = Callable[[float | None, bool], tuple[float | None, float | None]]


def _knee(load: float | None, full: bool) -> tuple[float, float]:
    """100 us at depth 1 up to 100,000 IOPS (depth 10), then queueing; p99 is 4 times the mean."""
    depth = 256.0 if load is None else load
    return min(depth * 10_000, CAP), 4 * max(1e5, depth / CAP * 1e9)


def _open(load: float | None, full: bool) -> tuple[float, float]:
    """A rate: latency grows without bound on the way to 100,000 IOPS, which is never passed."""
    rate = CAP if load is None else min(load, CAP)
    return rate, min(2e5 / max(1e-3, 1 - rate / CAP), 5e8)


def _search(storage: Storage, settings: Settings) -> tuple[Finished, list[Measured]]:
    history: list[Measured] = []
    for _ in range(60):
        step = next_probe(history, settings)
        if isinstance(step, Finished):
            return step, history
        iops, p99 = storage(step.load, step.full)
        history.append(Measured(step.load, step.full, iops, {P99: p99}))
    raise AssertionError("the search doesn't end")


def test_finds_the_knee_by_depth() -> None:
    """1 ms at p99 is reached at depth 25; the most IOPS within it are 100,000, from depth 10 on."""
    finished, history = _search(_knee, DEPTH)
    assert finished.ending == "confirmed"
    assert finished.best is not None
    assert finished.best.full
    assert finished.best.iops == CAP
    assert 10 <= (finished.best.load or 0) <= 25
    assert len(history) <= 12
    assert history[0].load == 256
    assert len(finished.curve) == len(history)


def test_finds_the_most_by_rate() -> None:
    """p99 is 1 ms at 80,000 IOPS: the answer is within the resolution below it."""
    finished, history = _search(_open, RATE)
    assert finished.best is not None
    assert 80_000 / 1.05 <= (finished.best.iops or 0) <= 80_000
    assert history[0].load is None
    assert len(history) <= 14


@pytest.mark.parametrize("settings", [DEPTH, RATE])
def test_always_met(settings: Settings) -> None:
    """An objective that holds without limit is confirmed there, and the answer says so."""
    finished, _ = _search(lambda load, full: (load or CAP, 1e3), settings)
    assert finished.ending == "confirmed"
    assert finished.best is not None
    assert finished.best.load in (None, 256)
    assert any("more may be possible" in note for note in finished.notes)


@pytest.mark.parametrize("settings", [DEPTH, RATE])
def test_never_met(settings: Settings) -> None:
    """An objective that fails even at the lowest load ends with that, not with a number."""
    finished, history = _search(lambda load, full: (load or CAP, 5e6), settings)
    assert (finished.ending, finished.best) == ("never met", None)
    assert len(history) <= 10


@pytest.mark.parametrize("settings", [DEPTH, RATE])
def test_nothing_known(settings: Settings) -> None:
    """When probes give no figures the search ends soon and says that it could not tell."""
    finished, history = _search(lambda load, full: (None, None), settings)
    assert finished.ending == "could not tell"
    assert len(history) == 2


@pytest.mark.parametrize("settings", [DEPTH, RATE])
def test_a_figure_that_is_never_known_is_no_failure(settings: Settings) -> None:
    """IOPS without the percentile (too few I/Os for it): could not tell, not `never met`."""
    finished, _ = _search(lambda load, full: (load or CAP, None), settings)
    assert (finished.ending, finished.best) == ("could not tell", None)
    assert "longer probes (--probe)" in render_search(finished, settings)


def test_noise_never_gives_an_unconfirmed_answer() -> None:
    """With 10 % noise on p99 the answer was always seen within the objective at full length,
    and is within 15 % of the true one in nine of ten searches."""
    draw = np.random.default_rng(1)

    def noisy(load: float | None, full: bool) -> tuple[float, float]:
        iops, p99 = _open(load, full)
        return iops, p99 * float(np.exp(draw.normal(0, 0.02 if full else 0.1)))

    near = 0
    for _ in range(40):
        finished, _ = _search(noisy, RATE)
        if finished.best is not None:
            assert (finished.best.values[P99] or 0) <= 1e6
            assert finished.best.full
            near += 68_000 <= (finished.best.iops or 0) <= 84_000
    assert near >= 36


def test_a_curve_that_is_not_monotonic_is_said() -> None:
    """A hump of latency below the answer doesn't hide it, and is noted."""

    def hump(load: float | None, full: bool) -> tuple[float, float]:
        iops, p99 = _knee(load, full)
        return iops, 2e6 if load in (4.0, 5.0) else p99

    finished, _ = _search(hump, Settings((SLO,), curve_points=12))
    assert finished.best is not None
    assert finished.best.iops == CAP
    assert any("not monotonic" in note for note in finished.notes)


def test_a_failed_confirmation_steps_down() -> None:
    """What only short probes kept is given up for a lower load that a long one keeps."""

    def warm(load: float | None, full: bool) -> tuple[float, float]:
        iops, p99 = _knee(load, full)
        return iops, p99 * (3 if full else 1)

    finished, history = _search(warm, DEPTH)
    assert sum(probe.full for probe in history) >= 2
    if finished.best is not None:
        assert (finished.best.values[P99] or 0) <= 1e6
    else:
        assert finished.ending == "not confirmed"


def test_a_rate_that_is_not_reached_is_no_answer() -> None:
    """Latency may be fine while the storage delivers less than was asked: that load has failed."""
    finished, _ = _search(lambda load, full: (min(load or 9e4, 5e4), 1e5 if load else 5e6), RATE)
    assert finished.best is not None
    assert (finished.best.load or 0) <= 5e4 * 1.016


def test_more_depth_without_more_iops_is_not_better() -> None:
    """Among loads of equal IOPS within the objective the lowest is the answer."""
    finished, _ = _search(lambda load, full: (50_000.0, 1e5 if (load or 0) < 100 else 9e6), DEPTH)
    assert finished.best is not None
    assert finished.best.load == 1


def test_a_search_goes_on_in_the_middle() -> None:
    """Its state is the list of probes: written as JSON and read back, the same probe is next."""
    _, history = _search(_open, RATE)
    for count in range(len(history)):
        kept = msgspec.json.decode(msgspec.json.encode(history[:count]), type=list[Measured])
        step = next_probe(kept, RATE)
        assert isinstance(step, Probe)
        assert (step.load, step.full) == (history[count].load, history[count].full)


def test_the_number_of_probes_is_limited() -> None:
    """A fine resolution ends at the limit, with a note and a confirmed answer."""
    finished, history = _search(
        _open, Settings((SLO,), axis="rate", resolution=1e-6, most_probes=8)
    )
    assert sum(not probe.full for probe in history) == 8
    assert finished.best is not None
    assert any("limit of 8" in note for note in finished.notes)


@pytest.mark.parametrize("outcome", ["done", "failed"])
def test_probe_from_a_case(outcome: Outcome) -> None:
    """Figures come from the merged case; a failed case has none."""
    latency = LatencyResult(
        kind="lat", count=9, min=1, max=9, mean=1.0, stddev=1.0, percentiles={"99": 5}
    )
    read = DirectionResult(ios=1, bytes=1, iops=7.0, bytes_per_s=1.0, latency_ns=latency)
    case = CaseResult(
        case="c",
        outcome=outcome,
        verdict=Verdict(value="valid"),
        expected_workers=1,
        received_workers=1,
        total=TotalResult(read=read),
        workers={},
    )
    found = measured(case, Probe(8, False, "bisect"), DEPTH)
    wanted = (7.0, {P99: 5.0}) if outcome == "done" else (None, {P99: None})
    assert (found.iops, found.values) == wanted
    assert (found.case, found.verdict) == ("c", "valid")


def test_objectives_are_rules_of_the_probe_itself() -> None:
    """`vs baseline` and a case have no place in an objective."""
    assert parse_objective("iops >= 50k").most is False
    for text in ("vs baseline iops >= -5%", "4k: iops >= 1"):
        with pytest.raises(ConfigError, match="of the probe itself"):
            parse_objective(text)


def test_report_shows_the_answer_and_every_probe() -> None:
    """One line for the answer, one for each probe; JSON says the same."""
    finished, history = _search(_open, RATE)
    text = render_search(finished, RATE)
    assert "within read.latency.p99 <= 1.000 ms, confirmed" in text
    assert text.count("short") + text.count("full\n") + text.count("full ") >= len(history)
    assert json.loads(json.dumps(search_document(finished, RATE)))["ending"] == "confirmed"
    doubted = Measured(8, True, 7.0, {P99: 5.0}, "probe-02.full", "unknown")
    answer = Finished("confirmed", doubted, (doubted,))
    assert "confirmed by a full-length run whose verdict is unknown" in render_search(answer, DEPTH)
    assert full_length_cases(answer) == {"probe-02.full"}
    never, _ = _search(lambda load, full: (load or CAP, 5e6), RATE)
    assert render_search(never, RATE).startswith("never met: read.latency.p99")

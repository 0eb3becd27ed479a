"""What stands out in a series is found, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from orchestrator.dips import find_anomalies


def noisy(seconds: int, level: float = 1000, share: float = 0.05, seed: int = 1) -> list[float]:
    """Rates that scatter normally around a level."""
    rng = np.random.default_rng(seed)
    return (level * (1 + share * rng.standard_normal(seconds))).tolist()


@pytest.mark.parametrize("seed", range(20))
def test_plain_noise_has_no_anomaly(seed: int) -> None:
    """An hour of 5 % noise, and one of 15 %, holds nothing worth naming."""
    assert find_anomalies(noisy(3600, seed=seed)) == []
    assert find_anomalies(noisy(3600, share=0.15, seed=seed)) == []


def test_dip_is_named_with_time_and_worker() -> None:
    """Three seconds at 40 % are one dip with its begin, length, worst rate and worker."""
    rates = noisy(300)
    rates[100:103] = [450.0, 400.0, 420.0]
    (found,) = find_anomalies(rates, first_s=10, worker="w7")
    assert (found.kind, found.begin_s, found.end_s, found.worker) == ("dip", 110, 113, "w7")
    assert found.worst == 400
    assert found.usual == pytest.approx(1000, rel=0.02)
    assert str(found).startswith("w7: dip at 110 s for 3 s: 400 where 99")


def test_stall_and_spike_are_told_apart() -> None:
    """Nothing at all is a stall, twice the rate a spike."""
    rates = noisy(300)
    rates[50:54] = [0.0, 0.0, 3.0, 0.0]
    rates[200] = 2000.0
    found = find_anomalies(rates)
    assert [(one.kind, one.begin_s, one.end_s) for one in found] == [
        ("stall", 50, 54),
        ("spike", 200, 201),
    ]


def test_throttling_is_a_level_not_a_long_dip() -> None:
    """A rate that halves and stays there is one event: throttled, from then to the end."""
    (found,) = find_anomalies([*noisy(400), *noisy(200, level=500, seed=2)])
    assert (found.kind, found.end_s) == ("throttled", 600)
    assert found.begin_s == pytest.approx(400, abs=6)
    assert found.usual == pytest.approx(1000, rel=0.03)
    assert found.worst == pytest.approx(500, rel=0.03)


def test_dips_are_found_on_both_sides_of_a_level() -> None:
    """A dip of the throttled part is measured against that part's own median."""
    after = noisy(200, level=500, seed=2)
    after[100:103] = [100.0] * 3
    kinds = [(one.kind, one.worst) for one in find_anomalies([*noisy(400), *after])]
    assert ("dip", 100.0) in kinds
    assert len(kinds) == 2


def test_slow_decline_of_a_tenth_is_left_to_the_steady_rule() -> None:
    """A drift below the level share is no anomaly."""
    assert find_anomalies(np.linspace(1000, 900, 600).tolist()) == []


def test_constant_rate_needs_a_quarter_to_dip() -> None:
    """With a rate limit the scatter is 0: a second 10 % lower is no dip, one 30 % lower is."""
    rates = [1000.0] * 60
    rates[20] = 900.0
    assert find_anomalies(rates) == []
    rates[20] = 700.0
    assert [one.kind for one in find_anomalies(rates)] == ["dip"]


def test_too_short_and_idle_series_say_nothing() -> None:
    """Less than ten seconds, or a median of 0, have no usual level."""
    assert find_anomalies([1000.0, 0.0, 1000.0]) == []
    assert find_anomalies([0.0] * 100) == []

"""Steady state by SNIA's rule, on the summed series; and whether a case goes on for it.

SNIA, Solid State Storage Performance Test Specification (PTS-E 1.1, 2.1.24; PTS 2.0.1): over a
measurement window of five rounds, y is steady when max(y) - min(y) is at most 20 % of its mean
and the excursion of the best linear fit over the window is at most 10 % of the mean. A round is one
value there; here it is the mean rate over a fifth of the window, all workers summed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct

EndedBy = Literal["steady", "cap", "time"]


class SteadyRule(Struct, frozen=True, kw_only=True):
    """What steady means. Shares are of the mean; SNIA's own figures are the defaults."""

    window_s: float = 300.0
    rounds: int = 5
    range_limit: float = 0.20
    excursion_limit: float = 0.10

    def over(self, window_s: float) -> SteadyRule:
        """The same rule over another window."""
        return SteadyRule(
            window_s=window_s,
            rounds=self.rounds,
            range_limit=self.range_limit,
            excursion_limit=self.excursion_limit,
        )


class Steadiness(Struct, frozen=True, kw_only=True):
    """A verdict with its arithmetic. `steady` is None when it can't be told (`reason` says why).

    `values` are the rounds' means; `slope` is that of the fitted line, per round; `excursion` is
    how far it rises or falls from the first to the last round.
    """

    steady: bool | None
    reason: str
    rule: SteadyRule
    window_s: float | None = None
    values: tuple[float, ...] = ()
    mean: float | None = None
    max: float | None = None
    min: float | None = None
    range: float | None = None
    range_share: float | None = None
    slope: float | None = None
    excursion: float | None = None
    excursion_share: float | None = None


def judge_rounds(values: Sequence[float], rule: SteadyRule) -> Steadiness:
    """Apply the rule to the values of `rule.rounds` rounds, in the order of time."""
    if len(values) != rule.rounds or rule.rounds < 2:
        return Steadiness(
            steady=None,
            reason=f"{len(values)} rounds where the rule needs {max(rule.rounds, 2)}",
            rule=rule,
            values=tuple(values),
        )
    mean = math.fsum(values) / len(values)
    if not math.isfinite(mean) or mean <= 0:
        return Steadiness(
            steady=None,
            reason="nothing was done in the window",
            rule=rule,
            values=tuple(values),
        )
    spread = max(values) - min(values)
    slope = _slope(values)
    excursion = abs(slope) * (len(values) - 1)
    failed = []
    if spread > rule.range_limit * mean:
        failed.append(f"range {spread / mean:.1%} of the mean, at most {rule.range_limit:.0%}")
    if excursion > rule.excursion_limit * mean:
        failed.append(
            f"fitted line {'rises' if slope > 0 else 'falls'} {excursion / mean:.1%} of the mean, "
            f"at most {rule.excursion_limit:.0%}"
        )
    return Steadiness(
        steady=not failed,
        reason="; ".join(failed) or "range and fitted line are within their limits",
        rule=rule,
        window_s=rule.window_s,
        values=tuple(values),
        mean=mean,
        max=max(values),
        min=min(values),
        range=spread,
        range_share=spread / mean,
        slope=slope,
        excursion=excursion,
        excursion_share=excursion / mean,
    )


def _slope(values: Sequence[float]) -> float:
    """Least squares slope against 0, 1, 2, ..."""
    middle = (len(values) - 1) / 2
    weights = [index - middle for index in range(len(values))]
    products = (weight * value for weight, value in zip(weights, values, strict=True))
    return math.fsum(products) / math.fsum(weight * weight for weight in weights)


def judge_series(rates: Sequence[float], rule: SteadyRule) -> Steadiness:
    """Apply the rule to the last window of a series with one rate for each second."""
    seconds = int(rule.window_s)
    if seconds < rule.rounds or len(rates) < seconds:
        return Steadiness(
            steady=None,
            reason=f"the series shows {len(rates)} s of all workers; "
            f"{rule.rounds} rounds take at least {max(rule.window_s, rule.rounds):g} s",
            rule=rule,
        )
    last = rates[len(rates) - seconds :]
    edges = [round(seconds * number / rule.rounds) for number in range(rule.rounds + 1)]
    parts = [last[begin:end] for begin, end in pairwise(edges)]
    return judge_rounds([math.fsum(part) / len(part) for part in parts], rule)


def judge_samples(
    samples: Sequence[tuple[float, float]], end: float, rule: SteadyRule
) -> Steadiness:
    """Apply the rule to live samples (instant in s, rate), as polling gives them, over the window
    that ends at `end`. Each round needs a sample."""
    begin, length = end - rule.window_s, rule.window_s / rule.rounds
    rounds: list[list[float]] = [[] for _ in range(rule.rounds)]
    for instant, rate in samples:
        if begin <= instant < end:
            rounds[min(rule.rounds - 1, int((instant - begin) / length))].append(rate)
    if any(not values for values in rounds):
        return Steadiness(
            steady=None,
            reason=f"no sample in {sum(not values for values in rounds)} of {rule.rounds} rounds",
            rule=rule,
        )
    return judge_rounds([math.fsum(values) / len(values) for values in rounds], rule)


class Decision(Struct, frozen=True, kw_only=True):
    """Whether a case (or its warm-up) goes on. `until_s` is when to decide again, in seconds of
    measuring; `ended_by` says what ended it, None while it goes on."""

    go_on: bool
    until_s: float
    ended_by: EndedBy | None
    reason: str


def decide(measured_s: float, latest: Steadiness, rule: SteadyRule, cap_s: float) -> Decision:
    """Decide after a whole window, `measured_s` seconds in: end when steady, otherwise measure
    one window more, as long as it fits under `cap_s`."""
    if latest.steady:
        reason = f"steady after {measured_s:g} s: {latest.reason}"
        return Decision(go_on=False, until_s=measured_s, ended_by="steady", reason=reason)
    if measured_s + rule.window_s > cap_s:
        reason = f"not steady after {measured_s:g} s, the cap is {cap_s:g} s: {latest.reason}"
        return Decision(go_on=False, until_s=measured_s, ended_by="cap", reason=reason)
    return Decision(
        go_on=True,
        until_s=measured_s + rule.window_s,
        ended_by=None,
        reason=f"not steady after {measured_s:g} s: {latest.reason}",
    )


def longest_s(rule: SteadyRule, cap_s: float) -> float:
    """The longest a case with this rule can measure: whole windows under the cap, at least one."""
    return max(1, math.floor(cap_s / rule.window_s)) * rule.window_s

"""Retry: which failures are worth another try, how often, and how long to wait in between."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import tenacity

from orchestrator.errors import HcioError

T = TypeVar("T")


@dataclass(frozen=True)
class Policy:
    """How one kind of work is tried again.

    At most `attempts` tries, none begun once `limit` seconds have passed. The pause before try
    n+1 is random between half and all of `pause * 2**(n-1)` seconds, never above `longest`:
    growing, so that a busy host gets air, and random, so that many callers don't return at once.
    """

    name: str
    attempts: int
    pause: float
    longest: float
    limit: float

    def wait(self, tries: int, chance: float) -> float:
        """Seconds to wait after `tries` tries; `chance` is random in [0, 1)."""
        full = min(self.longest, self.pause * 2.0 ** min(tries - 1, 30))
        return full * (0.5 + chance / 2)


#: A login is dropped without a word when too many are under way (case 35): patient.
CONNECT = Policy("connect", attempts=10, pause=0.25, longest=8.0, limit=120.0)
#: A file that arrived short or changed: something else writes, or the line is bad.
TRANSFER = Policy("transfer", attempts=4, pause=0.2, longest=2.0, limit=60.0)
#: A question to a worker that is harmless to repeat.
READ = Policy("read", attempts=4, pause=0.2, longest=4.0, limit=60.0)


@dataclass(frozen=True)
class Pauses:
    """The world that retrying needs: how to sleep (seconds), a random number in [0, 1), and a
    clock that only goes forward (seconds)."""

    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    ticks: Callable[[], float] = time.monotonic


@dataclass(frozen=True)
class Attempt:
    """A try that failed and will be repeated: what `on_retry` is told."""

    policy: str
    tries: int
    error: BaseException
    pause: float


def worth_another_try(error: BaseException) -> bool:
    """Only our own errors say so of themselves; a refused login or host key never does."""
    return isinstance(error, HcioError) and error.retryable


def retrying(
    policy: Policy,
    work: Callable[[], T],
    *,
    pauses: Pauses | None = None,
    on_retry: Callable[[Attempt], None] | None = None,
    limit: float | None = None,
) -> T:
    """Do `work` until it succeeds, fails for good, or the policy ends; then the last error is
    raised as it came. `limit` (seconds) shortens the policy's own."""
    world = pauses or Pauses()
    began = world.ticks()
    allowed = policy.limit if limit is None else min(limit, policy.limit)

    def over(state: tenacity.RetryCallState) -> bool:
        # The pause counts too: a try that would begin after the limit isn't waited for.
        after = world.ticks() - began + state.upcoming_sleep
        return state.attempt_number >= policy.attempts or after >= allowed

    def told(state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if on_retry is not None and error is not None:
            on_retry(Attempt(policy.name, state.attempt_number, error, state.upcoming_sleep))

    again = tenacity.Retrying(
        stop=over,
        wait=lambda state: policy.wait(state.attempt_number, world.chance()),
        retry=tenacity.retry_if_exception(worth_another_try),
        sleep=world.sleep,
        before_sleep=told,
        reraise=True,
    )
    return again(work)

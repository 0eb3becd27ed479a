"""What is tried again, how often, and with which pauses."""

from __future__ import annotations

import pytest

from orchestrator.errors import (
    AuthenticationFailed,
    CommandFailed,
    ConnectionLost,
    HostKeyRejected,
    HostUnreachable,
    TransferFailed,
)
from orchestrator.retry import CONNECT, READ, TRANSFER, Attempt, Pauses, Policy, retrying

POLICY = Policy("test", attempts=5, pause=1.0, longest=4.0, limit=100.0)


class World:
    """A clock that only sleeping moves."""

    def __init__(self, chance: float = 1.0) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self._chance = chance

    def pauses(self) -> Pauses:
        """What retrying is given."""
        return Pauses(self.sleep, lambda: self._chance, lambda: self.now)

    def sleep(self, seconds: float) -> None:
        """Pass the time."""
        self.slept.append(seconds)
        self.now += seconds


class Work:
    """Raises its errors one by one, then gives 42."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.tries = 0

    def __call__(self) -> int:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        return 42


def unreachable() -> HostUnreachable:
    """An error worth another try."""
    return HostUnreachable("w1", "greeting", "dropped")


def test_pauses_grow_up_to_a_cap() -> None:
    """Each pause is about twice the one before, never above the longest."""
    world, work = World(), Work(*(unreachable() for _ in range(4)))
    told: list[Attempt] = []
    assert retrying(POLICY, work, pauses=world.pauses(), on_retry=told.append) == 42
    assert world.slept == [1.0, 2.0, 4.0, 4.0]
    assert [(attempt.policy, attempt.tries) for attempt in told] == [
        ("test", number) for number in (1, 2, 3, 4)
    ]


def test_pauses_are_random_in_their_upper_half() -> None:
    """Many callers dropped at once don't come back at once."""
    for chance, first in ((0.0, 0.5), (0.5, 0.75)):
        world = World(chance)
        retrying(POLICY, Work(unreachable()), pauses=world.pauses())
        assert world.slept == [first]


def test_the_last_error_is_raised_as_it_came() -> None:
    """After the last try the caller sees our own error, not a wrapper's."""
    errors = [unreachable() for _ in range(9)]
    work = Work(*errors)
    with pytest.raises(HostUnreachable) as caught:
        retrying(POLICY, work, pauses=World().pauses())
    assert caught.value is errors[4]
    assert work.tries == 5


def test_no_try_begins_after_the_limit() -> None:
    """The time allowed ends the tries, and a pause that would pass it isn't slept."""
    world, work = World(), Work(*(unreachable() for _ in range(9)))
    with pytest.raises(HostUnreachable):
        retrying(POLICY, work, pauses=world.pauses(), limit=4.0)
    assert world.slept == [1.0, 2.0]
    assert work.tries == 3


@pytest.mark.parametrize(
    "error",
    [
        AuthenticationFailed("w1", "login", "refused"),
        HostKeyRejected("w1", "host key", "changed"),
        CommandFailed("no", None),
        ValueError("a bug"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_cant_help_is_never_repeated(error: Exception) -> None:
    """Refused logins, host keys, a command's no and bugs are raised at once."""
    work = Work(error)
    with pytest.raises(type(error)):
        retrying(POLICY, work, pauses=World().pauses())
    assert work.tries == 1


@pytest.mark.parametrize("kind", [HostUnreachable, ConnectionLost, TransferFailed])
def test_what_may_pass_is_repeated(
    kind: type[HostUnreachable | ConnectionLost | TransferFailed],
) -> None:
    """Lost connections, dropped greetings and bad copies get another try."""
    assert retrying(POLICY, Work(kind("w1", "s", "no")), pauses=World().pauses()) == 42


def test_named_policies_end() -> None:
    """Each policy has a bound on tries and on time."""
    for policy in (CONNECT, TRANSFER, READ):
        assert 1 < policy.attempts <= 10
        assert policy.limit <= 120

"""The fake fails on anything that wasn't scripted, and the retrying wrapper over it."""

from __future__ import annotations

import pytest

from orchestrator.errors import (
    AuthenticationFailed,
    ConnectionLost,
    HostUnreachable,
    TransferFailed,
)
from orchestrator.retry import Pauses, Policy
from orchestrator.transport.base import Command
from orchestrator.transport.fake import FakeTransport, NotScripted, Reply
from orchestrator.transport.retrying import Policies, RetryingTransport

T = 20.0
DATE = Command.of("clock", "date")
LOST = Reply(error=ConnectionLost("w1", "clock", "gone"))


def test_an_unknown_command_is_refused() -> None:
    """Nothing is answered that the script doesn't know, and the record still has it."""
    fake = FakeTransport("w1")
    with pytest.raises(NotScripted, match="date"):
        fake.run(DATE, timeout=T)
    with pytest.raises(NotScripted, match="date"):
        fake.exchange(DATE, [b""], timeout=T)
    assert [call.verb for call in fake.calls] == ["run", "exchange"]


def test_expectations_are_used_up_in_order() -> None:
    """Each answers once unless told otherwise; then the command is unknown again."""
    fake = FakeTransport("w1")
    fake.expect("^date$", Reply(stdout=b"1"))
    fake.expect("^date$", Reply(stdout=b"2"))
    assert [fake.run(DATE, timeout=T).stdout for _ in range(2)] == [b"1", b"2"]
    with pytest.raises(NotScripted):
        fake.run(DATE, timeout=T)


def test_an_unused_expectation_fails_verification() -> None:
    """What was expected and didn't happen is an error that names it."""
    fake = FakeTransport("w1")
    fake.expect("^date$", Reply())
    fake.expect("^uptime$", Reply(), times=None)
    fake.expect_exchange("cat", lambda line: line)
    fake.run(DATE, timeout=T)
    with pytest.raises(NotScripted, match=r"'\^uptime\$'.*exchange 'cat'"):
        fake.verify()


def test_a_handler_answers_what_it_knows() -> None:
    """A function from command to reply is a script too; None means unknown."""
    fake = FakeTransport(
        "w1", handler=lambda command, _stdin: Reply() if command.parts[0] == "date" else None
    )
    assert fake.run(DATE, timeout=T).status == 0
    with pytest.raises(NotScripted):
        fake.run(Command.of("other", "other"), timeout=T)
    fake.verify()


def test_files_and_modes_are_recorded() -> None:
    """put is seen with its content and mode; get gives what is there."""
    fake = FakeTransport("w1", files={"/a": b"1"})
    fake.put(b"2", "/b", timeout=T, mode=0o755)
    assert fake.files == {"/a": b"1", "/b": b"2"}
    assert fake.get("/a", timeout=T) == b"1"
    assert (fake.calls[0].what, fake.calls[0].mode) == ("/b", 0o755)


def test_a_lost_connection_stays_lost() -> None:
    """After lose() no verb works."""
    fake = FakeTransport("w1", files={"/a": b""})
    fake.lose()
    for verb in (
        lambda: fake.get("/a", timeout=T),
        lambda: fake.run(DATE, timeout=T),
        lambda: fake.exchange(DATE, [], timeout=T),
    ):
        with pytest.raises(ConnectionLost):
            verb()


# The retrying wrapper, over fakes


class Line:
    """Connects to one fake after another, or raises what stands in its place."""

    def __init__(self, *ends: FakeTransport | Exception) -> None:
        self.ends = list(ends)
        self.connects = 0

    def __call__(self) -> FakeTransport:
        self.connects += 1
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end


def wrapped(line: Line) -> RetryingTransport:
    """A wrapper that doesn't really sleep."""
    quick = Policy("quick", attempts=3, pause=1.0, longest=1.0, limit=60.0)
    return RetryingTransport(
        "w1",
        line,
        policies=Policies(quick, quick, quick),
        pauses=Pauses(sleep=lambda _seconds: None, chance=lambda: 0.0),
    )


def answering(*replies: Reply) -> FakeTransport:
    """A fake that gives these replies to `date`."""
    fake = FakeTransport("w1")
    for reply in replies:
        fake.expect("^date$", reply)
    return fake


def test_a_measured_command_never_runs_twice() -> None:
    """Not marked repeatable: the loss is raised, and nothing was sent again."""
    first, second = answering(LOST), answering()
    line = Line(first, second)
    with pytest.raises(ConnectionLost):
        wrapped(line).run(DATE, timeout=T)
    assert line.connects == 1
    assert second.calls == []


def test_a_repeatable_command_runs_on_a_new_connection() -> None:
    """Marked repeatable: another connection, the same command."""
    line = Line(answering(LOST), answering(Reply(stdout=b"now")))
    repeatable = Command.of("clock", "date", repeatable=True)
    assert wrapped(line).run(repeatable, timeout=T).stdout == b"now"


def test_a_bad_copy_is_made_again() -> None:
    """A transfer that arrived changed is repeated on the same connection."""

    class Flaky(FakeTransport):
        """Its first put arrives short."""

        def put(self, content: bytes, path: str, *, timeout: float, mode: int = 0o600) -> None:
            first = not self.calls
            super().put(content, path, timeout=timeout, mode=mode)
            if first:
                raise TransferFailed("w1", "put", "short")

    fake = Flaky("w1")
    line = Line(fake)
    wrapped(line).put(b"x", "/f", timeout=T)
    assert (len(fake.calls), line.connects) == (2, 1)


def test_connecting_is_tried_again_but_not_multiplied() -> None:
    """The connect policy's tries are all there are, whatever the verb's own policy allows."""
    line = Line(*(HostUnreachable("w1", "connect", "no") for _ in range(9)))
    with pytest.raises(HostUnreachable):
        wrapped(line).get("/f", timeout=T)
    assert line.connects == 3


def test_a_refused_login_is_not_tried_again() -> None:
    """One refusal ends it, under every verb."""
    line = Line(AuthenticationFailed("w1", "login", "no"), FakeTransport("w1"))
    with pytest.raises(AuthenticationFailed):
        wrapped(line).get("/f", timeout=T)
    assert line.connects == 1


def test_a_closed_wrapper_connects_no_more() -> None:
    """close is final."""
    line = Line(FakeTransport("w1"))
    session = wrapped(line)
    session.close()
    with pytest.raises(ConnectionLost, match="closed"):
        session.get("/f", timeout=T)
    assert line.connects == 0

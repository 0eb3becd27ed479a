"""Many hosts at once: every result, every error, and nobody waits for the slowest."""

from __future__ import annotations

import threading

import pytest

from orchestrator.errors import CommandTimedOut, HostsError, HostUnreachable
from orchestrator.transport.fanout import as_they_come, gather


def test_results_and_errors_are_kept_by_host() -> None:
    """One failing host costs no other its result; require raises with both sides."""

    def work(number: int) -> int:
        if number == 2:
            raise HostUnreachable("w2", "connect", "no")
        return number * 10

    gathered = gather("stage", {f"w{n}": n for n in range(5)}, work, timeout=20)
    assert gathered.results == {"w0": 0, "w1": 10, "w3": 30, "w4": 40}
    with pytest.raises(HostsError, match="stage: 1 of 5 hosts failed") as caught:
        gathered.require()
    assert set(caught.value.errors) == {"w2"}
    assert caught.value.results == gathered.results


def test_all_good_is_returned_in_one_piece() -> None:
    """require gives the results when nothing failed, None among them."""
    gathered = gather("stop", {"a": 1, "b": 2}, lambda _number: None, timeout=20)
    assert gathered.require() == {"a": None, "b": None}


def test_no_hosts_is_no_work() -> None:
    """An empty list ends at once."""
    assert gather("none", {}, lambda number: number, timeout=20).require() == {}


def test_a_slow_host_holds_up_nobody() -> None:
    """The others' answers come while the slow one is still at it."""
    release = threading.Event()
    seen: list[str] = []

    def work(host: str) -> str:
        if host == "slow":
            assert release.wait(20)
        return host

    hosts = {name: name for name in ("slow", "a", "b", "c")}
    for answer in as_they_come("step", hosts, work, timeout=20, concurrency=2):
        seen.append(answer.host)
        if len(seen) == 3:
            release.set()
    assert sorted(seen[:3]) == ["a", "b", "c"]
    assert seen[3] == "slow"


def test_deadline_answers_for_who_is_missing() -> None:
    """After the deadline each missing host has an error of its own, and a result that comes
    later goes to be cleaned up."""
    release, cleaned = threading.Event(), threading.Event()
    late: list[str] = []

    def work(host: str) -> str:
        if host != "quick":
            release.wait(20)
        return host

    def clean(result: str) -> None:
        late.append(result)
        cleaned.set()

    hosts = {name: name for name in ("quick", "stuck", "waiting")}
    gathered = gather("connect", hosts, work, timeout=0.3, concurrency=1, too_late=clean)
    assert gathered.results == {"quick": "quick"}
    assert all(isinstance(error, CommandTimedOut) for error in gathered.errors.values())
    assert "took too long" in str(gathered.errors["stuck"])
    assert "turn had not come" in str(gathered.errors["waiting"])
    release.set()
    assert cleaned.wait(20)
    assert late == ["stuck"]


def test_concurrency_is_bounded() -> None:
    """Never more at once than allowed, and that many when there is work."""
    lock = threading.Lock()
    together = threading.Barrier(3)
    state = {"now": 0, "most": 0}

    def work(_number: int) -> None:
        with lock:
            state["now"] += 1
            state["most"] = max(state["most"], state["now"])
        together.wait(20)
        with lock:
            state["now"] -= 1

    gather("step", {str(n): n for n in range(9)}, work, timeout=60, concurrency=3).require()
    assert state["most"] == 3

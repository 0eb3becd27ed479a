"""Fan-out: the same work on many hosts at once, with every result and every error kept."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from orchestrator.errors import CommandTimedOut, HostsError
from orchestrator.transport.deadline import Deadline

H = TypeVar("H")
R = TypeVar("R")

#: How many hosts are worked on at once. More threads than this gain nothing on a small
#: controller, where most of the time goes into the key exchange.
CONCURRENCY = 32


@dataclass(frozen=True)
class Answer(Generic[R]):
    """What one host gave: a result, or the error it ended with."""

    host: str
    result: R | None = None
    error: Exception | None = None


@dataclass(frozen=True)
class Gathered(Generic[R]):
    """What many hosts gave, by host: each is in exactly one of the two."""

    step: str
    results: dict[str, R] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)

    def require(self, *, next_step: str = "") -> dict[str, R]:
        """The results when no host failed; else HostsError with both sides in it."""
        if self.errors:
            raise HostsError(self.step, self.errors, self.results, next_step=next_step)
        return self.results


def gather(
    step: str,
    hosts: Mapping[str, H],
    work: Callable[[H], R],
    *,
    timeout: float,
    concurrency: int = CONCURRENCY,
    too_late: Callable[[R], None] | None = None,
) -> Gathered[R]:
    """Do `work` on every host, at most `concurrency` at once, for `timeout` seconds in all.

    Arguments and results are as for `as_they_come`; this one waits for all of them.
    """
    gathered: Gathered[R] = Gathered(step)
    for answer in as_they_come(
        step, hosts, work, timeout=timeout, concurrency=concurrency, too_late=too_late
    ):
        if answer.error is not None:
            gathered.errors[answer.host] = answer.error
        else:
            # None is a result too: work that only acts gives it.
            gathered.results[answer.host] = answer.result  # type: ignore[assignment]
    return gathered


def as_they_come(
    step: str,
    hosts: Mapping[str, H],
    work: Callable[[H], R],
    *,
    timeout: float,
    concurrency: int = CONCURRENCY,
    too_late: Callable[[R], None] | None = None,
) -> Iterator[Answer[R]]:
    """Do `work` on every host and give each answer at once, the quickest first.

    `hosts` maps a name to what `work` takes (settings, a transport). When `timeout` seconds have
    passed, every host still out is answered for with CommandTimedOut; its thread ends by the
    deadline of the verb it is in, and a result that comes after all goes to `too_late` (to close
    what was opened). Leaving the loop early starts no more hosts.
    """
    pool: _Pool[H, R] = _Pool(hosts, work, too_late)
    deadline = Deadline(timeout)
    missing = dict.fromkeys(hosts)
    pool.start(min(concurrency, len(hosts)))
    try:
        while missing:
            answer = pool.next(deadline.left())
            if answer is None:
                break
            del missing[answer.host]
            yield answer
    finally:
        late = pool.stop()
    for answer in late:
        del missing[answer.host]
        yield answer
    for host in missing:
        yield Answer(host, error=_not_done(host, step, timeout, begun=host in pool.begun))


def _not_done(host: str, step: str, timeout: float, *, begun: bool) -> CommandTimedOut:
    return CommandTimedOut(
        host,
        step,
        f"not done {timeout:g} s after the step began on all hosts",
        means="this host took too long" if begun else "its turn had not come yet",
        next_step="raise the step's time, or the number of hosts worked on at once",
    )


class _Pool(Generic[H, R]):
    """Threads over a list of hosts. They are daemons: a stuck one never keeps hcio from ending."""

    def __init__(
        self,
        hosts: Mapping[str, H],
        work: Callable[[H], R],
        too_late: Callable[[R], None] | None,
    ) -> None:
        self._todo = iter(list(hosts.items()))
        self._work = work
        self._too_late = too_late
        self._answers: queue.SimpleQueue[Answer[R]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._over = False
        self.begun: set[str] = set()

    def start(self, threads: int) -> None:
        for number in range(threads):
            threading.Thread(target=self._loop, name=f"fanout-{number}", daemon=True).start()

    def next(self, timeout: float) -> Answer[R] | None:
        """The next answer; None when none came in `timeout` seconds."""
        try:
            return self._answers.get(timeout=timeout)
        except queue.Empty:
            return None

    def stop(self) -> list[Answer[R]]:
        """Begin nothing more; give what arrived meanwhile."""
        with self._lock:
            self._over = True
        answers: list[Answer[R]] = []
        while not self._answers.empty():
            answers.append(self._answers.get())
        return answers

    def _take(self) -> tuple[str, H] | None:
        with self._lock:
            taken = None if self._over else next(self._todo, None)
            if taken is not None:
                self.begun.add(taken[0])
            return taken

    def _loop(self) -> None:
        while (taken := self._take()) is not None:
            host, subject = taken
            try:
                result = self._work(subject)
            except Exception as error:  # noqa: BLE001 - kept and given to the caller by host
                self._deliver(Answer(host, error=error))
            else:
                self._deliver(Answer(host, result=result))

    def _deliver(self, answer: Answer[R]) -> None:
        with self._lock:
            if not self._over:
                self._answers.put(answer)
                return
        if self._too_late is not None and answer.error is None:
            self._too_late(answer.result)  # type: ignore[arg-type]

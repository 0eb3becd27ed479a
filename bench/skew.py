"""P3: how far apart workers start, against plain shells told to wake at the same instant.

All workers are on this machine (its clock is theirs), so a start's distance from T0 is exact, the
error of the offset that was measured for it included. It is taken at the instant before fio is
executed, as the worker's program records it. Workers stand behind sshd (an ordinary user), and once
more as processes of this user, who may be root and so may use the real-time policy.
"""

from __future__ import annotations

import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

from orchestrator.clocks import ClockReading
from orchestrator.transport.base import Transport
from orchestrator.transport.local import LocalTransport
from orchestrator.transport.ssh import SshSettings, open_ssh
from orchestrator.worker.session import WorkerSession
from orchestrator.worker.states import ArmReply
from orchestrator.worker.stream import StagedCase
from tests.sshd import Sshd, program

CASE = "skew"
JOB = b"[skew]\nioengine=null\nrw=randread\nsize=1m\nnumber_ios=1\n"
AT_ONCE = 16
#: Plain shells: what is left is measured by each one, then one sleep, then the instant is taken.
PLAIN = (
    "now=$(date +%s%N); left=$(({t0} - now)); s=$(printf '%d.%09d' $((left / 1000000000)) "
    "$((left % 1000000000))); sleep $s; date +%s%N"
)


@dataclass(frozen=True)
class Spread:
    """Distances from T0 in milliseconds."""

    late_ms: tuple[float, ...]

    @property
    def p99(self) -> float:
        """99th percentile of the distance from the earliest start (nearest rank)."""
        ordered = sorted(late - min(self.late_ms) for late in self.late_ms)
        return ordered[math.ceil(0.99 * len(ordered)) - 1]

    @property
    def median_late(self) -> float:
        """Median lateness."""
        return sorted(self.late_ms)[len(self.late_ms) // 2]

    def __str__(self) -> str:
        whole = max(self.late_ms) - min(self.late_ms)
        return (
            f"p99 {self.p99:.2f} ms, last minus first {whole:.2f} ms, "
            f"median lateness {self.median_late:.2f} ms"
        )


def hcio_starts(transports: Sequence[Transport], base: str, lead_s: float) -> Spread:
    """Start one case on every transport's worker at one instant, offsets measured before."""
    workers = [
        WorkerSession(transport, f"skew{index}", base=base)
        for index, transport in enumerate(transports)
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda w: w.stage([StagedCase(CASE, JOB)], check=False), workers))
        clocks = list(pool.map(lambda w: w.measure_clock(), workers))
        t0 = time.time() + lead_s

        def arm(pair: tuple[WorkerSession, ClockReading]) -> ArmReply:
            worker, clock = pair
            return worker.arm(CASE, t0=clock.to_worker(t0), deadline_s=60, attempt=1)

        replies = list(pool.map(arm, zip(workers, clocks, strict=True)))
        late = [reply for reply in replies if not reply.armed]
        if late:
            raise SystemExit(f"{len(late)} workers were not armed in {lead_s} s: {late[0].answer}")
        time.sleep(max(0.0, t0 + 2.0 - time.time()))  # looking is work as well: not at T0
        starts = list(pool.map(_started, workers))
        list(pool.map(lambda w: w.clean(), workers))
    return Spread(tuple((start - t0) * 1000 for start in starts))


def _started(worker: WorkerSession) -> float:
    for _ in range(600):
        state = worker.poll([CASE])[CASE]
        if state.ending is not None:
            if state.ending.started is None:
                raise SystemExit(f"{worker.host} did not start: {state.ending}")
            return state.ending.started
        time.sleep(0.2)
    raise SystemExit(f"{worker.host}: fio did not end: {state}")


def plain_starts(count: int, lead_s: float) -> Spread:
    """The same number of shells that sleep until the instant and take the time."""
    t0 = time.time_ns() + int(lead_s * 1e9)
    script = PLAIN.replace("{t0}", str(t0))
    shells = [
        subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    woke = [int(shell.communicate()[0]) for shell in shells]
    return Spread(tuple((at - t0) / 1e6 for at in woke))


def run(report: Callable[[str], None], *, rounds: int = 5) -> dict[str, float]:
    """Print and return the figures: p99 over `rounds` rounds at 16, the ratio at 128."""
    figures: dict[str, float] = {}
    plain = [plain_starts(128, 5.0) for _ in range(3)]
    for spread in plain:
        report(f"128 plain shells: {spread}")
    figures["plain_p99_ms_at_128"] = sorted(each.p99 for each in plain)[1]
    if program() is not None:
        with Sshd() as server, ExitStack() as stack:
            many = [_opened(stack, server, number) for number in range(128)]
            _measure(report, "sshd", many, str(server.work / "hcio"), rounds, figures)
    with tempfile.TemporaryDirectory(prefix="hcio-skew-") as base:
        own: list[Transport] = [LocalTransport(f"w{index}") for index in range(128)]
        _measure(report, f"own user (uid {os.getuid()})", own, base, rounds, figures)
    return figures


def _opened(stack: ExitStack, server: Sshd, number: int) -> Transport:
    settings = SshSettings(
        host=f"127.0.2.{number + 1}",
        port=server.port,
        user=server.user,
        key=server.key,
        agent=False,
        known_hosts=server.known_hosts,
    )
    return stack.enter_context(open_ssh(f"w{number}", settings))


def _measure(
    report: Callable[[str], None],
    how: str,
    transports: Sequence[Transport],
    base: str,
    rounds: int,
    figures: dict[str, float],
) -> None:
    at_16 = [hcio_starts(transports[:16], base, 4.0) for _ in range(rounds)]
    worst = max(each.p99 for each in at_16)
    pooled = Spread(tuple(late for each in at_16 for late in each.late_ms))
    report(f"16 workers, {how}, {rounds} rounds pooled: {pooled}")
    report(f"16 workers, {how}, worst round: p99 {worst:.2f} ms (goal < 10 ms)")
    ours = [hcio_starts(transports, base, 15.0) for _ in range(3)]
    for spread in ours:
        report(f"128 workers, {how}: {spread}")
    median = sorted(each.p99 for each in ours)[1]
    ratio = median / figures["plain_p99_ms_at_128"]
    report(f"128 workers, {how}: {ratio:.2f}x plain shells (goal <= 1.5x)")
    figures[f"{how}: p99_ms_at_16"] = worst
    figures[f"{how}: ratio_at_128"] = ratio


if __name__ == "__main__":
    run(print)

"""What is known of a case while it runs: last states, who did I/O, who is silent, the live rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from orchestrator.engine import Answers
from orchestrator.errors import HcioError
from orchestrator.worker.states import CaseState


@dataclass
class Watch:
    """What is known of a case while it runs: last states, who did I/O, who does not answer."""

    states: dict[str, CaseState] = field(default_factory=dict)
    doing_io: set[str] = field(default_factory=set)
    silent: dict[str, HcioError] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    first_bytes: dict[str, int] = field(default_factory=dict)
    #: (instant, IOPS of all workers) of every look that had a figure from each of them
    rates: list[tuple[float, float]] = field(default_factory=list)

    def take(self, answers: Answers[CaseState]) -> None:
        """Note one round of answers."""
        self.silent = dict(answers.errors)
        for name, state in answers.results.items():
            self.states[name] = state
            if state.state == "done" or _io_seen(state, self.first_bytes):
                self.doing_io.add(name)

    def note_rate(self, now: float, names: Sequence[str]) -> None:
        """Add a sample of the cluster's rate, if all of them gave theirs."""
        etas = [s.eta for name in names if (s := self.states.get(name)) and s.state == "running"]
        figures = [eta.total_iops for eta in etas if eta is not None]
        known = [figure for figure in figures if figure is not None]
        if known and len(known) == len(names):
            self.rates.append((now, sum(known)))

    def over(self, name: str) -> bool:
        """Whether nothing more is to come from a worker."""
        state = self.states.get(name)
        return state is not None and state.state not in ("armed", "running")


def _io_seen(state: CaseState, first_bytes: dict[str, int]) -> bool:
    """Whether a running case does I/O: fio says so, or the kernel counts it (fio says nothing
    during the ramp)."""
    if state.eta is not None and (state.eta.total_iops or 0) > 0:
        return True
    if state.io_bytes is None:
        return False
    first = first_bytes.setdefault(state.case + str(state.began), state.io_bytes)
    return state.io_bytes > first

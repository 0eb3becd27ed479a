"""Runs hcio and kills it with SIGKILL right after the Nth event of its journal (for tests).

python crash_driver.py N SUITE INVENTORY [FIELD=VALUE...]
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from orchestrator.catalog import dump_yaml
from orchestrator.cli.conducting import conduct
from orchestrator.cli.run import make_plan
from orchestrator.store import Event, RunStore
from orchestrator.turn import Mode


def main() -> int:
    """Conduct the suite until the event comes."""
    number, suite, inventory, *changes = sys.argv[1:]
    left = int(number)

    def kill_after(event: Event) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    plan = make_plan(suite, Path(inventory), False, (), None, changes, (), None)
    store = RunStore(Path(os.environ["HCIO_RUNS"]))
    folder = store.create(plan.run, dump_yaml(plan.model_dump(mode="json")), observe=kill_after)
    return conduct(plan, folder, Mode(keep=True), poll=0.3, forks=8, as_json=True)


if __name__ == "__main__":
    sys.exit(main())

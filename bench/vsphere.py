"""P-vSphere: seconds and calls to deploy and to destroy workers on the vCenter simulator.

The simulator does its tasks at once, so the seconds are hcio's own and the simulator's; a real
vCenter's are its clones'. What carries over is the number of calls a worker, which must not grow.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orchestrator.cluster import Cluster
from orchestrator.vsphere.deploy import Tools, deploy, destroy
from orchestrator.vsphere.state import open_state
from orchestrator.vsphere.vcenter import VCenter
from tests.vsphere.simulator import Vcsim

SIZES = (8, 64, 256)


@dataclass(frozen=True)
class Figures:
    """What one size took; `again` is the calls of a deploy that finds everything as it is."""

    workers: int
    deploy_s: float
    deploy_calls: int
    again_s: float
    again_calls: int
    destroy_s: float
    destroy_calls: int
    tasks: int


def section(count: int) -> Cluster:
    """So many workers with eight disks each, a policy, on four hosts and two datastores."""
    return Cluster.model_validate(
        {
            "deployment": "bench",
            "vcenter": {"host": "127.0.0.1", "user": "u", "password": "env:VC"},
            "datacenter": "DC0",
            "cluster": "DC0_C0",
            "networks": ["VM Network"],
            "datastores": ["LocalDS_0", "LocalDS_1"],
            "storage_policy": "raid1-ftt1",
            "workers": {
                "source": {"template": "ubuntu-24.04"},
                "count": count,
                "disks": {"count": 8, "size": "1GiB"},
                "addresses": {"addresses": ["127.0.10.1-127.0.12.250"], "prefix": 16},
            },
        }
    )


def measure(count: int) -> Figures:
    """Deploy, deploy again, destroy; on a fresh simulator."""
    vcsim = Vcsim.start("-vsan=osa")
    client = VCenter(vcsim.login())
    try:
        with tempfile.TemporaryDirectory() as folder:
            state = open_state(Path(folder) / "bench", "bench")
            wanted, tools = section(count), Tools(client)
            vcsim.calls()
            marks: list[tuple[float, list[str]]] = []
            for step in (
                lambda: deploy(tools, wanted, state, force=True),
                lambda: deploy(tools, wanted, state, force=True),
                lambda: destroy(tools, wanted, state.id),
            ):
                start = time.perf_counter()
                step()
                marks.append((time.perf_counter() - start, vcsim.calls()))
    finally:
        client.close()
        vcsim.stop()
    (made, first), (kept, second), (gone, third) = marks
    tasks = sum(n for name, n in Counter(first).items() if name.endswith("_Task"))
    return Figures(count, made, len(first), kept, len(second), gone, len(third), tasks)


def run(report: Callable[[str], None]) -> None:
    """Measure and report, line by line."""
    found = [measure(count) for count in SIZES]
    for item in found:
        report(
            f"vSphere, {item.workers} workers on the simulator: deploy {item.deploy_s:.1f} s, "
            f"{item.deploy_calls} calls ({item.tasks} tasks); again {item.again_s:.1f} s, "
            f"{item.again_calls} calls; destroy {item.destroy_s:.1f} s, {item.destroy_calls} calls"
        )
    few, many = found[0], found[-1]
    span = many.workers - few.workers
    report(
        f"vSphere, calls for one more worker from {few.workers} to {many.workers}: "
        f"deploy {(many.deploy_calls - few.deploy_calls) / span:.2f}, "
        f"again {(many.again_calls - few.again_calls) / span:.2f}, "
        f"destroy {(many.destroy_calls - few.destroy_calls) / span:.2f}"
    )


if __name__ == "__main__":
    run(print)

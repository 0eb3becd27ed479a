"""One tiny worker on every host, reached by SSH and removed: what proves every host's network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from orchestrator.cluster import Cluster, Disks, PerHost, Pool
from orchestrator.errors import DeploymentFailed, HcioError
from orchestrator.preflight import Finding, green, red
from orchestrator.vsphere.deploy import Tools, deploy, destroy
from orchestrator.vsphere.state import DeploymentState

#: Beside a deployment's own name: the probe's.
SUFFIX: Final = "-probe"
#: Small, but enough for a cloud image to start.
PROBE_MEMORY: Final = 2**30
PROBE_DISK: Final = 2**30


def probe_cluster(cluster: Cluster, taken: frozenset[str] = frozenset()) -> Cluster:
    """The inventory's section for the probe: one tiny worker a host, nothing installed.

    `taken` are addresses of a pool that the deployment's own workers have: they are left alone.
    """
    shape = cluster.workers.model_copy(
        update={
            "count": PerHost(per_host=1),
            "at_least": 1,
            "cpus": 1,
            "memory": PROBE_MEMORY,
            "disks": Disks(count=1, size=PROBE_DISK, controller=cluster.workers.disks.controller),
            "fio": "image",
            "addresses": _free(cluster.workers.addresses, taken),
            "anti_affinity": False,
            "pin_hosts": True,
        }
    )
    return cluster.model_copy(
        update={"deployment": cluster.deployment[:42] + SUFFIX, "workers": shape}
    )


def _free(addresses: Literal["dhcp"] | Pool, taken: frozenset[str]) -> Literal["dhcp"] | Pool:
    if not isinstance(addresses, Pool):
        return "dhcp"
    free = tuple(address for address in addresses.all() if address not in taken)
    return addresses.model_copy(update={"addresses": free})


def check_every_host(
    tools: Tools,
    cluster: Cluster,
    state: DeploymentState,
    taken: frozenset[str] = frozenset(),
) -> Finding:
    """Deploy a probe on every host, reach it by SSH (`tools.ready`), and remove them all.

    `state` is a folder of the probe's own; it is removed when nothing is left in vCenter.
    """
    probe = probe_cluster(cluster, taken)
    errors: Mapping[str, Exception] = {}
    reached = 0
    try:
        deployment = deploy(tools, probe, state)
        errors, reached = deployment.errors, len(deployment.workers)
    except DeploymentFailed as error:
        errors = error.errors
    except HcioError as error:
        errors = {probe.deployment: error}
    left = _remove(tools, probe, state)
    return _judge(errors, reached, left)


def _remove(tools: Tools, probe: Cluster, state: DeploymentState) -> str:
    try:
        destroy(tools, probe, state.id)
    except HcioError as error:
        return error.what
    state.remove()
    return ""


def _judge(errors: Mapping[str, Exception], reached: int, left: str) -> Finding:
    if errors:
        told = "; ".join(
            f"{name}: {error.what if isinstance(error, HcioError) else error}"
            for name, error in errors.items()
        )
        text = f"{reached} probes reached, not: {told}" + (f"; left behind: {left}" if left else "")
        return red(text, "see the VLAN on that host's uplink, DHCP or the pool, and the image")
    if left:
        return red(
            f"{reached} probes reached, but not all could be removed: {left}",
            "run hcio check --deep again: it removes what it made before",
        )
    return green(f"{reached} probes, one a host, were reached by SSH and removed")

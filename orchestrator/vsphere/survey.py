"""What there is before a deploy: the place, its marked VMs, the image and the policy."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.cluster import Cluster, Template
from orchestrator.errors import (
    ConfigError,
    NotFoundInVCenter,
)
from orchestrator.problems import nearest
from orchestrator.vsphere.base import (
    IMAGE,
    Machine,
    Site,
    VSphere,
)
from orchestrator.vsphere.layout import (
    Ground,
    Source,
    source_identity,
)


def survey(vsphere: VSphere, cluster: Cluster, deployment: str) -> Ground:
    """Look at what there is; nothing is changed. NotFoundInVCenter for what isn't there."""
    site = vsphere.site(
        cluster.datacenter, cluster.cluster, pool=cluster.resource_pool, folder=cluster.folder
    )
    policy = _policy(vsphere, cluster.storage_policy)
    machines = vsphere.machines(site, policies=policy is not None)
    return Ground(
        site=site,
        machines=machines,
        names=vsphere.names(site, site.folder),
        source=_source(vsphere, cluster, site, machines, deployment),
        policy=policy,
    )


def _policy(vsphere: VSphere, name: str | None) -> str | None:
    if name is None:
        return None
    policies = vsphere.policies()
    if name not in policies:
        close = nearest(name, policies)
        hint = f"; did you mean {close!r}?" if close else ""
        raise NotFoundInVCenter(
            vsphere.host,
            "finding the storage policy",
            f"no storage policy {name!r}{hint}",
            next_step=f"there are: {', '.join(sorted(policies))}",
        )
    return policies[name]


def _source(
    vsphere: VSphere,
    cluster: Cluster,
    site: Site,
    machines: Sequence[Machine],
    deployment: str,
) -> Source:
    source = cluster.workers.source
    if not isinstance(source, Template):
        image = source_identity(cluster.workers, None, None)
        ours = [m for m in images(machines, deployment) if m.settings.get(IMAGE) == image]
        return Source(image, ours[0] if ours else None)
    machine = vsphere.source(site, source.template)
    snapshot = machine.snapshot if source.clone == "linked" else None
    if source.clone == "linked" and snapshot is None:
        raise ConfigError(
            f"a linked clone needs a snapshot, and {source.template!r} has none",
            next_step="make one, or say clone: full",
        )
    if source.clone == "instant" and machine.power != "on":
        raise ConfigError(
            f"an instant clone needs a running VM, and {source.template!r} is off",
            next_step="switch it on, or say clone: full or linked",
        )
    image = source_identity(cluster.workers, machine, snapshot)
    return Source(image, machine, source.clone, snapshot)


def images(machines: Sequence[Machine], deployment: str) -> list[Machine]:
    return [m for m in machines if m.belongs_to(deployment) and m.mark and m.mark.role == "image"]

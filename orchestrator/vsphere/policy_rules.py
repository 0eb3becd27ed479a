"""Reading storage policies with what they ask of vSAN, and where one can be used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pyVmomi import pbm

from orchestrator.vsphere.base import Datastore, Site
from orchestrator.vsphere.facts import Policy
from orchestrator.vsphere.session import Session

VSAN_RULES: Final = "VSAN"
#: Namespaces of rules that an I/O filter or a data service carries out.
DATA_SERVICES: Final = ("vmwarevmcrypt", "com.vmware.storageprofile.dataservice", "dataservice")

#: (namespace, id) to value, as the policy's first set of rules has them.
Rules = Mapping[tuple[str, str], Any]


def read_policies(session: Session, site: Site, asked: str | None) -> dict[str, Policy]:
    """All storage policies by name; the asked one's compatibility with the site's datastores."""

    def ask() -> list[Any]:
        content = _content(session)
        kind = pbm.profile.ResourceType(resourceType="STORAGE")
        manager = content.profileManager
        ids = manager.PbmQueryProfile(resourceType=kind, profileCategory="REQUIREMENT")
        return list(manager.PbmRetrieveContent(profileIds=ids)) if ids else []

    found = session.call("reading the storage policies", ask, reads=True)
    policies = {str(item.name): policy_of(item) for item in found}
    if asked in policies:
        names = compatible_stores(session, site, policies[asked].id)
        policies[asked] = replace(policies[asked], compatible=names)
    return policies


def compatible_stores(session: Session, site: Site, policy: str) -> frozenset[str] | None:
    """Names of the site's datastores that can hold a policy (by id); None when nobody can say."""
    hubs = {store.ref: store.name for store in site.datastores}

    def ask() -> Any:
        kind = pbm.placement.PlacementHub
        return _content(session).placementSolver.PbmCheckCompatibility(
            hubsToSearch=[kind(hubType="Datastore", hubId=ref) for ref in hubs],
            profile=pbm.profile.ProfileId(uniqueId=policy),
        )

    answers = session.call("checking the policy's compatibility", ask, reads=True)
    if answers is None:
        return None
    return frozenset(
        hubs[answer.hub.hubId]
        for answer in answers
        if answer.hub.hubId in hubs and not (answer.error or ())
    )


def read_default_policy(session: Session, store: Datastore) -> Policy | None:
    """The policy that a datastore gives to what asks for none; None when it has no such policy."""

    def ask() -> list[Any]:
        manager = _content(session).profileManager
        hub = pbm.placement.PlacementHub(hubType="Datastore", hubId=store.ref)
        found = manager.PbmQueryDefaultRequirementProfile(hub=hub)
        return list(manager.PbmRetrieveContent(profileIds=[found])) if found else []

    found = session.call(f"reading the default policy of {store.name}", ask, reads=True)
    return policy_of(found[0]) if found else None


def policy_of(profile: Any) -> Policy:
    """A policy from vCenter's profile."""
    rules = dict(_rules(getattr(profile.constraints, "subProfiles", None) or ()))
    replicas = str(rules.get((VSAN_RULES, "replicaPreference"), ""))
    return Policy(
        name=str(profile.name),
        id=str(profile.profileId.uniqueId),
        vsan=any(namespace == VSAN_RULES for namespace, _ in rules),
        failures_to_tolerate=_number(rules, "hostFailuresToTolerate", 1),
        site_failures_to_tolerate=_number(rules, "subFailuresToTolerate", 0),
        erasure_coding="capacity" in replicas.lower(),
        checksum=str(rules.get((VSAN_RULES, "checksumDisabled"), "false")).lower() != "true",
        data_service=any(_is_service(namespace, name) for namespace, name in rules),
    )


def _is_service(namespace: str, name: str) -> bool:
    return namespace.lower().startswith(DATA_SERVICES) or name.lower().startswith("dataservice")


def _rules(sets: Sequence[Any]) -> Iterator[tuple[tuple[str, str], Any]]:
    """The rules of the first set (the others are alternatives), by namespace and id."""
    for capability in (sets[0].capability or ()) if sets else ():
        for constraint in capability.constraint or ():
            for prop in constraint.propertyInstance or ():
                yield (str(capability.id.namespace), str(capability.id.id)), prop.value


def _number(rules: Rules, name: str, default: int) -> int:
    value = rules.get((VSAN_RULES, name))
    return int(value) if isinstance(value, int | str) and str(value).isdigit() else default


def _content(session: Session) -> Any:
    return pbm.ServiceInstance("ServiceInstance", session.pbm()).RetrieveContent()

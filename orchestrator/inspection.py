"""The preflight of a vSphere cluster: every check in order, each asked once, each with its limit.

What one check finds (the session, the place, the hosts' state) the later ones read; they need it,
so a place that was never found makes them red rather than silent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from orchestrator.cluster import Cluster, PerHost, Pool, Template
from orchestrator.preflight import Finding, NamedCheck, green, red, worst
from orchestrator.sizing import DEFAULT_FORMULA, Sizing, size_easy_run
from orchestrator.sizing_inputs import Value, resolve_inputs
from orchestrator.units import show_size
from orchestrator.vsphere import condition, room, vsan_condition
from orchestrator.vsphere.base import Datastore, Machine, Site, VSphere
from orchestrator.vsphere.facts import Demand, HostState, Policy, Vsan, VsanState
from orchestrator.vsphere.layout import worker_names
from orchestrator.vsphere.observing import Observes
from orchestrator.vsphere.placement import Eligible, eligible_hosts, spread
from orchestrator.vsphere.policies import amplification, check_policy
from orchestrator.vsphere.privileges import ON_DATACENTER, ON_DATASTORE, ON_NETWORK, ON_POOL
from orchestrator.vsphere.reaching import Reaching, check_ports
from orchestrator.vsphere.session import Login
from orchestrator.vsphere.sizing_facts import apply_sizing, demand_of, sizing_inputs

T = TypeVar("T")

SSH_PORT: Final = 22
#: Seconds: for reading a large inventory, for running vSAN's health tests, for the deep check.
READ_LIMIT: Final = 120.0
HEALTH_LIMIT: Final = 180.0
DEEP_LIMIT: Final = 1800.0


@dataclass(frozen=True)
class Intent:
    """What the suite means to do, as far as checks depend on it. `given` are sizing inputs that
    the user set."""

    clear_cache: bool = False
    own_command: bool = False
    prepare: str = "random"
    formula: str = DEFAULT_FORMULA
    given: Mapping[str, Value] = field(default_factory=dict)


@dataclass
class _Found:
    """What the checks found so far."""

    vsphere: VSphere | None = None
    observer: Observes | None = None
    site: Site | None = None
    source: Machine | None = None
    ours: Sequence[Machine] = ()
    vsan: Vsan | None = None
    policies: Mapping[str, Policy] = field(default_factory=dict)
    states: Sequence[HostState] = ()
    vsan_state: VsanState | None = None


class Inspection:
    """The checks of one cluster. `connect` logs in; `deep` puts a probe on every host."""

    def __init__(
        self,
        cluster: Cluster,
        login: Login,
        connect: Callable[[], tuple[VSphere, Observes]],
        reaching: Reaching,
        intent: Intent = Intent(),
        *,
        deployment: str = "",
        deep: Callable[[VSphere, frozenset[str]], Finding] | None = None,
    ) -> None:
        """`deployment` is the id of this inventory's deployment, empty when there is none yet.

        `deep` gets the session, and the addresses that this deployment's workers have.
        """
        self.cluster = cluster
        self.intent = intent
        self._login = login
        self._connect = connect
        self._reaching = reaching
        self._deployment = deployment
        self._deep = deep
        self._found = _Found()
        self.sized = cluster

    def checks(self) -> list[NamedCheck]:
        """Every check, in order, for `run_checks`."""
        place, vsan, state = ("place",), ("place", "vSAN"), ("host state",)
        checks = [
            NamedCheck("name resolution", self._resolve),
            NamedCheck("port", self._port, needs=("name resolution",)),
            NamedCheck("TLS", self._tls, needs=("port",)),
            NamedCheck("login", self._log_in, 60.0, ("TLS",)),
            NamedCheck("place", self._place, READ_LIMIT, ("login",)),
            NamedCheck("source", self._source, READ_LIMIT, place),
            NamedCheck("privileges", self._privileges, READ_LIMIT, place),
            NamedCheck("datastores", self._datastores, needs=place),
            NamedCheck("networks", self._networks, needs=place),
            NamedCheck("hosts", self._hosts, needs=place),
            NamedCheck("DRS", self._drs, needs=place),
            NamedCheck("vSAN", self._vsan, READ_LIMIT, place),
            NamedCheck("storage policy", self._policy, READ_LIMIT, vsan),
            NamedCheck("vSAN state", self._vsan_state, HEALTH_LIMIT, vsan),
            NamedCheck("vSAN health", self._health, needs=("vSAN state",)),
            NamedCheck("vSAN resync", self._resync, needs=("vSAN state",)),
            NamedCheck("performance service", self._service, needs=vsan),
            NamedCheck("host state", self._states, READ_LIMIT, place),
            NamedCheck("host clocks", self._clocks, needs=state),
            NamedCheck("other load", self._load, needs=state),
            NamedCheck("ESXi SSH", self._ssh, READ_LIMIT, ("vSAN", *state)),
            NamedCheck("clear cache", self._clear, needs=vsan),
            NamedCheck("prepare", self._prepare, needs=vsan),
            NamedCheck("size", self._size, READ_LIMIT, ("vSAN", "source")),
            NamedCheck("capacity", self._capacity, needs=("size", "storage policy")),
            NamedCheck("processors and memory", self._compute, needs=("size", *state)),
            NamedCheck("addresses", self._addresses, READ_LIMIT, ("size",)),
            NamedCheck("names", self._names, READ_LIMIT, ("size",)),
        ]
        if self._deep is not None:
            needs = ("source", "hosts", "networks", "datastores", "storage policy")
            checks.append(NamedCheck("deep: every host", self._probe, DEEP_LIMIT, needs))
        return checks

    # -- from here to a session ----------------------------------------------------------------

    def _resolve(self) -> Finding:
        name = self._login.host
        return condition.check_resolution({name: self._reaching.resolve(name)})

    def _port(self) -> Finding:
        host, port = self._login.host, self._login.port
        return check_ports({f"{host}:{port}": self._reaching.refused(host, port)})

    def _tls(self) -> Finding:
        return self._reaching.tls(self._login)

    def _log_in(self) -> Finding:
        self._found.vsphere, self._found.observer = self._connect()
        about = self._vsphere.about()
        return green(f"{about.name} {about.version} (build {about.build})")

    @property
    def _vsphere(self) -> VSphere:
        return _known(self._found.vsphere)

    @property
    def _observer(self) -> Observes:
        return _known(self._found.observer)

    @property
    def _site(self) -> Site:
        return _known(self._found.site)

    # -- the place -----------------------------------------------------------------------------

    def _place(self) -> Finding:
        cluster = self.cluster
        site = self._vsphere.site(
            cluster.datacenter, cluster.cluster, pool=cluster.resource_pool, folder=cluster.folder
        )
        machines = self._vsphere.machines(site, policies=False)
        self._found.ours = [m for m in machines if m.belongs_to(self._deployment)]
        self._found.site = site
        parts = [cluster.datacenter, cluster.cluster, cluster.resource_pool, cluster.folder]
        return green(" / ".join(part for part in parts if part))

    def _source(self) -> Finding:
        source = self.cluster.workers.source
        if not isinstance(source, Template):
            return green("brought to vCenter by the deployment itself")
        self._found.source = self._vsphere.source(self._site, source.template)
        size = sum(disk.size for disk in self._found.source.disks)
        if source.clone == "linked" and self._found.source.snapshot is None:
            return red(f"{source.template!r} has no snapshot", "make one, or say clone: full")
        return green(f"{source.template!r}: {show_size(size)}, {source.clone} clones")

    def _privileges(self) -> Finding:
        site = self._site
        needed: dict[str, Sequence[str]] = {site.datacenter: ON_DATACENTER, site.pool: ON_POOL}
        names = {site.datacenter: self.cluster.datacenter, site.pool: "the resource pool"}
        for store in self._stores():
            needed[store.ref], names[store.ref] = ON_DATASTORE, store.name
        for network in site.networks:
            if network.name in self.cluster.networks:
                needed[network.ref], names[network.ref] = ON_NETWORK, network.name
        missing = self._observer.missing_privileges(site, needed)
        return condition.check_privileges({names[ref]: rights for ref, rights in missing.items()})

    def _stores(self) -> list[Datastore]:
        wanted = self.cluster.datastores
        return [store for store in self._site.datastores if store.name in wanted]

    def _datastores(self) -> Finding:
        return room.check_datastores(self.cluster.datastores, self._site.datastores)

    def _networks(self) -> Finding:
        site = self._site
        return condition.check_networks(self.cluster.networks, site.networks, site.hosts)

    def _eligible(self) -> Eligible:
        site = self._site
        return eligible_hosts(
            site.hosts,
            names=self.cluster.hosts,
            datastores={store.ref: store.name for store in self._stores()},
            networks={
                network.ref: network.name
                for network in site.networks
                if network.name in self.cluster.networks
            },
        )

    def _hosts(self) -> Finding:
        return condition.check_hosts(self._eligible(), self.cluster.hosts)

    def _drs(self) -> Finding:
        return condition.check_drs(self._site.drs, self.cluster.workers.pin_hosts)

    # -- storage -------------------------------------------------------------------------------

    def _vsan(self) -> Finding:
        self._found.vsan = vsan = self._observer.vsan(self._site)
        tested = any(store.kind.startswith("vsan") for store in self._stores())
        if vsan is None or not tested:
            self._found.vsan = None
            return green("no datastore under test is vSAN's")
        parts = [f"vSAN {vsan.architecture.upper()} on {vsan.hosts} hosts"]
        if vsan.disk_groups is not None and vsan.cache is not None:
            parts.append(f"{vsan.disk_groups} disk groups, {show_size(vsan.cache)} cache")
        if vsan.witness:
            parts.append(f"witness {vsan.witness}")
        return green(", ".join(parts))

    def _policy(self) -> Finding:
        asked, vsan = self.cluster.storage_policy, self._found.vsan
        self._found.policies = self._observer.policies(self._site, asked)
        hosts = len(self._site.hosts) + (1 if vsan is not None and vsan.witness else 0)
        return check_policy(
            asked,
            self._found.policies,
            self.cluster.datastores,
            architecture=None if vsan is None else vsan.architecture,
            hosts=hosts,
        )

    def _policy_in_force(self) -> Policy | None:
        """The asked policy; where none is asked, the default of the first vSAN datastore."""
        asked = self.cluster.storage_policy
        if asked is not None:
            policies = self._found.policies or self._observer.policies(self._site, asked)
            return policies.get(asked)
        stores = [store for store in self._stores() if store.kind.startswith("vsan")]
        return self._observer.default_policy(stores[0]) if stores else None

    def _vsan_state(self) -> Finding:
        if self._found.vsan is None:
            return green("no datastore under test is vSAN's")
        self._found.vsan_state = self._observer.vsan_state(self._site, fresh=True)
        return green("read")

    def _health(self) -> Finding:
        return vsan_condition.check_vsan_health(self._found.vsan_state)

    def _resync(self) -> Finding:
        return vsan_condition.check_resync(self._found.vsan_state)

    def _service(self) -> Finding:
        return vsan_condition.check_performance_service(self._found.vsan)

    def _clear(self) -> Finding:
        intent = self.intent
        return vsan_condition.check_clear_cache(
            intent.clear_cache, self._found.vsan, intent.own_command
        )

    def _prepare(self) -> Finding:
        return vsan_condition.check_prepare(self.intent.prepare, self._found.vsan)

    # -- hosts ---------------------------------------------------------------------------------

    def _states(self) -> Finding:
        refs = [machine.ref for machine in self._found.ours]
        self._found.states = self._observer.host_states(self._site, refs)
        return green(f"{len(self._found.states)} hosts read")

    def _clocks(self) -> Finding:
        return condition.check_clocks(self._found.states)

    def _load(self) -> Finding:
        return condition.check_load(self._found.states)

    def _ssh(self) -> Finding:
        vsan = self._found.vsan
        osa = vsan is not None and vsan.architecture == "osa"
        needed = self.intent.clear_cache and osa and not self.intent.own_command
        if not needed:
            return condition.check_ssh([], needed=False)
        names = [state.name for state in self._found.states]
        found = {name: self._reaching.resolve(name) for name in names}
        ports = {
            f"{name}:{SSH_PORT}": self._reaching.refused(name, SSH_PORT)
            for name, addresses in found.items()
            if addresses
        }
        return worst(
            [
                condition.check_resolution(found),
                condition.check_ssh(self._found.states, needed=True),
                check_ports(ports),
            ],
            nothing="no host",
        )

    # -- room ----------------------------------------------------------------------------------

    def _size(self) -> Finding:
        """Settle how many workers of what size there are to be; later checks read `sized`."""
        eligible = self._eligible().hosts
        shape = self.cluster.workers
        if shape.count == "auto":
            self.sized = apply_sizing(self.cluster, self.sizing())
        elif isinstance(shape.count, PerHost):
            count = shape.count.per_host * len(eligible)
            changed = shape.model_copy(update={"count": count})
            self.sized = self.cluster.model_copy(update={"workers": changed})
        demand = self._demand()
        if not eligible or not demand.workers:
            return red("no host can take a worker", "see the check 'hosts'")
        return green(
            f"{demand.workers} workers with {demand.cpus} vCPUs, {show_size(demand.memory)} "
            f"and {demand.disks} disks of {show_size(demand.disk_size)}"
        )

    def sizing(self) -> Sizing:
        """The easy run's size for this cluster, once `vSAN` was asked."""
        policy = self._policy_in_force()
        facts = sizing_inputs(self._stores(), self._site.hosts, self._found.vsan, policy)
        return size_easy_run(resolve_inputs(self.intent.given, facts), self.intent.formula)

    def _demand(self) -> Demand:
        found = self._found
        return demand_of(self.sized, found.source, found.ours, self._stores())

    def _worker_names(self) -> list[str]:
        return worker_names(self.cluster.deployment, self._demand().workers)

    def _capacity(self) -> Finding:
        vsan, stores = self._found.vsan, self._stores()
        # Where nobody could name a policy: vSAN as it comes mirrors once.
        policy = self._policy_in_force() or Policy("mirror", "", vsan=True)
        factors = {
            store.name: amplification(policy, vsan.architecture, vsan.hosts)
            if vsan is not None and store.kind.startswith("vsan")
            else 1.0
            for store in stores
        }
        return room.check_capacity(stores, self._demand(), factors)

    def _compute(self) -> Finding:
        hosts = self._eligible().hosts
        names = self._worker_names()
        spots = spread(names, hosts, self._stores(), placed={}, each=0).spots
        refs = {host.ref: host.name for host in hosts}
        placed: dict[str, int] = {}
        for spot in spots.values():
            placed[refs[spot.host]] = placed.get(refs[spot.host], 0) + 1
        states = {state.name: state for state in self._found.states}
        return room.check_compute(placed, hosts, states, self._demand())

    def _addresses(self) -> Finding:
        pool, needed = self.cluster.workers.addresses, self._demand().workers
        if not isinstance(pool, Pool):
            return room.check_addresses(None, needed, {}, frozenset())
        ours = self._our_addresses()
        free = [address for address in pool.all()[:needed] if address not in ours]
        return room.check_addresses(pool, needed, {}, self._reaching.answering(free))

    def _our_addresses(self) -> frozenset[str]:
        found = self._found.ours
        return frozenset(ip for machine in found for nic in machine.guest.nics for ip in nic.ips)

    def _names(self) -> Finding:
        ours = {machine.ref for machine in self._found.ours}
        there = self._vsphere.names(self._site, self._site.folder)
        return room.check_names(
            self._worker_names(), {name: ref in ours for name, ref in there.items()}
        )

    def _probe(self) -> Finding:
        return _known(self._deep)(self._vsphere, self._our_addresses())


def _known(value: T | None) -> T:
    """A thing that an earlier check found; `needs` sees to it that it did."""
    assert value is not None  # noqa: S101 - a check without its needs is never asked
    return value

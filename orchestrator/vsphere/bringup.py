"""A deploy under way: every worker is brought from what it is to what it should be.

A failure leaves what is there, marked, and the next deploy or destroy goes on from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from orchestrator.cluster import Cluster, LibraryItem, Ovf, PushedFio
from orchestrator.errors import (
    AwaitedTooLong,
    DeploymentFailed,
    NotFoundInVCenter,
    TaskFailed,
    VSphereError,
)
from orchestrator.inventory import Worker
from orchestrator.vsphere.addresses import choose_address, duplicates
from orchestrator.vsphere.base import (
    IMAGE,
    IMAGE_DISKS,
    MARK,
    SEED,
    Change,
    CloneOrder,
    Guest,
    Machine,
    Mark,
    Rule,
    Site,
)
from orchestrator.vsphere.handover import PUSHED_FIO, as_inventory, targets_of
from orchestrator.vsphere.layout import (
    Ground,
    Layout,
    WorkerPlan,
)
from orchestrator.vsphere.machines import render_mark
from orchestrator.vsphere.means import (
    K,
    R,
    Tools,
    note,
    remove_machine,
    rule_name,
    together,
    unpin,
)
from orchestrator.vsphere.state import DeploymentState
from orchestrator.vsphere.survey import images
from orchestrator.vsphere.wanted import compare

#: Rounds of change and look after which a VM that still differs is given up.
ROUNDS: Final = 3


@dataclass(frozen=True)
class Deployment:
    """What a deploy came to: workers that are ready, and the errors of those that aren't."""

    layout: Layout
    workers: tuple[Worker, ...]
    errors: Mapping[str, Exception] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


class Work:
    """One deploy under way: every worker ends as a worker that is ready, or as an error."""

    def __init__(self, tools: Tools, cluster: Cluster, state: DeploymentState, site: Site) -> None:
        self._tools = tools
        self._vsphere = tools.vsphere
        self._cluster = cluster
        self._state = state
        self._site = site
        self._errors: dict[str, Exception] = {}

    def clear(self, layout: Layout, ground: Ground) -> tuple[str, ...]:
        """Remove what is ours and has no place any more: surplus workers, other images."""
        surplus = list(layout.surplus)
        surplus += [
            (machine, "an image that is not used")
            for machine in images(ground.machines, self._state.id)
            if ground.source.machine is None or machine.ref != ground.source.machine.ref
        ]
        going = {machine.ref for machine, _ in surplus}
        going |= {p.machine.ref for p in layout.workers if p.action == "renew" and p.machine}
        unpin(self._vsphere, self._site, going, self._tools.patience)
        for machine, reason in surplus:
            self._tools.say(f"{machine.name}: removed ({reason})")
        gone = together(self._tools, {machine.ref: machine for machine, _ in surplus}, self._remove)
        names = {machine.ref: machine.name for machine, _ in surplus}
        self._errors |= {names[ref]: error for ref, error in gone.errors.items()}
        return tuple(names[ref] for ref in gone.results)

    def _remove(self, machine: Machine) -> None:
        remove_machine(self._vsphere, machine, self._tools.patience)

    def image(self, ground: Ground) -> Machine:
        """Upload or deploy the image once; a half-made one was cleared away before."""
        source = self._cluster.workers.source
        name = f"{self._cluster.deployment}-image"
        mark = Mark(self._state.id, self._cluster.deployment, "image", name)
        spot = self._image_spot()
        order = CloneOrder(
            source="",
            name=name,
            kind="full",
            folder=self._site.folder,
            pool=self._site.pool,
            host=spot[0],
            datastore=spot[1],
            cpus=self._cluster.workers.cpus,
            memory=self._cluster.workers.memory,
            settings={MARK: render_mark(mark)},
            note=note(mark),
        )
        timeout = self._tools.patience.clone
        self._tools.say(f"{name}: bringing the image to vCenter")
        if isinstance(source, Ovf):
            ref = self._vsphere.import_ovf(self._site, source.ovf, order, timeout=timeout)
        else:
            assert isinstance(source, LibraryItem)  # noqa: S101 - a Template is never brought
            ref = self._vsphere.deploy_item(
                self._site, source.library, source.item, order, timeout=timeout
            )
        made = self._vsphere.machine(ref, policies=False)
        whole = {MARK: render_mark(replace(mark, instance=made.instance))}
        settings = whole | {IMAGE: ground.source.image}
        self._vsphere.change(ref, Change(settings=settings), timeout=self._tools.patience.change)
        return self._vsphere.machine(ref, policies=False)

    def _image_spot(self) -> tuple[str, str]:
        wanted = [s for s in self._site.datastores if s.name in self._cluster.datastores]
        for store in wanted:
            for host in self._site.hosts:
                if store.ref in host.datastores and host.connected and not host.maintenance:
                    return host.ref, store.ref
        raise NotFoundInVCenter(
            self._vsphere.host, "placing the image", "no usable host sees one of the datastores"
        )

    def bring_up(self, layout: Layout, removed: tuple[str, ...]) -> Deployment:
        """Build all, then the rules, then switch on, then wait for guests and SSH."""
        plans = {plan.name: plan for plan in layout.workers}
        built = self._each(plans, lambda plan: self._build(plan, layout))
        self._rules({name: machine.ref for name, machine in built.items()})
        running = self._each(built, self._switch_on)
        guests = self._addresses(plans, running)
        hosts = {
            name: self._worker(plans[name], running[name], guests[name], layout) for name in guests
        }
        self._state.write_known_hosts([(w.name, w.host, w.port or 22) for w in hosts.values()])
        answered = self._each(hosts, self._answers)
        workers = tuple(answered[name] for name in plans if name in answered)
        self._state.write_workers(as_inventory(workers, self._state))
        needed = self._cluster.workers.at_least or len(plans)
        if len(workers) < needed:
            raise DeploymentFailed(
                self._cluster.deployment,
                self._errors,
                workers,
                next_step="what was made is kept and marked: run deploy again to go on from "
                "there, or destroy to remove it",
            )
        return Deployment(layout, workers, self._errors, removed)

    def _each(self, items: Mapping[str, K], work: Callable[[K], R]) -> dict[str, R]:
        """Do it for each worker; errors are kept, the others go on."""
        gathered = together(self._tools, items, work)
        self._errors |= gathered.errors
        for name, error in gathered.errors.items():
            self._tools.say(f"{name}: {error}")
        return gathered.results

    def _build(self, plan: WorkerPlan, layout: Layout) -> Machine:
        """The worker's VM as it is wanted, still off if it had to be changed."""
        if plan.action == "keep" and plan.machine is not None:
            self._tools.say(f"{plan.name}: kept")
            return plan.machine
        why = f" ({'; '.join(plan.reasons)})" if plan.reasons else ""
        self._tools.say(f"{plan.name}: {plan.action}{why}")
        if plan.action == "renew" and plan.machine is not None:
            self._remove(plan.machine)
        if plan.action == "change" and plan.machine is not None:
            return self._fitted(plan, plan.machine.ref)
        return self._fitted(plan, self._cloned(plan, layout))

    def _cloned(self, plan: WorkerPlan, layout: Layout) -> str:
        source = layout.image
        assert source is not None  # noqa: S101 - a plan always has one
        assert source.machine is not None  # noqa: S101 - the image was brought before
        wanted = plan.wanted
        order = CloneOrder(
            source=source.machine.ref,
            name=plan.name,
            kind=source.kind,
            snapshot=source.snapshot,
            folder=self._site.folder,
            pool=self._site.pool,
            host=plan.spot.host,
            datastore=plan.spot.datastore,
            cpus=wanted.cpus,
            memory=wanted.memory,
            # What the source may have of these from an earlier life must not come along.
            settings={
                MARK: render_mark(wanted.mark),
                IMAGE: wanted.image,
                IMAGE_DISKS: "",
                SEED: "",
            },
            note=note(wanted.mark),
        )
        try:
            return self._vsphere.clone(order, timeout=self._tools.patience.clone)
        except TaskFailed as error:
            if error.fault != "DuplicateName":
                raise
            there = self._already(plan.name)
            if there is None:
                raise
            return there

    def _already(self, name: str) -> str | None:
        """The VM of this worker, where an earlier clone ended after we had stopped waiting."""
        for machine in self._vsphere.machines(self._site, policies=False):
            ours = machine.belongs_to(self._state.id) and machine.mark is not None
            if ours and machine.mark is not None and machine.mark.worker == name:
                return machine.ref
        return None

    def _fitted(self, plan: WorkerPlan, ref: str) -> Machine:
        """Change the VM until it is what is wanted: looked at again after every change."""
        wanted, patience = plan.wanted, self._tools.patience
        for _ in range(ROUNDS):
            machine = self._vsphere.machine(ref, policies=wanted.policy is not None)
            difference = compare(wanted, machine)
            if difference.renew:
                break
            if difference.change is None:
                return machine
            if machine.power != "off":
                self._vsphere.power(ref, "off", timeout=patience.power)
            policy = patience.policy if difference.change.policy else 0.0
            self._vsphere.change(ref, difference.change, timeout=patience.change + policy)
        left = "; ".join((*difference.reasons, *difference.renew))
        raise VSphereError(
            self._vsphere.host,
            f"making {plan.name}",
            f"vCenter said yes, yet it is not what was asked: {left}",
            means="it would not measure what the inventory says",
            next_step="look at the VM's settings and its storage policy's compliance in vCenter",
        )

    def _rules(self, refs: Mapping[str, str]) -> None:
        """Keep workers apart, and where they are, as the inventory says; take old rules back."""
        shape, timeout = self._cluster.workers, self._tools.patience.change
        name = rule_name(self._cluster.deployment, self._state.id)
        wanted = frozenset(refs.values()) if shape.anti_affinity and len(refs) > 1 else frozenset()
        now = {rule.name: rule.machines for rule in self._vsphere.rules(self._site)}
        if now.get(name, frozenset()) != wanted:
            self._vsphere.set_rule(self._site, Rule(name, wanted), timeout=timeout)
        pinned = self._vsphere.pinned(self._site) & set(refs.values())
        if shape.pin_hosts and pinned != set(refs.values()):
            self._vsphere.pin(self._site, sorted(refs.values()), True, timeout=timeout)
        elif not shape.pin_hosts and pinned:
            self._vsphere.pin(self._site, sorted(pinned), False, timeout=timeout)

    def _switch_on(self, machine: Machine) -> Machine:
        if machine.power != "on":
            self._vsphere.power(machine.ref, "on", timeout=self._tools.patience.power)
        return machine

    def _addresses(
        self, plans: Mapping[str, WorkerPlan], running: Mapping[str, Machine]
    ) -> dict[str, str]:
        """The address of each guest; a worker without one has an error that says why."""
        names = {machine.ref: name for name, machine in running.items()}

        def chosen(ref: str, guest: Guest) -> Any:
            seed = plans[names[ref]].wanted.seed
            card = running[names[ref]].nics[:1]
            return choose_address(
                guest,
                network=self._cluster.networks[0],
                family=self._cluster.workers.family,
                mac=card[0].mac if card else None,
                expected=seed.static.address if seed.static else None,
            )

        if names:
            self._tools.say(f"waiting for the addresses of {len(names)} guests")
        patience = self._tools.patience.guest
        guests = self._vsphere.await_guests(
            list(names),
            lambda ref, guest: chosen(ref, guest).address is not None,
            awaited=f"the addresses of {len(names)} guests",
            timeout=patience,
        )
        found: dict[str, str] = {}
        for ref, name in names.items():
            choice = chosen(ref, guests.get(ref, Guest()))
            if choice.address is not None:
                found[name] = choice.address
            else:
                self._errors[name] = self._no_address(name, choice.why, patience)
        for address, owners in duplicates(found).items():
            for name in owners:
                del found[name]
                self._errors[name] = self._twice(name, address, owners)
        return found

    def _no_address(self, name: str, why: str, patience: float) -> Exception:
        return AwaitedTooLong(
            self._vsphere.host,
            f"waiting for the address of {name}",
            f"{why} after {patience:g} s",
            next_step="open the VM's console: does it boot, has it open-vm-tools and cloud-init, "
            "and is its network the right one?",
        )

    def _twice(self, name: str, address: str, owners: Sequence[str]) -> Exception:
        others = ", ".join(owner for owner in owners if owner != name)
        return VSphereError(
            self._vsphere.host,
            f"the address of {name}",
            f"{address} is also the address of {others}",
            next_step="the template's machine-id or a DHCP lease is shared: clear /etc/machine-id "
            "in the template, or give a pool of addresses",
        )

    def _worker(self, plan: WorkerPlan, machine: Machine, address: str, layout: Layout) -> Worker:
        shape = self._cluster.workers
        return Worker(
            name=plan.name,
            host=address,
            port=shape.ssh_port,
            user=shape.ssh_user,
            key=str(self._state.key_file),
            sudo=shape.ssh_user != "root",
            targets=targets_of(machine),
            host_label=layout.hosts.get(machine.host or ""),
            datastore=layout.datastores.get(plan.spot.datastore),
            fio=PUSHED_FIO if isinstance(shape.fio, PushedFio) else "fio",
        )

    def _answers(self, worker: Worker) -> Worker:
        self._tools.ready(worker)
        self._tools.say(f"{worker.name}: ready at {worker.host}")
        return worker

"""A VSphere without a vCenter: an inventory in memory that records every call and fails on demand.

It refuses what a vCenter refuses (an unknown ref, a name that exists, a wrong power state) with the
same errors, and has the same marks, policies and guests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from orchestrator.errors import HcioError, NotFoundInVCenter, TaskFailed
from orchestrator.vsphere.base import (
    MARK,
    SETTINGS,
    About,
    Change,
    CloneOrder,
    ControllerKind,
    Disk,
    Guest,
    GuestNic,
    Machine,
    Network,
    NewDisk,
    Nic,
    Power,
    Rule,
    Site,
)
from orchestrator.vsphere.machines import parse_mark


@dataclass(frozen=True)
class Called:
    """One call, by the protocol's own name."""

    name: str
    subject: str


@dataclass
class Trouble:
    """A call that is to go wrong: the skip+1-th of this name, `times` times.

    `done` says whether it is carried out all the same, as when only the answer is lost.
    """

    name: str
    error: HcioError
    skip: int = 0
    times: int = 1
    done: bool = False


class FakeVSphere:
    """An in-memory vCenter (see VSphere). `boot` gives a guest's address when its VM starts."""

    def __init__(
        self,
        site: Site,
        machines: Sequence[Machine] = (),
        *,
        policies: Mapping[str, str] | None = None,
        boot: Callable[[Machine], Guest] | None = None,
        host: str = "vcenter.test",
    ) -> None:
        self._site = site
        self._policies = dict(policies or {})
        self._boot = boot or self._next_address
        self._host = host
        self._machines = {machine.ref: machine for machine in machines}
        self._rules: dict[str, Rule] = {}
        self._pinned: set[str] = set()
        self._lock = threading.RLock()
        self._numbers = 1000
        self.calls: list[Called] = []
        self.troubles: list[Trouble] = []
        self.closed = False

    @property
    def host(self) -> str:
        return self._host

    def snapshot(self) -> list[str]:
        """Everything there is, in words that are equal exactly when nothing changed."""
        with self._lock:
            machines = [
                f"{m.ref} {m.name} {m.power} {m.cpus} {m.memory} {len(m.disks)}"
                for m in self._machines.values()
            ]
            rules = [f"rule {rule.name}" for rule in self._rules.values()]
            return sorted([*machines, *rules, *(f"pinned {ref}" for ref in self._pinned)])

    def about(self) -> About:
        self._called("about", "")
        return About("fake vCenter", "8.0.3", "0", "00000000-0000-0000-0000-000000000000")

    def site(self, datacenter: str, cluster: str, *, pool: str | None, folder: str | None) -> Site:
        self._called("site", cluster)
        if cluster != self._site.cluster_name:
            raise self._missing("finding the cluster", f"no cluster {cluster!r} in {datacenter!r}")
        return self._site

    def policies(self) -> dict[str, str]:
        self._called("policies", "")
        return dict(self._policies)

    def machines(self, site: Site, *, policies: bool) -> list[Machine]:
        self._called("machines", "")
        with self._lock:
            marked = [m for m in self._machines.values() if m.mark is not None]
        shown = marked if policies else [_without_policies(m) for m in marked]
        return sorted(shown, key=lambda machine: (machine.name, machine.ref))

    def machine(self, ref: str, *, policies: bool) -> Machine:
        self._called("machine", ref)
        found = self._get(ref, f"reading the VM {ref}")
        return found if policies else _without_policies(found)

    def names(self, site: Site, folder: str) -> dict[str, str]:
        self._called("names", folder)
        with self._lock:
            return {m.name: m.ref for m in self._machines.values() if m.folder == folder}

    def source(self, site: Site, name: str) -> Machine:
        self._called("source", name)
        with self._lock:
            found = [m for m in self._machines.values() if m.name == name.rpartition("/")[2]]
        if len(found) != 1:
            raise self._missing("finding the template", f"no template or VM {name!r}")
        return _without_policies(found[0])

    def clone(self, order: CloneOrder, *, timeout: float) -> str:
        with self._carried_out("clone", order.name):
            source = self._get(order.source, f"cloning {order.name}")
            return self._new(order, source)

    def import_ovf(self, site: Site, ovf: str, order: CloneOrder, *, timeout: float) -> str:
        with self._carried_out("import_ovf", order.name):
            return self._new(order, None)

    def deploy_item(
        self, site: Site, library: str, item: str, order: CloneOrder, *, timeout: float
    ) -> str:
        with self._carried_out("deploy_item", order.name):
            return self._new(order, None)

    def _new(self, order: CloneOrder, source: Machine | None) -> str:
        step = f"cloning {order.name}"
        with self._lock:
            taken = [m.name for m in self._machines.values() if m.folder == order.folder]
            if order.name in taken:
                raise TaskFailed(self._host, step, "DuplicateName", order.name)
            self._numbers += 1
            ref = f"vm-{self._numbers}"
            disks = source.disks if source is not None else (_image_disk(),)
            made = Machine(
                ref=ref,
                name=order.name,
                instance=f"instance-{self._numbers}",
                mark=None,
                template=False,
                power="on" if order.kind == "instant" else "off",
                host=order.host,
                folder=order.folder,
                cpus=order.cpus,
                memory=order.memory,
                disks=tuple(
                    replace(disk, datastore=order.datastore, policy=None) for disk in disks
                ),
                nics=source.nics if source is not None else (),
                controllers=source.controllers if source is not None else (("pvscsi", 0),),
            )
            self._machines[ref] = self._set(made, order.settings)
            return ref

    def _set(self, machine: Machine, settings: Mapping[str, str]) -> Machine:
        """The machine with these settings; '' removes one, as in extraConfig."""
        known = {key: value for key, value in settings.items() if key in SETTINGS}
        merged = {k: v for k, v in {**machine.settings, **known}.items() if v}
        mark = parse_mark(merged[MARK]) if MARK in merged else None
        return replace(machine, settings=merged, mark=mark)

    def change(self, ref: str, change: Change, *, timeout: float) -> None:
        with self._carried_out("change", ref), self._lock:
            machine = self._get(ref, f"changing the VM {ref}")
            changed = self._set(machine, change.settings)
            if change.cpus is not None:
                changed = replace(changed, cpus=change.cpus)
            if change.memory is not None:
                changed = replace(changed, memory=change.memory)
            changed = self._change_disks(changed, change)
            if change.networks is not None:
                changed = replace(changed, nics=self._cards(changed, change.networks))
            self._machines[ref] = changed

    def _change_disks(self, machine: Machine, change: Change) -> Machine:
        staying = [disk for disk in machine.disks if disk.key not in change.remove_disks]
        staying = [
            replace(disk, policy=change.policy) if disk.key in change.policy_disks else disk
            for disk in staying
        ]
        controllers: list[tuple[ControllerKind, int]] = list(machine.controllers)
        for new in change.add_disks:
            staying.append(self._disk(new, machine))
            if (new.controller, new.bus) not in controllers:
                controllers.append((new.controller, new.bus))
        return replace(
            machine,
            disks=tuple(staying),
            controllers=tuple(controllers),
            policy=change.policy or machine.policy,
        )

    def _disk(self, new: NewDisk, machine: Machine) -> Disk:
        self._numbers += 1
        return Disk(
            key=self._numbers,
            size=new.size,
            controller=new.controller,
            bus=new.bus,
            unit=new.unit,
            thin=new.thin,
            serial=f"{self._numbers:032x}",
            datastore=machine.disks[0].datastore if machine.disks else None,
            policy=new.policy,
        )

    def _cards(self, machine: Machine, networks: Sequence[Network]) -> tuple[Nic, ...]:
        macs = [nic.mac for nic in machine.nics]
        cards: list[Nic] = []
        for index, network in enumerate(networks):
            self._numbers += 1
            mac = macs[index] if index < len(macs) else f"00:50:56:00:{self._numbers:04x}"
            cards.append(Nic(4000 + index, network.identity, mac))
        return tuple(cards)

    def power(self, ref: str, wanted: Literal["on", "off"], *, timeout: float) -> None:
        with self._carried_out("power", ref), self._lock:
            machine = self._get(ref, f"switching {wanted} {ref}")
            if machine.power == wanted:
                return
            power: Power = wanted
            guest = self._boot(machine) if wanted == "on" else Guest()
            self._machines[ref] = replace(machine, power=power, guest=guest)

    def destroy(self, ref: str, *, timeout: float) -> None:
        with self._carried_out("destroy", ref), self._lock:
            machine = self._machines.get(ref)
            if machine is None:
                return
            if machine.power != "off":
                raise TaskFailed(self._host, f"removing {ref}", "InvalidPowerState", machine.name)
            del self._machines[ref]
            self._pinned.discard(ref)

    def await_guests(
        self,
        refs: Sequence[str],
        ready: Callable[[str, Guest], bool],
        *,
        awaited: str,
        timeout: float,
    ) -> dict[str, Guest]:
        self._called("await_guests", awaited)
        with self._lock:
            guests = {ref: self._machines[ref].guest for ref in refs if ref in self._machines}
        for ref, guest in guests.items():
            ready(ref, guest)
        return guests

    def rules(self, site: Site) -> list[Rule]:
        self._called("rules", "")
        return list(self._rules.values())

    def set_rule(self, site: Site, rule: Rule, *, timeout: float) -> None:
        with self._carried_out("set_rule", rule.name), self._lock:
            self._rules.pop(rule.name, None)
            if rule.machines:
                self._rules[rule.name] = rule

    def pinned(self, site: Site) -> frozenset[str]:
        self._called("pinned", "")
        return frozenset(self._pinned)

    def pin(self, site: Site, refs: Sequence[str], on: bool, *, timeout: float) -> None:
        with self._carried_out("pin", ", ".join(refs)), self._lock:
            if on:
                self._pinned |= set(refs)
            else:
                self._pinned -= set(refs)

    def close(self) -> None:
        self.closed = True

    def add(self, machine: Machine) -> None:
        """Put somebody else's VM into the inventory."""
        with self._lock:
            self._machines[machine.ref] = machine

    def _next_address(self, machine: Machine) -> Guest:
        self._numbers += 1
        address = f"192.0.2.{self._numbers % 250 + 1}"
        cards = tuple(
            GuestNic(None, True, (address,) if index == 0 else (), nic.mac)
            for index, nic in enumerate(machine.nics)
        )
        return Guest(True, address, cards)

    def _get(self, ref: str, step: str) -> Machine:
        with self._lock:
            if ref not in self._machines:
                raise self._missing(step, f"{ref} is no longer there")
            return self._machines[ref]

    def _missing(self, step: str, what: str) -> NotFoundInVCenter:
        return NotFoundInVCenter(self._host, step, what)

    def _called(self, name: str, subject: str) -> None:
        trouble = self._trouble(name, subject)
        if trouble is not None:
            raise trouble.error

    def _trouble(self, name: str, subject: str) -> Trouble | None:
        with self._lock:
            self.calls.append(Called(name, subject))
            for trouble in self.troubles:
                if trouble.name != name or trouble.times <= 0:
                    continue
                if trouble.skip > 0:
                    trouble.skip -= 1
                    continue
                trouble.times -= 1
                return trouble
        return None

    def _carried_out(self, name: str, subject: str) -> _CarriedOut:
        return _CarriedOut(self._trouble(name, subject))


class _CarriedOut:
    """The scope of a call that changes something: its trouble comes before it, or after."""

    def __init__(self, trouble: Trouble | None) -> None:
        self._trouble = trouble

    def __enter__(self) -> None:
        if self._trouble is not None and not self._trouble.done:
            raise self._trouble.error

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        if kind is None and self._trouble is not None:
            raise self._trouble.error


def _without_policies(machine: Machine) -> Machine:
    disks = tuple(replace(disk, policy=None) for disk in machine.disks)
    return replace(machine, policy=None, disks=disks)


def _image_disk() -> Disk:
    return Disk(2000, 10 * 2**30, "pvscsi", 0, 0, True, "image", None)

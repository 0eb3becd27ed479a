"""The real thing: a VSphere on pyVmomi."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from pyVmomi import pbm, vim

from orchestrator.errors import NotFoundInVCenter, TaskFailed
from orchestrator.vsphere import devices, finding, library, ovf
from orchestrator.vsphere.base import (
    MARK,
    SETTINGS,
    About,
    Change,
    CloneOrder,
    Guest,
    Machine,
    Rule,
    Site,
)
from orchestrator.vsphere.collector import Found, finish, machine_steps, read, watch
from orchestrator.vsphere.machines import (
    GUEST_PATHS,
    MACHINE_PATHS,
    guest_of,
    machine_of,
    setting,
    setting_paths,
)
from orchestrator.vsphere.session import CALL_TIMEOUT, Login, Session

_POWER_STATE: Final = {"on": "poweredOn", "off": "poweredOff"}
_DISK_MOVE: Final = {
    "full": "moveAllDiskBackingsAndDisallowSharing",
    "linked": "createNewChildDiskBacking",
}


class VCenter:
    """A logged-in vCenter (see VSphere)."""

    def __init__(
        self,
        login: Login,
        *,
        call_timeout: float = CALL_TIMEOUT,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Log in. CertificateRejected, LoginRefused or VCenterUnreachable."""
        self.session = Session(login, call_timeout=call_timeout)
        self._monotonic = monotonic
        self._profile_manager: str | None = None
        self._single_settings = True

    @property
    def host(self) -> str:
        return self.session.host

    def about(self) -> About:
        about = self.session.content.about
        return About(about.fullName, about.version, about.build, about.instanceUuid or "")

    def site(self, datacenter: str, cluster: str, *, pool: str | None, folder: str | None) -> Site:
        return finding.find_site(self.session, datacenter, cluster, pool=pool, folder=folder)

    def policies(self) -> dict[str, str]:
        def ask() -> dict[str, str]:
            manager = self._profiles()
            kind = pbm.profile.ResourceType(resourceType="STORAGE")
            ids = manager.PbmQueryProfile(resourceType=kind, profileCategory="REQUIREMENT")
            found = manager.PbmRetrieveContent(profileIds=ids) if ids else []
            return {str(item.name): str(item.profileId.uniqueId) for item in found}

        return self.session.call("reading the storage policies", ask, reads=True)

    def _profiles(self) -> Any:
        stub = self.session.pbm()
        if self._profile_manager is None:
            content = pbm.ServiceInstance("ServiceInstance", stub).RetrieveContent()
            self._profile_manager = content.profileManager._moId
        return pbm.profile.ProfileManager(self._profile_manager, stub)

    def machines(self, site: Site, *, policies: bool) -> list[Machine]:
        step = "listing the VMs"
        root = self._vm_folder(site, step)
        found = self._with_settings(step, [root], ["name"], [MARK], machine_steps())
        marked = [item.obj for item in found if setting(item, MARK) is not None]
        machines = [m for m in self._read_machines(step, marked) if m.mark is not None]
        if policies and machines:
            machines = self._with_policies(machines)
        return sorted(machines, key=lambda machine: (machine.name, machine.ref))

    def _vm_folder(self, site: Site, step: str) -> Any:
        center = vim.Datacenter(site.datacenter, self.session.stub)
        return read(self.session, step, [center], {vim.Datacenter: ["vmFolder"]})[0].get("vmFolder")

    def _read_machines(self, step: str, objects: Sequence[Any]) -> list[Machine]:
        if not objects:
            return []
        found = self._with_settings(step, objects, MACHINE_PATHS, SETTINGS, ())
        return [machine_of(item) for item in found]

    def _with_settings(
        self,
        step: str,
        roots: Sequence[Any],
        paths: Sequence[str],
        keys: Sequence[str],
        steps: Sequence[Any],
    ) -> list[Found]:
        """Read VMs and single settings of theirs; a vCenter that can't name one gives them all."""
        wanted = [*paths, *setting_paths(keys, single=self._single_settings)]
        try:
            return read(self.session, step, roots, {vim.VirtualMachine: wanted}, steps)
        except TaskFailed as error:
            if error.fault != "InvalidProperty" or not self._single_settings:
                raise
            self._single_settings = False
        return self._with_settings(step, roots, paths, keys, steps)

    def machine(self, ref: str, *, policies: bool) -> Machine:
        step = f"reading the VM {ref}"
        found = self._read_machines(step, [self._vm(ref)])
        if not found:
            raise NotFoundInVCenter(self.host, step, "it is no longer there")
        return self._with_policies(found)[0] if policies else found[0]

    def _with_policies(self, machines: Sequence[Machine]) -> list[Machine]:
        """Add the policies of the homes and of every disk, in one call for all."""
        kind = pbm.ServerObjectRef
        entities = [kind(objectType="virtualMachine", key=machine.ref) for machine in machines]
        entities += [
            kind(objectType="virtualDiskId", key=f"{machine.ref}:{disk.key}")
            for machine in machines
            for disk in machine.disks
        ]

        def ask() -> dict[str, str]:
            answer = self._profiles().PbmQueryAssociatedProfiles(entities=entities)
            return {
                str(item.object.key): str(item.profileId[0].uniqueId)
                for item in answer or ()
                if item.profileId
            }

        found = self.session.call("reading the policies of disks", ask, reads=True)
        return [_with(machine, found) for machine in machines]

    def names(self, site: Site, folder: str) -> dict[str, str]:
        step = "reading the folder"
        parent = vim.Folder(folder, self.session.stub)
        found = read(self.session, step, [parent], {vim.Folder: ["childEntity"]})
        children = list(found[0].get("childEntity") or ()) if found else []
        if not children:
            return {}
        named = read(self.session, step, children, {vim.ManagedEntity: ["name"]})
        return {finding.name_of(item): item.ref for item in named}

    def source(self, site: Site, name: str) -> Machine:
        step = "finding the template"
        root = self._vm_folder(site, step)
        paths = {vim.VirtualMachine: ["name"]}
        found = read(self.session, step, [root], paths, machine_steps())
        last = [part for part in name.split("/") if part][-1:] or [name]
        chosen = finding.pick(self.session, step, "template or VM", last[0], found)
        machines = self._read_machines(step, [chosen.obj])
        if not machines:
            raise NotFoundInVCenter(self.host, step, f"{name!r} is no longer there")
        return machines[0]

    def clone(self, order: CloneOrder, *, timeout: float) -> str:
        source = self._vm(order.source)
        folder = vim.Folder(order.folder, self.session.stub)
        step = f"cloning {order.name}"
        if order.kind == "instant":
            spec = self._instant_spec(order, folder)
            result = self._finish(step, lambda: source.InstantClone_Task(spec), timeout)
        else:
            spec = self._clone_spec(order)
            result = self._finish(
                step, lambda: source.CloneVM_Task(folder, order.name, spec), timeout
            )
        return str(result._moId)

    def _location(self, order: CloneOrder) -> Any:
        stub = self.session.stub
        return vim.vm.RelocateSpec(
            datastore=vim.Datastore(order.datastore, stub),
            pool=vim.ResourcePool(order.pool, stub),
            host=vim.HostSystem(order.host, stub),
        )

    def _clone_spec(self, order: CloneOrder) -> Any:
        location = self._location(order)
        location.diskMoveType = _DISK_MOVE[order.kind]
        location.profile = devices.profile(order.policy)
        config = vim.vm.ConfigSpec(
            numCPUs=order.cpus,
            numCoresPerSocket=order.cpus,
            memoryMB=order.memory // 2**20,
            annotation=order.note,
            extraConfig=_options(order.settings),
        )
        spec = vim.vm.CloneSpec(location=location, config=config, powerOn=False, template=False)
        if order.kind == "linked" and order.snapshot is not None:
            spec.snapshot = vim.vm.Snapshot(order.snapshot, self.session.stub)
        return spec

    def _instant_spec(self, order: CloneOrder, folder: Any) -> Any:
        location = self._location(order)
        location.folder = folder
        return vim.vm.InstantCloneSpec(
            name=order.name, location=location, config=_options(order.settings)
        )

    def change(self, ref: str, change: Change, *, timeout: float) -> None:
        vm = self._vm(ref)
        step = f"changing the VM {ref}"
        hardware: list[Any] = []
        if change.add_disks or change.remove_disks or change.policy_disks or change.networks:
            paths = {vim.VirtualMachine: ["config.hardware.device"]}
            found = read(self.session, step, [vm], paths)
            hardware = list(found[0].get("config.hardware.device") or ()) if found else []
        spec = vim.vm.ConfigSpec(
            deviceChange=devices.changes(change, hardware),
            extraConfig=_options(change.settings),
            vmProfile=devices.profile(change.policy),
        )
        if change.cpus is not None:
            spec.numCPUs = spec.numCoresPerSocket = change.cpus
        if change.memory is not None:
            spec.memoryMB = change.memory // 2**20
        if change.note is not None:
            spec.annotation = change.note
        self._finish(step, lambda: vm.ReconfigVM_Task(spec), timeout)

    def power(self, ref: str, wanted: Literal["on", "off"], *, timeout: float) -> None:
        vm = self._vm(ref)
        start = vm.PowerOnVM_Task if wanted == "on" else vm.PowerOffVM_Task
        try:
            self._finish(f"switching {wanted} {ref}", start, timeout)
        except TaskFailed as error:
            if error.fault != "InvalidPowerState" or not self._is(ref, wanted):
                raise

    def _is(self, ref: str, wanted: str) -> bool:
        paths = {vim.VirtualMachine: ["runtime.powerState"]}
        found = read(self.session, f"reading the VM {ref}", [self._vm(ref)], paths)
        return bool(found) and found[0].get("runtime.powerState") == _POWER_STATE[wanted]

    def destroy(self, ref: str, *, timeout: float) -> None:
        try:
            self._finish(f"removing {ref}", self._vm(ref).Destroy_Task, timeout)
        except NotFoundInVCenter:
            return

    def await_guests(
        self,
        refs: Sequence[str],
        ready: Callable[[str, Guest], bool],
        *,
        awaited: str,
        timeout: float,
    ) -> dict[str, Guest]:
        def done(seen: Mapping[str, Mapping[str, Any]]) -> bool:
            return all(ref in seen and ready(ref, guest_of(seen[ref])) for ref in refs)

        if not refs:
            return {}
        seen = watch(
            self.session,
            f"waiting for {awaited}",
            [self._vm(ref) for ref in refs],
            vim.VirtualMachine,
            GUEST_PATHS,
            done,
            timeout=timeout,
            monotonic=self._monotonic,
        )
        return {ref: guest_of(values) for ref, values in seen.items()}

    def rules(self, site: Site) -> list[Rule]:
        return [
            Rule(str(rule.name), frozenset(vm._moId for vm in rule.vm or ()))
            for rule in self._rules(site)
        ]

    def _rules(self, site: Site) -> list[Any]:
        config = self._cluster_config(site)
        rules = getattr(config, "rule", None) or ()
        return [rule for rule in rules if isinstance(rule, vim.cluster.AntiAffinityRuleSpec)]

    def _cluster_config(self, site: Site) -> Any:
        cluster = self._cluster(site)
        paths = {vim.ClusterComputeResource: ["configurationEx"]}
        found = read(self.session, "reading the cluster", [cluster], paths)
        return found[0].get("configurationEx") if found else None

    def set_rule(self, site: Site, rule: Rule, *, timeout: float) -> None:
        there = next((r for r in self._rules(site) if r.name == rule.name), None)
        if there is None and not rule.machines:
            return
        spec = vim.cluster.RuleSpec(operation="add" if there is None else "edit")
        if there is not None and not rule.machines:
            spec = vim.cluster.RuleSpec(operation="remove", removeKey=there.key)
        else:
            spec.info = vim.cluster.AntiAffinityRuleSpec(
                key=there.key if there is not None else None,
                name=rule.name,
                enabled=True,
                vm=[self._vm(ref) for ref in sorted(rule.machines)],
            )
        self._reconfigure(site, vim.cluster.ConfigSpecEx(rulesSpec=[spec]), timeout)

    def pinned(self, site: Site) -> frozenset[str]:
        overrides = getattr(self._cluster_config(site), "drsVmConfig", None) or ()
        return frozenset(item.key._moId for item in overrides if item.enabled is False)

    def pin(self, site: Site, refs: Sequence[str], on: bool, *, timeout: float) -> None:
        overrides = getattr(self._cluster_config(site), "drsVmConfig", None) or ()
        known = {item.key._moId for item in overrides}
        specs = []
        for ref in refs:
            if not on:
                spec = vim.cluster.DrsVmConfigSpec(operation="remove", removeKey=self._vm(ref))
            else:
                spec = vim.cluster.DrsVmConfigSpec(
                    operation="edit" if ref in known else "add",
                    info=vim.cluster.DrsVmConfigInfo(key=self._vm(ref), enabled=False),
                )
            if on or ref in known:
                specs.append(spec)
        if specs:
            self._reconfigure(site, vim.cluster.ConfigSpecEx(drsVmConfigSpec=specs), timeout)

    def _reconfigure(self, site: Site, spec: Any, timeout: float) -> None:
        cluster = self._cluster(site)
        step = f"changing the rules of {site.cluster_name}"
        self._finish(step, lambda: cluster.ReconfigureComputeResource_Task(spec, True), timeout)

    def import_ovf(self, site: Site, source: str, order: CloneOrder, *, timeout: float) -> str:
        return ovf.import_ovf(self.session, source, order, timeout=timeout)

    def deploy_item(
        self, site: Site, name: str, item: str, order: CloneOrder, *, timeout: float
    ) -> str:
        ref = library.deploy_item(self.session, name, item, order, timeout=timeout)
        change = Change(settings=order.settings, note=order.note)
        self.change(ref, change, timeout=timeout)
        return ref

    def close(self) -> None:
        self.session.close()

    def _vm(self, ref: str) -> Any:
        return vim.VirtualMachine(ref, self.session.stub)

    def _cluster(self, site: Site) -> Any:
        return vim.ClusterComputeResource(site.cluster, self.session.stub)

    def _finish(self, step: str, start: Callable[[], Any], timeout: float) -> Any:
        return finish(self.session, step, start, timeout=timeout, monotonic=self._monotonic)


def _with(machine: Machine, policies: Mapping[str, str]) -> Machine:
    disks = tuple(
        replace(disk, policy=policies.get(f"{machine.ref}:{disk.key}")) for disk in machine.disks
    )
    return replace(machine, policy=policies.get(machine.ref), disks=disks)


def _options(settings: Mapping[str, str]) -> list[Any]:
    return [vim.option.OptionValue(key=key, value=value) for key, value in settings.items()]

"""Targets on one worker: which device or file is meant, and why it must not be written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.devices import Device, FileFacts, marks_on
from orchestrator.errors import TargetRefused

#: Directories whose disk is the system's own, whatever an inventory allows.
SYSTEM_MOUNTS = (
    "/",
    "/boot",
    "/boot/efi",
    "/usr",
    "/var",
    "/home",
    "/opt",
    "/etc",
    "/nix",
    "/sysroot",
)

#: What an allow list may cover: leftovers on a disk that nobody uses. The text tells what it is.
LEFTOVERS = {
    "partition-table": "partition table",
    "filesystem": "filesystem signature",
    "swap": "swap signature",
    "lvm": "LVM signature",
    "raid": "RAID signature",
}
#: Also allowed by name, but for jobs that only read.
READ_MOUNTED = "mounted"

#: Names that the kernel deals out anew at each boot (/dev/sdb, /dev/vdb, /dev/nvme1n1).
_LETTERS = re.compile(r"^/dev/(?:sd|vd|xvd|hd)[a-z]+\d*$|^/dev/nvme\d+n\d+(?:p\d+)?$")
_WHOLE_TYPES = ("disk", "part", "loop", "lvm", "crypt", "dm")


@dataclass(frozen=True)
class Wanted:
    """One target as the plan wants it: a `file`, or a block device by serial, wwn, hctl or path.

    Every property given must hold. `allow` names leftovers that may be overwritten.
    """

    label: str
    file: str | None = None
    path: str | None = None
    serial: str | None = None
    wwn: str | None = None
    hctl: str | None = None
    size: int | None = None
    allow: frozenset[str] = frozenset()
    writes: bool = True

    @property
    def stable(self) -> bool:
        """Is it named by something that a reboot doesn't change?"""
        return bool(self.serial or self.wwn or self.hctl)


@dataclass(frozen=True)
class Resolved:
    """A target that may be used: its path now; `number` for a device; what to know about it."""

    label: str
    path: str
    kind: str  # device | file
    size: int | None
    number: str | None = None
    serial: str | None = None
    exists: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """Why a target must not be used. `allowable`: an entry `code` in its allow list covers it."""

    label: str
    path: str
    code: str
    text: str
    allowable: bool = False


@dataclass(frozen=True)
class Judgement:
    """Every target of one worker: those that may be used, and all reasons against the others."""

    host: str
    resolved: tuple[Resolved, ...]
    refusals: tuple[Refusal, ...]

    def require(self) -> tuple[Resolved, ...]:
        """The targets; raises TargetRefused with every reason when one of them is refused."""
        if self.refusals:
            lines = [f"{r.label} ({r.path}): {r.text}" for r in self.refusals]
            allowable = sorted({r.code for r in self.refusals if r.allowable})
            hint = f"; what is a leftover may be allowed: allow: [{', '.join(allowable)}]"
            raise TargetRefused(
                "\n  ".join([f"{self.host}: targets: {len(lines)} reasons not to write", *lines]),
                means="nothing was written on this worker",
                next_step="name other targets in the inventory" + (hint if allowable else ""),
            )
        return self.resolved


def judge(
    host: str,
    wanted: Sequence[Wanted],
    devices: Sequence[Device],
    files: Mapping[str, FileFacts],
    links: Mapping[str, str] | None = None,
) -> Judgement:
    """Judge all targets of one worker at once.

    `links` maps a wanted path (/dev/disk/by-id/...) to the real one. Every reason against every
    target is reported, not the first alone.
    """
    bench = _Bench(tuple(devices), links or {})
    resolved: list[Resolved] = []
    refusals: list[Refusal] = []
    for want in wanted:
        if want.file:
            target, reasons = _judge_file(want, files.get(want.file))
        else:
            target, reasons = bench.judge_device(want)
        refusals += reasons
        if target is not None and not reasons:
            resolved.append(target)
    refusals += _shared(resolved)
    refused = {refusal.label for refusal in refusals}
    return Judgement(host, tuple(t for t in resolved if t.label not in refused), tuple(refusals))


def _shared(resolved: Sequence[Resolved]) -> list[Refusal]:
    """Two targets on one device would measure and overwrite each other."""
    first: dict[str, Resolved] = {}
    refusals = []
    for target in resolved:
        key = target.number or target.path
        other = first.setdefault(key, target)
        if other is not target:
            text = f"is the same {target.kind} as target {other.label}"
            refusals.append(Refusal(target.label, target.path, "same", text))
    return refusals


@dataclass(frozen=True)
class _Bench:
    """What is known of a worker, while its targets are judged."""

    devices: tuple[Device, ...]
    links: Mapping[str, str]
    flat: dict[str, Device] = field(init=False)

    def __post_init__(self) -> None:
        flat: dict[str, Device] = {}
        for device in self.devices:
            for each in device.below():
                flat.setdefault(each.path, each)
        object.__setattr__(self, "flat", flat)

    def judge_device(self, want: Wanted) -> tuple[Resolved | None, list[Refusal]]:
        """Find the device and collect every reason against it."""
        device, refusal = self._find(want)
        if device is None:
            return None, [refusal] if refusal else []
        reasons = list(_misfits(want, device))
        reasons += self._use(want, device)
        refusals = [
            Refusal(want.label, device.path, code, text, allowable)
            for code, text, allowable in reasons
            if not (allowable and code in want.allow)
        ]
        notes = [f"overwrites: {text}" for code, text, ok in reasons if ok and code in want.allow]
        if want.path and self.links.get(want.path, want.path) != device.path:
            notes.append(f"named {want.path}, found by its serial or address as {device.path}")
        target = Resolved(
            want.label,
            device.path,
            "device",
            device.size,
            device.number,
            device.serial,
            notes=tuple(notes),
        )
        return target, refusals

    def _find(self, want: Wanted) -> tuple[Device | None, Refusal | None]:
        if want.stable:
            return self._find_stable(want)
        path = self.links.get(want.path or "", want.path or "")
        device = self.flat.get(path)
        if device is None:
            text = f"absent: fio would create a plain file {want.path} there"
            return None, Refusal(want.label, want.path or "?", "absent", text)
        if want.writes and want.size is None and _LETTERS.match(want.path or ""):
            text = (
                "named by its letter alone, which can be another disk after a reboot; "
                f"add its serial ({device.serial or 'it has none'}), wwn, hctl or size"
            )
            return None, Refusal(want.label, path, "letter", text)
        return device, None

    def _find_stable(self, want: Wanted) -> tuple[Device | None, Refusal | None]:
        names = {"serial": want.serial, "wwn": want.wwn, "hctl": want.hctl}
        given = {key: value for key, value in names.items() if value}
        said = ", ".join(f"{key} {value}" for key, value in given.items())
        found = [
            device
            for device in self.devices
            if all(getattr(device, key) == value for key, value in given.items())
        ]
        if len(found) == 1:
            return found[0], None
        path = want.path or said
        if found:
            paths = ", ".join(device.path for device in found)
            return None, Refusal(want.label, path, "ambiguous", f"{said} fits {paths}")
        there = self.flat.get(want.path or "")
        if there is not None:
            text = f"serial of {there.path} changed: it is {there.serial}, wanted {said}"
        else:
            text = f"absent: no device with {said}"
        return None, Refusal(want.label, path, "absent", text)

    def _use(self, want: Wanted, device: Device) -> Iterator[tuple[str, str, bool]]:
        """(code, text, may be allowed) for every use that the device is in."""
        under = [d for d in self.flat.values() if d is not device and device in d.below()]
        mounts = [point for each in device.below() for point in each.mountpoints]
        parents = [point for each in under for point in each.mountpoints]
        system = next((p for p in mounts + parents if p in SYSTEM_MOUNTS), None)
        if system is not None and (want.writes or READ_MOUNTED not in want.allow):
            yield "system", f"holds {system}: the system's own disk", False
        elif mounts or parents:
            where = "mounted on" if device.mountpoints else "partition or volume mounted on"
            text = f"{where} {', '.join(mounts + parents)}"
            yield "mounted", text, not want.writes
        if not want.writes:
            return
        if any(each.swap for each in device.below()):
            yield "in-use-swap", "in use as swap", False
        yield from _held(device)
        yield from _leftovers(device)


def _misfits(want: Wanted, device: Device) -> Iterator[tuple[str, str, bool]]:
    if device.type not in _WHOLE_TYPES:
        yield "not-a-disk", f"not a disk ({device.type or 'of no known type'})", False
    if want.size is not None and device.size != want.size:
        yield "size", f"has {device.size} bytes, the plan says {want.size}", False
    if not want.writes:
        return
    if device.read_only:
        yield "read-only", "read-only", False
    if not device.writable:
        yield "permission", "this user may not write it", False
    if not device.probed:
        text = "what is on it could not be looked at (no blkid or wipefs, or no permission)"
        yield "unknown", text, False


def _held(device: Device) -> Iterator[tuple[str, str, bool]]:
    """Kernel users of a device: volumes, arrays, multipath maps that stand on it."""
    stacked = [d for d in device.below() if d is not device and d.type != "part"]
    names = list(dict.fromkeys([*device.holders, *(d.name for d in stacked)]))
    names += [name for part in device.children for name in part.holders if name not in names]
    if not names:
        return
    kinds = {d.type for d in stacked}
    marks = {name.lower() for d in device.below() for name in marks_on(d)}
    if "lvm" in kinds or "lvm2_member" in marks:
        what = "LVM member in use"
    elif "mpath" in kinds or "mpath_member" in marks:
        what = "path of a multipath device"
    elif any(kind.startswith("raid") for kind in kinds) or any("raid" in m for m in marks):
        what = "RAID member in use"
    else:
        what = "held by another device"
    yield "in-use", f"{what} ({', '.join(names)})", False


def _leftovers(device: Device) -> Iterator[tuple[str, str, bool]]:
    """What stands on the device and hcio did not write, by kind; a partition's own included."""
    found: dict[str, list[str]] = {}
    for each in device.below():
        if each is device or each.type == "part":
            for mark in marks_on(each):
                found.setdefault(_kind(mark), []).append(mark.removeprefix("pt:"))
    if any(child.type == "part" for child in device.children):
        found.setdefault("partition-table", [])
    for code in LEFTOVERS:
        if code in found:
            marks = ", ".join(dict.fromkeys(found[code]))
            yield code, LEFTOVERS[code] + (f" ({marks})" if marks else ""), True
    if "multipath" in found:
        yield "multipath", "path of a multipath device", False


_PARTITION_TABLES = frozenset(
    {"dos", "gpt", "PMBR", "mac", "sun", "sgi", "bsd", "atari", "minix-pt"}
)


def _kind(mark: str) -> str:
    lowered = mark.lower()
    if mark.startswith("pt:") or mark in _PARTITION_TABLES:
        return "partition-table"
    if lowered in ("swap", "swsuspend", "swapspace2"):
        return "swap"
    if lowered.startswith("lvm"):
        return "lvm"
    if "raid" in lowered or lowered in ("ddf_raid_member", "isw_raid_member"):
        return "raid"
    return "multipath" if lowered == "mpath_member" else "filesystem"


def _file_reasons(want: Wanted, facts: FileFacts) -> Iterator[tuple[str, str]]:
    if facts.kind not in ("absent", "file"):
        yield "not-a-file", f"is a {facts.kind}, not a plain file"
        return
    if facts.path.startswith("/dev/") and not facts.path.startswith("/dev/shm/"):  # noqa: S108 - never made here
        yield "absent", "is below /dev: a plain file there hides a device that is missing"
    if not facts.folder:
        yield "folder", "its folder isn't there"
    elif want.writes and not facts.writable:
        yield "permission", "its folder may not be written by this user"
    if want.writes and facts.kind == "file" and facts.made_by is None:
        yield "foreign", "was not made by hcio (no marker beside it)"
    if not want.writes and facts.kind == "absent":
        yield "absent", "isn't there, and the job only reads"


def _space(want: Wanted, facts: FileFacts) -> Iterator[tuple[str, str]]:
    have = facts.size or 0
    if want.writes and want.size is not None and facts.free is not None:
        missing = want.size - have - facts.free
        if missing > 0:
            yield "space", f"{want.size} bytes wanted, {have + facts.free} are free"


def _judge_file(want: Wanted, facts: FileFacts | None) -> tuple[Resolved | None, list[Refusal]]:
    path = want.file or ""
    if facts is None:
        return None, [Refusal(want.label, path, "unknown", "the worker said nothing about it")]
    reasons = [*_file_reasons(want, facts), *_space(want, facts)]
    refusals = [Refusal(want.label, path, code, text) for code, text in reasons]
    size = want.size if want.size is not None else facts.size
    target = Resolved(want.label, path, "file", size, exists=facts.kind == "file")
    return target, refusals

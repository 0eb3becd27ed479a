"""Whether workers are fit to run fio for us: the checks of `hcio check` that need only SSH."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from orchestrator.engine import Fleet, Member
from orchestrator.plan import wanted_target
from orchestrator.preflight import Finding, NamedCheck, green, red, worst, yellow
from orchestrator.targets import judge
from orchestrator.units import format_size
from orchestrator.worker.facts import WorkerFacts

#: fio 3 and newer have json+ bins in ns; older ones are read, but not run.
OLDEST_FIO = (3, 0)
#: What a run leaves on a worker for a while: logs and results, apart from file targets.
ROOM_BYTES = 64 * 2**20
#: A clock this far off still serves (offsets are measured), but its owner should know.
CLOCK_S = 1.0
CONNECT_LIMIT_S = 300.0
FACTS_LIMIT_S = 180.0


def worker_checks(fleet: Fleet) -> list[NamedCheck]:
    """The checks, in order. They fill the fleet's facts; nothing is written on a worker."""
    ask = _Asked(fleet)
    return [
        NamedCheck("ssh", ask.connect, CONNECT_LIMIT_S),
        NamedCheck("facts", ask.facts, FACTS_LIMIT_S),
        *(
            NamedCheck(name, partial(ask.each, each))
            for name, each in (
                ("fio", _fio),
                ("engine", _engine),
                ("tools", _tools),
                ("work folder", _folder),
                ("targets", _targets),
                ("clock", _clock),
            )
        ),
        NamedCheck("same fio", ask.same_fio),
    ]


Each = Callable[[Member, WorkerFacts], Finding]


class _Asked:
    """The fleet, asked once; every later check reads what it said."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def connect(self) -> Finding:
        errors = self.fleet.connect().errors
        self.fleet.mark_broken(errors)
        count = len(self.fleet.members)
        return worst(
            [red(error.what, error.next_step) for error in errors.values()],
            nothing=f"{count} of {count} workers answer",
        )

    def facts(self) -> Finding:
        names = self.fleet.alive()
        errors = self.fleet.look(names).errors
        self.fleet.mark_broken(errors)
        if not names:
            return red("no worker could be asked", "solve 'ssh' first")
        return worst(
            [red(error.what, error.next_step) for error in errors.values()],
            nothing=f"{len(names)} workers looked at",
        )

    def known(self) -> list[tuple[Member, WorkerFacts]]:
        members = (self.fleet.members[name] for name in self.fleet.alive())
        return [(member, member.facts) for member in members if member.facts is not None]

    def each(self, check: Each) -> Finding:
        """The worst of a check's answers over all workers, each with its name."""
        known = self.known()
        if not known:
            return red("could not run: no worker could be asked", "solve 'ssh' first")
        return _grouped([(member.name, check(member, facts)) for member, facts in known])

    def same_fio(self) -> Finding:
        versions = Counter(facts.fio_version or "none" for _, facts in self.known())
        if not versions:
            return red("could not run: no worker could be asked", "solve 'ssh' first")
        if len(versions) > 1:
            said = ", ".join(f"{count} have {version}" for version, count in versions.items())
            return yellow(said, "give all workers one fio: versions differ in speed and in bugs")
        return green(f"all have {next(iter(versions))}")


def _grouped(findings: Sequence[tuple[str, Finding]]) -> Finding:
    """One finding; workers that say the same stand together."""
    same: dict[Finding, list[str]] = {}
    for name, finding in findings:
        same.setdefault(finding, []).append(name)
    named = [
        replace(finding, evidence=f"{_names(names)}: {finding.evidence}")
        for finding, names in same.items()
    ]
    return worst(named, nothing="no worker")


def _names(names: Iterable[str]) -> str:
    listed = list(names)
    if len(listed) <= 4:
        return ", ".join(listed)
    return f"{', '.join(listed[:3])} and {len(listed) - 3} more"


def _fio(member: Member, facts: WorkerFacts) -> Finding:
    version = facts.fio_version
    if version is None:
        return red("no fio", f"install fio 3 on {member.name} (apt-get install fio)")
    found = re.search(r"(\d+)\.(\d+)", version)
    if found is None:
        return yellow(f"{version}: a version nobody knows", "use a released fio")
    if (int(found[1]), int(found[2])) < OLDEST_FIO:
        return red(f"{version} is too old", "install fio 3 or newer")
    return green(version)


def _engine(member: Member, facts: WorkerFacts) -> Finding:
    if "libaio" in facts.engines:
        return green("has libaio" + (", io_uring" if "io_uring" in facts.engines else ""))
    return red(
        f"fio has no libaio; it has {', '.join(facts.engines) or 'none'}",
        "install a fio with libaio, or set engine= in the profiles to one of these",
    )


def _tools(member: Member, facts: WorkerFacts) -> Finding:
    blocks = any(target.kind == "block" for target in member.worker.targets)
    wanted = ["lsblk", "blkid"] if blocks else []
    missing = [tool for tool in wanted if not facts.tools.get(tool)]
    if missing:
        return red(f"no {', '.join(missing)}", "install util-linux: devices can't be judged")
    if not facts.tools.get("setsid"):
        return yellow("no setsid", "install util-linux: cases can't leave the session as cleanly")
    return green("all that is needed")


def _folder(member: Member, facts: WorkerFacts) -> Finding:
    base = member.worker.work_dir
    if facts.base_owner is not None and facts.base_owner != facts.uid:
        return red(f"{base} belongs to uid {facts.base_owner}", "set work_dir to another folder")
    if not facts.base_writable:
        return red(f"{base} can't be written by {facts.user}", "set work_dir to another folder")
    if facts.base_free is not None and facts.base_free < ROOM_BYTES:
        return red(f"{base}: {facts.base_free} bytes free", f"free {format_size(ROOM_BYTES)} there")
    return green(f"{base} can be written")


def _targets(member: Member, facts: WorkerFacts) -> Finding:
    wanted = [replace(wanted_target(target), writes=True) for target in member.worker.targets]
    judgement = judge(member.name, wanted, facts.devices, facts.files, facts.links)
    if judgement.refusals:
        refusals = "; ".join(f"{r.label} ({r.path}): {r.text}" for r in judgement.refusals)
        allow = sorted({r.code for r in judgement.refusals if r.allowable})
        hint = f", or allow the leftovers: allow: [{', '.join(allow)}]" if allow else ""
        return red(refusals, f"name other targets in the inventory{hint}")
    count = len(judgement.resolved)
    return green(f"{count} target{'s' if count != 1 else ''} may be written")


def _clock(member: Member, facts: WorkerFacts) -> Finding:
    if member.looked is None:
        return red("not measured", "check again")
    offset, uncertainty = member.looked
    if abs(offset) > CLOCK_S + uncertainty:
        return yellow(
            f"{offset:+.1f} s off",
            "hcio allows for it; let NTP or chrony set it, so that other logs fit too",
        )
    return green(f"within {CLOCK_S:g} s")

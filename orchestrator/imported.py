"""Results made elsewhere as a result of ours: HCIBench's folders, and summaries without files.

A VM's file holds several cumulative documents; the last complete one counts. A VM whose file is
missing is missing here too. Where only HCIBench's summary is left, its rates are taken and
nothing else: a mean without weights and an averaged percentile are no figures of ours.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.analysis import UniqueNames, analyse_case
from orchestrator.checks import verdict_of
from orchestrator.errors import ConfigError, IncompatibleResults, UnreadableOutput
from orchestrator.evidence import CaseExpectation, WorkerEvidence
from orchestrator.fio_output import parse_fio_output
from orchestrator.hcibench import HcibenchName, parse_name
from orchestrator.hcibench_differences import Difference, ImportedCase, differences
from orchestrator.hcibench_folders import Round, group_number, rounds, split_folder
from orchestrator.hcibench_rates import from_summaries
from orchestrator.hcibench_summary import Summary, parse_settings, parse_summary, parse_usage
from orchestrator.results import (
    CaseResult,
    Reason,
    RunResult,
)
from orchestrator.suites import ALL
from orchestrator.units import parse_size
from orchestrator.workload import workload_of

#: Seconds that fio still expected to run when it wrote a document.
_ETA: Final = re.compile(rb'"eta"\s*:\s*(\d+)')
#: Configuration that says what a test ran under, from hcibench.cfg.
_STATED: Final = (
    "storage_policy",
    "number_vm",
    "number_cpu",
    "size_ram",
    "number_data_disk",
    "size_data_disk",
    "warm_up_disk_before_testing",
    "testing_duration",
    "clear_cache",
    "easy_run",
    "latency_target",
    "tool",
    "multi_writer",
    "k8s_storage_class",
)


@dataclasses.dataclass(frozen=True)
class CaseFolder:
    """One case's texts. `outputs` is VM to its file, read when asked for; None: no such file."""

    name: str
    outputs: Mapping[str, bytes]
    summary: str | None = None
    #: hcibench.cfg, read
    configuration: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    #: vsan.cfg and resource_usage.info, as they are
    vsan: str | None = None
    usage: str | None = None


class ImportedRun(Struct, frozen=True):
    """The result as hcio's, and HCIBench's own words by folder."""

    result: RunResult
    cases: tuple[ImportedCase, ...]
    #: by folder, a VM's file to the worker's name: groups may use one name twice
    workers: Mapping[str, Mapping[str, str]]
    #: by case and group, what was measured, as a profile's fields
    workloads: Mapping[str, Mapping[str, Mapping[str, Any]]]


def import_hcibench(folders: Iterable[CaseFolder], *, source: str) -> ImportedRun:
    """All cases of a test. `source` says where they come from.

    Raises IncompatibleResults when there is no case in it.
    """
    found = {folder.name: folder for folder in folders}
    if not found:
        raise IncompatibleResults(
            f"{source}: no result of HCIBench in it",
            means="there is neither a …-res.txt nor a folder named <case>-<epoch> with VMs' files",
            next_step="give a test's folder below /opt/output/results, or one case's folder",
        )
    results: list[CaseResult] = []
    cases: list[ImportedCase] = []
    workers: dict[str, dict[str, str]] = {}
    workloads: dict[str, dict[str, dict[str, Any]]] = {}
    for one in rounds(found):
        members = [found[name] for name in one.folders]
        names = UniqueNames()
        workers |= {f.name: {vm: names.unique(vm) for vm in f.outputs} for f in members}
        result = _result_of(one, members, workers)
        results.append(result)
        cases += [_said_of(one, folder, result) for folder in members]
        workloads[one.case] = {_group(f) if one.mixed else ALL: _workload(f) for f in members}
    provenance = {
        "imported": "hcibench",
        "source": source,
        "conditions": _conditions(list(found.values())),
        "hcibench": {_key(item): msgspec.to_builtins(item) for item in cases},
    }
    return ImportedRun(
        RunResult(cases=tuple(results), provenance=provenance), tuple(cases), workers, workloads
    )


def _workload(folder: CaseFolder) -> dict[str, Any]:
    """What a folder's VMs ran, by the first file that says it (all got the same job file), else by
    the folder's name."""
    for vm in folder.outputs:
        try:
            found = workload_of(parse_fio_output(folder.outputs[vm], vm).jobs)
        except UnreadableOutput:
            continue
        if found:
            return found
    name = _name(folder.name)
    if name is None:
        return {}
    return {
        "block_size": parse_size(name.block),
        "read_percent": name.read_percent,
        "random_percent": name.random_percent,
        "distribution": "random",
    }


def _key(item: ImportedCase) -> str:
    return item.case if item.group is None else f"{item.case}/{item.group}"


def _result_of(
    one: Round, folders: Sequence[CaseFolder], workers: Mapping[str, Mapping[str, str]]
) -> CaseResult:
    """A round's case: from the VMs' files where there are any, else from the summaries."""
    if not any(folder.outputs for folder in folders):
        return from_summaries(one.case, [(_name(f.name), _summary(f)) for f in folders])
    result = _from_outputs(one, folders, workers)
    reasons = list(result.verdict.reasons)
    if unsaid := [folder.name for folder in folders if _configured(folder) is None]:
        reasons.append(_vms_not_known(unsaid))
    if one.mixed:
        reasons.append(_not_together(folders))
    # HCIBench's files don't say how long the ramp was
    timing = replace(result.timing, ramp_s=None)
    return replace(result, verdict=verdict_of(reasons), timing=timing)


def _vms_not_known(folders: Sequence[str]) -> Reason:
    return Reason(
        code="expected-workers-not-known",
        text="how many VMs the test had is not known: HCIBench says nothing of a VM whose file "
        "is missing, and there is no configuration that can be read",
        threshold="number_vm in hcibench.cfg",
        evidence=", ".join(folders),
        next_step="import the whole folder with its hcibench.cfg",
    )


def _not_together(folders: Sequence[CaseFolder]) -> Reason:
    return Reason(
        code="groups-not-together",
        text="HCIBench starts each group by itself and keeps no instant of a start: the total is "
        "the sum of groups that may not have measured at the same time",
        threshold="one start for all",
        evidence=", ".join(folder.name for folder in folders),
        next_step="read the groups one by one, or run the mix again where all start at one instant",
    )


def _said_of(one: Round, folder: CaseFolder, result: CaseResult) -> ImportedCase:
    """HCIBench's words of one folder, held against the case or, in a mix, against its group."""
    summary = _summary(folder)
    found: tuple[Difference, ...] = ()
    if summary is not None:
        group = result.groups.get(_group(folder)) if one.mixed else None
        held = group if group is not None else result
        total = held.total if folder.outputs else None
        found = differences(summary, total, held.received_workers)
        if not folder.outputs:
            found = tuple(replace(item, differs=False, why="no files") for item in found)
    return ImportedCase(
        case=one.case,
        folder=folder.name,
        group=_group(folder) if one.mixed else None,
        started=split_folder(folder.name)[1],
        summary=summary,
        differences=found,
        usage={} if folder.usage is None else parse_usage(folder.usage),
    )


def _group(folder: CaseFolder) -> str:
    return split_folder(folder.name)[0]


def _summary(folder: CaseFolder) -> Summary | None:
    return None if folder.summary is None else parse_summary(folder.summary)


def _name(folder: str) -> HcibenchName | None:
    # vdbench's names have the same form
    base = split_folder(folder)[0].replace("vdb-", "fio-")
    try:
        return parse_name(base[base.index("fio-") :] if "fio-" in base else base)
    except ConfigError:
        return None


def _from_outputs(
    one: Round, folders: Sequence[CaseFolder], workers: Mapping[str, Mapping[str, str]]
) -> CaseResult:
    """The case from all VMs' files; a VM that left none is missing."""
    names = UniqueNames()
    groups: dict[str, tuple[str, ...]] = {}
    evidence: list[Iterator[WorkerEvidence]] = []
    for folder in folders:
        vms = {name: vm for vm, name in workers[folder.name].items()}
        count = _expected(folder) - len(vms)
        missing = [names.unique(f"missing-{n + 1}") for n in range(count)]
        groups[_group(folder)] = (*vms, *missing)
        evidence.append(_evidence(folder.outputs, vms, missing))
    expected = CaseExpectation(
        case=one.case,
        workers=tuple(vm for members in groups.values() for vm in members),
        groups=groups,
        runtime_s=_duration(folders),
        reads=any(name.read_percent > 0 for f in folders if (name := _name(f.name))),
    )
    return analyse_case(
        expected, chain(*evidence), policy_satisfied=lambda received, _: received > 0
    )


def _duration(folders: Sequence[CaseFolder]) -> float | None:
    """The seconds that all folders' configurations ask for; None when they don't agree."""
    asked = {folder.configuration.get("testing_duration") for folder in folders}
    duration = asked.pop() if len(asked) == 1 else None
    return float(duration) if isinstance(duration, int) and duration > 0 else None


def _evidence(
    outputs: Mapping[str, bytes], vms: Mapping[str, str], missing: Sequence[str]
) -> Iterator[WorkerEvidence]:
    """One VM after the other, so that only one file need be in memory. `vms` is name to file."""
    for name, vm in vms.items():
        data = outputs[vm]
        if _ended(data):
            yield WorkerEvidence(name, output=data)
        else:
            reason = "fio did not get to its end; its last state is kept"
            yield WorkerEvidence(name, outcome="failed", reason=reason, output=data)
    for name in missing:
        yield WorkerEvidence(name, outcome="broken", reason="HCIBench left no file of it")


def _expected(folder: CaseFolder) -> int:
    """How many VMs the folder should hold: as configured, or as many as its summary counted."""
    said = 0
    if folder.summary is not None:
        summary = parse_summary(folder.summary)
        said = summary.vms + summary.finished_early
    return max(_configured(folder) or 0, said, len(folder.outputs))


def _configured(folder: CaseFolder) -> int | None:
    """How many VMs the configuration asks for; None when it doesn't say, or isn't there."""
    asked: Any = folder.configuration.get("number_vm")
    if stated := folder.configuration.get("vm_groups"):
        asked = _group_size(folder, stated)
    return asked if isinstance(asked, int) and not isinstance(asked, bool) and asked > 0 else None


def _group_size(folder: CaseFolder, stated: Any) -> Any:
    """`number_vm` of the group whose number the folder bears; groups count from 1."""
    place = (group_number(folder.name) or 0) - 1
    if not isinstance(stated, list) or not 0 <= place < len(stated):
        return None
    return stated[place].get("number_vm") if isinstance(stated[place], dict) else None


def _ended(data: bytes) -> bool:
    """Whether the last document is fio's final one, with no time left."""
    match = _ETA.match(data, max(0, data.rfind(b'"eta"')))
    return match is None or int(match[1]) == 0


def _conditions(folders: Sequence[CaseFolder]) -> dict[str, Any]:
    """What the test's configuration states; values that differ between cases are left out."""
    found: dict[str, Any] = {}
    for key in _STATED:
        values = [folder.configuration.get(key) for folder in folders if folder.configuration]
        if values and values[0] is not None and all(value == values[0] for value in values):
            found[key] = values[0]
    texts = {folder.vsan for folder in folders if folder.vsan}
    if len(texts) == 1:
        found |= parse_settings(texts.pop())
    return found


def with_provenance(run: RunResult, /, **more: Any) -> RunResult:
    """The result with more said about where it comes from."""
    return replace(run, provenance={**run.provenance, **more})

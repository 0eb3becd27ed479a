"""Results made elsewhere as a result of ours: HCIBench's folders, and summaries without files.

A VM's file holds several cumulative documents; the last complete one counts. A VM whose file is
missing is missing here too. Where only HCIBench's summary is left, its rates are taken and
nothing else: a mean without weights and an averaged percentile are no figures of ours.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.analysis import analyse_case
from orchestrator.errors import ConfigError, IncompatibleResults
from orchestrator.evidence import CaseExpectation, WorkerEvidence
from orchestrator.hcibench import HcibenchName, parse_name
from orchestrator.hcibench_summary import (
    Difference,
    Summary,
    differences,
    parse_settings,
    parse_summary,
    parse_usage,
    split_folder,
    total_of,
)
from orchestrator.repeats import repeat_id
from orchestrator.results import (
    CaseResult,
    DirectionResult,
    Reason,
    RunResult,
    TotalResult,
    Verdict,
)
from orchestrator.units import parse_size

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


class ImportedCase(Struct, frozen=True):
    """What HCIBench said of a case, beside what its files hold."""

    case: str
    started: int | None
    summary: Summary | None
    differences: tuple[Difference, ...]
    usage: Mapping[str, Mapping[str, float]] = {}


class ImportedRun(Struct, frozen=True):
    """The result as hcio's, and HCIBench's own words by case."""

    result: RunResult
    cases: tuple[ImportedCase, ...]


def import_hcibench(folders: Iterable[CaseFolder], *, source: str) -> ImportedRun:
    """All cases of a test. `source` says where they come from.

    Raises IncompatibleResults when there is no case in it.
    """
    ordered = sorted(folders, key=lambda f: (split_folder(f.name)[1] or 0, f.name))
    if not ordered:
        raise IncompatibleResults(
            f"{source}: no result of HCIBench in it",
            means="there is neither a …-res.txt nor a folder named <case>-<epoch> with VMs' files",
            next_step="give a test's folder below /opt/output/results, or one case's folder",
        )
    ids = case_ids([folder.name for folder in ordered])
    results: list[CaseResult] = []
    cases: list[ImportedCase] = []
    for case, folder in zip(ids, ordered, strict=True):
        result, imported = _import_case(case, folder)
        results.append(result)
        cases.append(imported)
    provenance = {
        "imported": "hcibench",
        "source": source,
        "conditions": _conditions(ordered),
        "hcibench": {item.case: msgspec.to_builtins(item) for item in cases},
    }
    return ImportedRun(RunResult(cases=tuple(results), provenance=provenance), tuple(cases))


def case_ids(names: Sequence[str]) -> list[str]:
    """Case ids of result folders: the epoch taken off, the same case again made a repeat."""
    bases = [split_folder(name)[0] for name in names]
    seen: dict[str, int] = {}
    ids = []
    for base in bases:
        seen[base] = seen.get(base, 0) + 1
        ids.append(repeat_id(base, seen[base]) if bases.count(base) > 1 else base)
    return ids


def _import_case(case: str, folder: CaseFolder) -> tuple[CaseResult, ImportedCase]:
    summary = None if folder.summary is None else parse_summary(folder.summary)
    name = _name(folder.name)
    if folder.outputs:
        result = _from_outputs(case, folder, name)
        found = () if summary is None else differences(summary, result)
    else:
        result, found = _from_summary(case, summary, name), ()
        if summary is not None:
            alone = differences(summary, replace(result, total=None))
            found = tuple(replace(item, differs=False, why="no files") for item in alone)
    usage = {} if folder.usage is None else parse_usage(folder.usage)
    return result, ImportedCase(case, split_folder(folder.name)[1], summary, found, usage)


def _name(folder: str) -> HcibenchName | None:
    base = split_folder(folder)[0]
    try:
        return parse_name(base[base.index("fio-") :] if "fio-" in base else base)
    except ConfigError:
        return None


def _from_outputs(case: str, folder: CaseFolder, name: HcibenchName | None) -> CaseResult:
    missing = [f"missing-{n + 1}" for n in range(_expected(folder) - len(folder.outputs))]
    duration = folder.configuration.get("testing_duration")
    expected = CaseExpectation(
        case=case,
        workers=(*folder.outputs, *missing),
        runtime_s=float(duration) if isinstance(duration, int) and duration > 0 else None,
        reads=name is not None and name.read_percent > 0,
    )
    evidence = _evidence(folder.outputs, missing)
    return analyse_case(expected, evidence, policy_satisfied=lambda received, _: received > 0)


def _evidence(outputs: Mapping[str, bytes], missing: Sequence[str]) -> Iterator[WorkerEvidence]:
    """One VM after the other, so that only one file need be in memory."""
    for vm, data in outputs.items():
        if _ended(data):
            yield WorkerEvidence(vm, output=data)
        else:
            reason = "fio did not get to its end; its last state is kept"
            yield WorkerEvidence(vm, outcome="failed", reason=reason, output=data)
    for vm in missing:
        yield WorkerEvidence(vm, outcome="broken", reason="HCIBench left no file of it")


def _expected(folder: CaseFolder) -> int:
    asked = folder.configuration.get("number_vm")
    if (
        not isinstance(asked, int)
        or isinstance(asked, bool)
        or folder.configuration.get("vm_groups")
    ):
        return len(folder.outputs)
    return max(asked, len(folder.outputs))


def _ended(data: bytes) -> bool:
    """Whether the last document is fio's final one, with no time left."""
    match = _ETA.match(data, max(0, data.rfind(b'"eta"')))
    return match is None or int(match[1]) == 0


def _from_summary(case: str, summary: Summary | None, name: HcibenchName | None) -> CaseResult:
    blocks = () if summary is None else summary.blocks
    iops = total_of(blocks, "iops")
    rate = None
    if iops is not None and name is not None:
        rate = iops * parse_size(name.block)
    vms = [block.vms for block in blocks if block.vms is not None]
    early = sum(block.finished_early for block in blocks)
    text = "HCIBench's summary alone: rates as printed"
    if name is not None and 0 < name.read_percent < 100:
        text += f", split by the workload's {name.read_percent} % of reads"
    reason = Reason(
        code="from-summary",
        text=text + "; latencies and percentiles averaged over VMs are not taken",
        next_step="import the folder with the VMs' own files, where it still exists",
    )
    received = max(vms, default=0)
    return CaseResult(
        case=case,
        outcome="done" if iops is not None else "failed",
        verdict=Verdict(value="unknown", reasons=(reason,)),
        expected_workers=received + early,
        received_workers=received,
        total=None if iops is None else _split(iops, rate, name),
        workers={},
        degraded=early > 0,
        reason=None if iops is not None else "the summary holds no figures",
    )


def _split(iops: float, rate: float | None, name: HcibenchName | None) -> TotalResult:
    """Reads and writes by the workload's percent; all as reads or writes when that isn't known
    would be made up, so both are unknown then."""
    if name is None:
        return TotalResult()
    share = name.read_percent / 100

    def part(of: float) -> DirectionResult | None:
        if of == 0:
            return None
        bytes_per_s = None if rate is None else rate * of
        return DirectionResult(ios=None, bytes=None, iops=iops * of, bytes_per_s=bytes_per_s)

    return TotalResult(read=part(share), write=part(1 - share))


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

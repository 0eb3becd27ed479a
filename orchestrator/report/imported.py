"""HCIBench's words of an imported run: its figures beside those of its files, and hosts' usage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from orchestrator.hcibench_differences import Difference, ImportedCase
from orchestrator.hcibench_summary import Block, Summary
from orchestrator.results import CaseResult, RunResult


def render_imported(run: RunResult) -> str:
    """What HCIBench said, folder by folder; empty for a run that isn't imported from it."""
    try:
        found = msgspec.convert(run.provenance.get("hcibench", {}), dict[str, ImportedCase])
    except msgspec.ValidationError:
        return ""
    cases = {case.case: case for case in run.cases}
    texts = ["\n".join(_folder(item, cases.get(item.case))) for item in found.values()]
    return "\nHCIBench's own words\n" + "".join(f"{text}\n" for text in texts) if texts else ""


def _folder(item: ImportedCase, case: CaseResult | None) -> Iterator[str]:
    yield f"{_name(item)}: {_received(item, case)}"
    if item.differences:
        yield f"  {'figure':<24} {'HCIBench says':>16} {'its files hold':>16}"
        yield from map(_difference, item.differences)
    if item.summary is not None:
        if len(item.summary.blocks) > 1:
            yield from map(_block, item.summary.blocks)
        yield from _left_out(item.summary)
        yield from _usage(item.summary.resources)


def _name(item: ImportedCase) -> str:
    return item.case if item.group is None else f"{item.case}/{item.group}"


def _received(item: ImportedCase, case: CaseResult | None) -> str:
    held = None if case is None else case.groups.get(item.group) if item.group else case
    return (
        "summary only"
        if held is None
        else f"{held.received_workers} of " + (f"{held.expected_workers} VMs")
    )


def _difference(item: Difference) -> str:
    words = f"  {item.why}" if item.differs else ""
    figure = f"{item.figure} ({item.unit})"
    return f"  {figure:<24} {_said(item.theirs):>16} {_said(item.ours):>16}{words}"


def _said(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4f}"


def _block(block: Block) -> str:
    """One job on one datastore, in HCIBench's order; what it doesn't print is left out."""
    figures = (
        (block.vms, "{:,} VMs"),
        (block.iops, "{:,.2f} IOPS"),
        (block.throughput_mib, "{:,.2f} MiB/s"),
        (block.read_ms, "read {:g} ms"),
        (block.write_ms, "write {:g} ms"),
        (block.read_p95_ms, "read p95 {:g} ms"),
        (block.write_p95_ms, "write p95 {:g} ms"),
    )
    where = " ".join(part for part in (block.store, block.job) if part) or "?"
    return f"  {where}: " + ", ".join(text.format(v) for v, text in figures if v is not None)


def _left_out(summary: Summary) -> Iterator[str]:
    if summary.finished_early:
        yield f"  left out by HCIBench: {summary.finished_early} VMs that finished early"
    for store in summary.unsummarized:
        yield f"  {store or 'a datastore'}: all VMs finished early, nothing is summarized"


def _usage(usage: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Percent over HCIBench's window, ramp and download included."""
    for host, metrics in usage.items():
        yield f"  {host}: " + ", ".join(f"{name} {value:g} %" for name, value in metrics.items())

"""The block that HCIBench users know, with right figures in it.

HCIBench's own (parseFioResult.rb) averages percentiles and means over VMs without weights and
prints whole MiB/s as MB/s. Here percentiles are read from summed histograms, means are weighted
by I/O count, MB/s are 10^6 bytes a second, and VMs that are missing are counted out loud.
"""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.results import CaseResult, DirectionResult, RunResult

_RULE = "=" * 60


def render_hcibench(run: RunResult) -> str:
    """One block for each case, ending in a line end."""
    lines: list[str] = []
    for case in run.cases:
        lines += _block(case)
    return "\n".join(lines) + "\n"


def _block(case: CaseResult) -> Iterator[str]:
    stores = {worker.datastore for worker in case.workers.values() if worker.datastore}
    yield f"Datastore     = {', '.join(sorted(stores)) or 'not known'}"
    missing = case.expected_workers - case.received_workers
    if missing:
        yield f"There are {missing} VMs finished testing early or failed, not in the totals"
    yield _RULE
    for label, value in _rows(case):
        yield f"{label:<14}= {value}"
    yield _RULE
    for name, worker in case.workers.items():
        if not worker.counted:
            yield f"{name}: {worker.outcome}: {worker.reason}"


def _rows(case: CaseResult) -> Iterator[tuple[str, str]]:
    total = case.total
    read = total.read if total else None
    write = total.write if total else None
    yield "JOB_NAME", case.case
    yield "VMs", f"{case.received_workers} of {case.expected_workers}"
    yield "IOPS", _sum((read, write), "iops", 1.0, "IO/S")
    yield "THROUGHPUT", _sum((read, write), "bytes_per_s", 1e6, "MB/s")
    yield "R_LATENCY", _ms(_mean(read))
    yield "W_LATENCY", _ms(_mean(write))
    yield "95%tile_R_LAT", _ms(_percentile(read, "95"))
    yield "95%tile_W_LAT", _ms(_percentile(write, "95"))
    yield "99%tile_R_LAT", _ms(_percentile(read, "99"))
    yield "99%tile_W_LAT", _ms(_percentile(write, "99"))
    yield "VERDICT", f"{case.outcome}, {case.verdict.value}"


def _sum(sides: tuple[DirectionResult | None, ...], figure: str, size: float, unit: str) -> str:
    values = [getattr(side, figure) for side in sides if side is not None]
    if not values or None in values:
        return "not known"
    return f"{sum(values) / size:.2f} {unit}"


def _mean(side: DirectionResult | None) -> float | None:
    return side.latency_ns.mean if side is not None and side.latency_ns is not None else None


def _percentile(side: DirectionResult | None, key: str) -> float | None:
    if side is None or side.latency_ns is None:
        return None
    return side.latency_ns.percentiles.get(key)


def _ms(ns: float | None) -> str:
    return "not measured" if ns is None else f"{ns / 1e6:.4f} ms"

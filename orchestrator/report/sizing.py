"""A sizing as people and programs read it: inputs with their sources, the steps, what came out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.sizing import Sizing
from orchestrator.sizing_inputs import INPUTS, Input, Value


def render_sizing(sizing: Sizing) -> str:
    """The whole derivation: every input and its source, every step, and the result."""
    sections = [
        ("inputs", _input_lines(sizing.inputs)),
        ("steps", [str(step) for step in sizing.steps]),
        ("result", _result_lines(sizing)),
    ]
    lines = [f"formula {sizing.formula}"]
    for title, body in sections:
        lines += ["", title, *(f"  {line}" for line in body)]
    return "\n".join(lines) + "\n"


def sizing_document(sizing: Sizing) -> dict[str, Any]:
    """What `--json` prints; sizes in bytes, times in seconds."""
    latency = sizing.latency_us
    return {
        "schema": 1,
        "formula": sizing.formula,
        "inputs": {
            value.name: {
                "value": value.value,
                "source": value.source,
                "overridden": value.overridden,
            }
            for value in sizing.inputs
        },
        "steps": [str(step) for step in sizing.steps],
        "result": {
            "workers": sizing.workers,
            "disks_per_worker": sizing.disks_per_worker,
            "disk_bytes": sizing.disk_gib * 2**30,
            "deployed_bytes": sizing.deployed_gib * 2**30,
            "cpus": sizing.cpus,
            "memory_bytes": sizing.memory_gib * 2**30,
            "iodepth_random": sizing.iodepth_random,
            "iodepth_sequential": sizing.iodepth_sequential,
            "large_block_bytes": sizing.large_block,
            "prepare": sizing.prepare,
            "compress_percent": sizing.compress_percent,
            "dedupe_percent": sizing.dedupe_percent,
            "latency_target_ns": None
            if latency is None
            else {"random": latency[0] * 1000, "sequential": latency[1] * 1000},
            "workloads": list(sizing.workloads),
            "runtime_s": sizing.runtime_s,
            "ramp_s": sizing.ramp_s,
        },
    }


def _input_lines(inputs: Sequence[Input]) -> list[str]:
    width = max(len(value.name) for value in inputs)
    return [
        f"{value.name:<{width}}  {_shown(value.value):>8}  {_source(value):<22} "
        f"{INPUTS[value.name].meaning}"
        for value in inputs
    ]


def _source(value: Input) -> str:
    if value.overridden is None:
        return value.source
    return f"{value.source} (vcenter: {_shown(value.overridden)})"


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _result_lines(sizing: Sizing) -> list[str]:
    data = ""
    if sizing.compress_percent is not None:
        data = f", cases {sizing.compress_percent} % compressible, {sizing.dedupe_percent} % dedupe"
    lines = [
        f"{sizing.workers} workers with {sizing.cpus} vCPU and {sizing.memory_gib} GiB",
        f"{sizing.disks_per_worker} disks of {sizing.disk_gib} GiB each: "
        f"{sizing.deployed_gib} GiB in all",
        f"iodepth {sizing.iodepth_random} random, {sizing.iodepth_sequential} sequential "
        f"(blocks of {sizing.large_block // 1024}k)",
        f"prepare {sizing.prepare}{data}",
        f"cases {', '.join(sizing.workloads)}: {sizing.ramp_s} s ramp, {sizing.runtime_s} s each",
    ]
    if sizing.latency_us is not None:
        random, sequential = sizing.latency_us
        lines.append(f"latency target p95 {random} us random, {sequential} us sequential")
    return lines

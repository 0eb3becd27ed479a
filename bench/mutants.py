"""The mutation fuzzer: recorded outputs, damaged at random; no crash, no silent wrong number.

A mutant's result is held against a reader that knows nothing of ours: the last complete JSON
document by Python's own decoder, its figures summed plainly. A figure of ours must be that one,
or not be there, or stand under a verdict that isn't valid. Figures of mutants whose damage left a
document that agrees with itself but not with the original can't be told from a measurement; they
are counted.
"""

from __future__ import annotations

import json
import math
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pool
from pathlib import Path
from typing import Any

from msgspec import Struct

from orchestrator.analysis import merge_files
from orchestrator.errors import HcioError
from orchestrator.hcibench_summary import parse_summary
from orchestrator.imported import CaseFolder, import_hcibench
from orchestrator.metrics import parse_metric
from orchestrator.report.imported import render_imported
from orchestrator.results import CaseResult, read_result, write_result

DATA = Path(__file__).parents[1] / "tests" / "data"
MUTANTS = 100_000
PROCESSES = 2
_CHUNK = 500
#: Larger files only make the same mutations slower.
_LARGEST = 120_000
_TOKENS = (b"nan", b"-1", b"1e999", b"{", b"}", b'"', b"null", b"[]", b"9" * 25, b"\xff\x00", b"\n")
_NUMBER = re.compile(rb"(?<=: )-?\d+(?:\.\d+)?")
#: C's own words for what isn't a number.
_NOT_FINITE = re.compile(r"(?<=: )-?(?:nan|inf)\b")
#: A rate that a document doesn't have counts as 0; a mean that it lacks can't be held against it.
_ABSENT = dict.fromkeys(("read.iops", "write.iops", "read.bytes_per_s", "write.bytes_per_s"), 0.0)
_FIGURES = tuple(_ABSENT)


class Tally(Struct):
    """What became of the mutants, and what went wrong with which."""

    mutants: int = 0
    refused: int = 0
    doubted: int = 0
    same: int = 0
    undetectable: int = 0
    failures: list[str] = []

    def add(self, other: Tally) -> None:
        """Add another tally."""
        self.mutants += other.mutants
        self.refused += other.refused
        self.doubted += other.doubted
        self.same += other.same
        self.undetectable += other.undetectable
        self.failures = [*self.failures, *other.failures]


def recorded() -> list[Path]:
    """The recorded outputs that give a result, and the summaries: what is mutated."""
    found = [
        path for folder in ("cases", "truth", "hcibench") for path in (DATA / folder).rglob("*")
    ]
    return sorted(
        path
        for path in found
        if path.suffix in (".json", ".txt")
        and 0 < path.stat().st_size <= _LARGEST
        and (path.name.endswith("-res.txt") or _gives_a_result(path.read_bytes()))
    )


def _gives_a_result(data: bytes) -> bool:
    return merge_files([("w", data)]).cases[0].total is not None


def mutant(data: bytes, chance: random.Random) -> bytes:
    """The bytes after one to three mutations; half of the mutants have one changed number only."""
    if chance.random() < 0.5:
        return _number(data, chance)
    for _ in range(chance.randint(1, 3)):
        data = _damage(data, chance)
    return data


def _number(data: bytes, chance: random.Random) -> bytes:
    spans = [match.span() for match in _NUMBER.finditer(data)]
    if not spans:
        return _damage(data, chance)
    begin, end = chance.choice(spans)
    old = data[begin:end]
    place = chance.randrange(len(old))
    digit = str(chance.randrange(10)).encode()
    new = chance.choice(
        (
            old[:place] + digit + old[place + 1 :],
            old + digit,
            old[1:] or b"0",
            b"0",
            b"-" + old,
            old + b"e3",
            chance.choice(_TOKENS),
            str(chance.randrange(1 << chance.randrange(1, 70))).encode(),
        )
    )
    return data[:begin] + new + data[end:]


def _damage(data: bytes, chance: random.Random) -> bytes:
    begin = chance.randrange(len(data)) if data else 0
    end = min(len(data), begin + chance.randint(1, 400))
    match chance.randrange(6):
        case 0:
            return data[:begin] + data[end:]
        case 1:
            return data[:begin] + bytes([chance.randrange(256)]) + data[begin + 1 :]
        case 2:
            return data[:begin] + data[begin:end] + data[begin:]
        case 3:
            return data[:begin]
        case 4:
            lines = data.split(b"\n")
            one, two = chance.randrange(len(lines)), chance.randrange(len(lines))
            lines[one], lines[two] = lines[two], lines[one]
            return b"\n".join(lines)
        case _:
            return data[:begin] + chance.choice(_TOKENS) + data[begin:]


# -- the reader that knows nothing of ours ---------------------------------------------------------


def plain_figures(data: bytes) -> dict[str, float] | None:
    """The rates of the last complete document, summed over its jobs; None when it has none."""
    text = data.decode("utf-8", "replace").replace("\x00", "")
    text = _NOT_FINITE.sub("null", text)
    decoder = json.JSONDecoder()
    found = None
    position = text.find("{")
    while position >= 0:
        try:
            document, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            if isinstance(document, dict) and (
                document.get("jobs") or document.get("client_stats")
            ):
                found = document
        position = text.find("{", end)
    return None if found is None else _plain_sum(found)


def _plain_sum(document: dict[str, Any]) -> dict[str, float] | None:
    jobs = document.get("jobs") or document.get("client_stats") or []
    sums: dict[str, float] = {}
    for job in jobs:
        if not isinstance(job, dict) or job.get("jobname") == "All clients":
            continue
        for name in ("read", "write"):
            part = job.get(name)
            if not isinstance(part, dict):
                continue
            for ours, theirs in (("iops", "iops"), ("bytes_per_s", "bw_bytes")):
                value = part.get(theirs)
                if theirs not in part and isinstance(part.get("bw"), int | float):
                    value = part["bw"] * 1024  # before bw_bytes there was KiB/s alone
                if isinstance(value, int | float) and math.isfinite(value):
                    key = f"{name}.{ours}"
                    sums[key] = sums.get(key, 0.0) + value
    return sums | dict(_plain_means(jobs))


def _plain_means(jobs: Sequence[Any]) -> Iterator[tuple[str, float]]:
    """`read.lat` and the like: means weighted by their counts, over all jobs that have them."""
    for name, kind in (("read", "lat"), ("read", "clat"), ("write", "lat"), ("write", "clat")):
        parts = [job.get(name) for job in jobs if isinstance(job, dict)]
        found = [part.get(f"{kind}_ns") for part in parts if isinstance(part, dict)]
        known = [pair for one in found if isinstance(one, dict) for pair in _sampled(one)]
        count = math.fsum(n for n, _ in known)
        if count > 0:
            yield f"{name}.{kind}", math.fsum(n * mean for n, mean in known) / count


def _sampled(latency: dict[str, Any]) -> Iterator[tuple[float, float]]:
    count, mean = latency.get("N"), latency.get("mean")
    if not isinstance(count, int | float) or not isinstance(mean, int | float):
        return
    if abs(count) < 1e18 and abs(mean) < 1e18:
        yield float(count), float(mean)


# -- one mutant ------------------------------------------------------------------------------------


def judge(name: str, data: bytes, original: dict[str, float] | None, tally: Tally) -> None:
    """Run one mutant through the whole chain and put it where it belongs in the tally."""
    tally.mutants += 1
    try:
        run = merge_files([("w", data)])
        written = write_result(run)
        json.loads(written, parse_constant=_refuse)
        case = read_result(written, "mutant").cases[0]
    except HcioError as error:
        tally.failures.append(f"{name}: {type(error).__name__} from merge_files: {error.what}")
        return
    except Exception as error:  # noqa: BLE001 - a crash is what is looked for
        tally.failures.append(f"{name}: crash: {type(error).__name__}: {error}")
        return
    if case.total is None:
        tally.refused += 1
    elif case.verdict.value != "valid":
        tally.doubted += 1
    else:
        _judge_figures(name, data, case, original, tally)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} in a result")


def _judge_figures(
    name: str, data: bytes, case: CaseResult, original: dict[str, float] | None, tally: Tally
) -> None:
    ours = {figure: parse_metric(figure).value(case.total) for figure in _FIGURES}
    known = {figure: value for figure, value in ours.items() if value is not None}
    known |= dict(_our_means(case))
    for text in _impossible(case):
        tally.failures.append(f"{name}: {text}")
        return
    if original is not None and _agree(known, original):
        tally.same += 1
        return
    plain = plain_figures(data)
    if plain is not None and _agree(known, plain):
        tally.undetectable += 1
    else:
        tally.failures.append(f"{name}: {known} is neither the original's nor what the mutant says")


def _our_means(case: CaseResult) -> Iterator[tuple[str, float]]:
    """The means that cover every I/O of their kind, named as the plain reader's."""
    total = case.total
    for name, direction in (("read", total.read), ("write", total.write)) if total else ():
        latency = direction.latency_ns if direction else None
        if latency is not None and latency.mean is not None and latency.note is None:
            yield f"{name}.{latency.kind}", latency.mean


def _agree(known: dict[str, float], other: dict[str, float]) -> bool:
    return all(
        math.isclose(
            value, other.get(figure, _ABSENT.get(figure, value)), rel_tol=1e-6, abs_tol=1e-6
        )
        for figure, value in known.items()
    )


def _impossible(case: CaseResult) -> Iterator[str]:
    """Figures that no measurement can have, whatever the input says."""
    total = case.total
    for direction in (total.read, total.write, total.trim) if total else ():
        if direction is None:
            continue
        rates = (direction.ios, direction.bytes, direction.iops, direction.bytes_per_s)
        if any(value is not None and not 0 <= value < math.inf for value in rates):
            yield f"an impossible rate: {rates}"
        latency = direction.latency_ns
        if latency is None:
            continue
        ordered = [value for value in latency.percentiles.values() if value is not None]
        if ordered != sorted(ordered):
            yield f"percentiles that fall: {ordered}"
        if latency.max is not None and ordered and ordered[-1] > latency.max:
            yield f"a percentile above the maximum: {ordered[-1]}"
        if latency.mean is not None and not 0 <= latency.mean < math.inf:
            yield f"an impossible mean: {latency.mean}"


def run_chunk(job: tuple[int, int, Sequence[Path]]) -> Tally:
    """Judge `count` mutants with `seed`."""
    seed, count, paths = job
    chance = random.Random(seed)
    tally = Tally(failures=[])
    originals = {path: path.read_bytes() for path in paths}
    figures = {path: plain_figures(data) for path, data in originals.items()}
    for number in range(count):
        path = chance.choice(paths)
        data = mutant(originals[path], chance)
        name = f"{path.name} (seed {seed}, {number})"
        if path.name.endswith("-res.txt"):
            _judge_summary(name, data, tally)
        else:
            judge(name, data, figures[path], tally)
    return tally


def _judge_summary(name: str, data: bytes, tally: Tally) -> None:
    """A damaged summary, alone and as a folder that is imported, written and printed."""
    tally.mutants += 1
    text = data.decode("utf-8", "replace")
    try:
        blocks = parse_summary(text).blocks
        folder = CaseFolder(name.partition("-res.txt")[0], {}, text)
        written = write_result(import_hcibench([folder], source="mutant").result)
        json.loads(written, parse_constant=_refuse)
        result = read_result(written, "mutant")
        render_imported(result)
        total = result.cases[0].total
    except Exception as error:  # noqa: BLE001 - a crash is what is looked for
        tally.failures.append(f"{name}: crash: {type(error).__name__}: {error}")
        return
    values = [value for b in blocks for value in (b.iops, b.throughput_mib, b.read_ms) if value]
    values += [value for f in _FIGURES if (value := parse_metric(f).value(total)) is not None]
    if any(not 0 <= value < math.inf for value in values):
        tally.failures.append(f"{name}: an impossible figure in {values}")
    tally.same += 1


def run(report: Callable[[str], None], mutants: int = MUTANTS) -> None:
    """Judge `mutants` mutants and report."""
    paths = recorded()
    jobs = [(seed, _CHUNK, paths) for seed in range(math.ceil(mutants / _CHUNK))]
    tally = Tally(failures=[])
    begin = time.monotonic()
    with Pool(PROCESSES) as pool:
        for part in pool.imap_unordered(run_chunk, jobs):
            tally.add(part)
    took = time.monotonic() - begin
    report(
        f"mutants: {tally.mutants} of {len(paths)} recorded outputs in {took:.0f} s; "
        f"{tally.refused} refused, {tally.doubted} doubted (verdict not valid), {tally.same} "
        f"unharmed, {tally.undetectable} agree with themselves but not with the original; "
        f"{len(tally.failures)} crashes or silent wrong numbers (goal 0)"
    )
    for text in tally.failures[:20]:
        report(f"mutants:   {text}")


if __name__ == "__main__":
    run(print)

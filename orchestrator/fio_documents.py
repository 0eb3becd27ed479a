"""The JSON documents in what fio printed: where they are, and old or odd forms made regular.

fio mixes its own notes with its documents, prints several of them one after another
(`--status-interval`), writes C's `nan` and `inf`, and had other names and units before 3.2.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct

#: A string that ends on its line, or a brace: what is needed to find a document's end.
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[{}]')
#: fio starts a document at the start of a line; a prompt without a line end may stand before it.
_LINE_START = re.compile(r"^\{", re.MULTILINE)
_ANYWHERE = re.compile(r'\{\s*"')
_NOT_FINITE = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|[-+]?\b(?:nan(?:\([^)\n]*\))?|inf(?:inity)?)\b', re.IGNORECASE
)
_NS = 1000


class FoundDocuments(Struct, frozen=True):
    """The fio documents of one output. `cut` says that a later one has no end."""

    documents: tuple[dict[str, Any], ...]
    cut: bool
    before: tuple[str, ...]
    after: tuple[str, ...]
    not_finite: int
    #: why the last closed document could not be used, if it couldn't
    trouble: str = ""


def find_documents(text: str) -> FoundDocuments:
    """Find every complete fio document in a text, and the lines that belong to none."""
    spans, cut = _spans(text)
    documents: list[dict[str, Any]] = []
    used: list[tuple[int, int]] = []
    not_finite, trouble, damaged = 0, "", False
    for start, end in spans:
        try:
            document, replaced = _load(text[start:end])
        except (ValueError, RecursionError) as error:
            trouble = str(error)
            damaged = damaged or '"jobs"' in text[start:end]
            continue
        if isinstance(document, dict) and _is_fio(document):
            documents.append(document)
            used.append((start, end))
            not_finite, damaged = replaced, False
    # A later document that can't be read is as good as one without an end.
    cut = cut or damaged
    first = used[0][0] if used else len(text)
    last = used[-1][1] if used else len(text)
    after = "" if cut and used else text[last:]
    return FoundDocuments(
        tuple(documents), cut, text_lines(text[:first]), text_lines(after), not_finite, trouble
    )


def text_lines(text: str) -> tuple[str, ...]:
    """The lines of a text that say something."""
    return tuple(line.rstrip() for line in text.splitlines() if line.strip())


def _is_fio(document: dict[str, Any]) -> bool:
    return isinstance(document.get("jobs") or document.get("client_stats"), list)


def _spans(text: str) -> tuple[list[tuple[int, int]], bool]:
    """Start and end of every closed top-level object; whether one was opened and not closed."""
    spans: list[tuple[int, int]] = []
    pattern = _LINE_START if _LINE_START.search(text) else _ANYWHERE
    position, cut = 0, False
    while match := pattern.search(text, position):
        start = match.start()
        end = _closing(text, start)
        if end is None:
            cut = _ANYWHERE.match(text, start) is not None
            position = start + 1
        else:
            spans.append((start, end))
            cut, position = False, end
    return spans, cut


def _closing(text: str, start: int) -> int | None:
    depth = 0
    for token in _TOKEN.finditer(text, start):
        brace = token.group()
        if brace == "{":
            depth += 1
        elif brace == "}":
            depth -= 1
            if depth == 0:
                return token.end()
    return None


def _load(text: str) -> tuple[Any, int]:
    """Parse one document, C's not-finite numbers taken as null and counted."""
    replaced = 0

    def swap(match: re.Match[str]) -> str:
        nonlocal replaced
        if match.group().startswith('"'):
            return match.group()
        replaced += 1
        return "null"

    return json.loads(_NOT_FINITE.sub(swap, text)), replaced


def regular(document: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A document with the names and units of fio 3.2 and later, and what was coarse about it.

    The names present decide, not the version: `clat` is in us where `clat_ns` is in ns;
    `io_bytes` is in KiB where neither `io_kbytes` nor `bw_bytes` stands beside it.
    """
    coarse: set[str] = set()
    jobs = document.get("jobs") or document.get("client_stats")
    renewed = [_regular_job(job, coarse) for job in jobs or () if isinstance(job, dict)]
    key = "jobs" if document.get("jobs") else "client_stats"
    return {**document, key: renewed}, tuple(sorted(coarse))


def _regular_job(job: dict[str, Any], coarse: set[str]) -> dict[str, Any]:
    renewed = dict(job)
    for name in ("read", "write", "trim"):
        direction = job.get(name)
        if isinstance(direction, dict):
            renewed[name] = _regular_direction(direction, coarse)
        else:
            renewed.pop(name, None)
    return renewed


def _regular_direction(old: dict[str, Any], coarse: set[str]) -> dict[str, Any]:
    new = dict(old)
    if "bw_bytes" not in old and _is_number(old.get("bw")):
        new["bw_bytes"] = old["bw"] * 1024
        coarse.add("rates to 1 KiB/s")
        if "io_kbytes" not in old and _is_number(old.get("io_bytes")):
            new["io_bytes"] = old["io_bytes"] * 1024
            coarse.add("bytes to 1 KiB")
    for name in ("lat", "clat"):
        latency = old.get(name)
        modern = old.get(f"{name}_ns")
        if isinstance(modern, dict) and "N" not in modern:
            new[f"{name}_ns"] = {**modern, "N": _samples(modern, old)}
        elif modern is None and isinstance(latency, dict):
            new[f"{name}_ns"] = _in_ns(latency, _samples(latency, old))
            coarse.add("latencies to 1 us")
    return new


def _samples(latency: dict[str, Any], direction: dict[str, Any]) -> Any:
    """How many samples stand behind a latency without a count: every I/O, or none at all."""
    measured = bool(latency.get("max") or latency.get("mean"))
    return direction.get("total_ios") if measured else 0


def _in_ns(latency: dict[str, Any], count: Any) -> dict[str, Any]:
    """A latency of fio 2.x in ns, without its bins: they aren't in ns."""
    new = {
        name: value * _NS if _is_number(value) else None
        for name, value in latency.items()
        if name in ("min", "max", "mean", "stddev")
    }
    new["N"] = latency.get("N", count)
    percentiles = latency.get("percentile")
    if isinstance(percentiles, dict):
        new["percentile"] = {
            key: value * _NS for key, value in percentiles.items() if _is_number(value)
        }
    return new


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

"""Damaged output through the whole chain: parse, merge, judge, write, print; nothing crashes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.analysis import merge_files
from orchestrator.errors import UnreadableOutput
from orchestrator.fio_output import parse_fio_output
from orchestrator.report.hcibench import render_hcibench
from orchestrator.report.text import WIDTH, render_text
from orchestrator.results import read_result, write_result

CASES = Path(__file__).parent / "data" / "cases"
RECORDED = sorted(
    path
    for folder in ("01*", "03*", "06*", "08*", "10*", "15*", "19*", "21*")
    for path in CASES.glob(f"{folder}/*")
    if path.name != "expected.json" and path.suffix != ".fio"
)
TOKENS = [b"nan", b"-1", b"1e999", b"{", b"}", b'"', b"null", b"[]", b"9" * 25, b"\xff\x00", b"\n"]


def damaged(path: Path, seed: int) -> bytes:
    """A recorded output after one to six cuts, flips, doublings and foreign tokens."""
    chance = random.Random(seed)
    data = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 6)):
        place = chance.randrange(len(data)) if data else 0
        end = min(len(data), place + chance.randint(1, 400))
        match chance.randrange(6):
            case 0:
                data[place:end] = b""
            case 1:
                data[place : place + 1] = bytes([chance.randrange(256)])
            case 2:
                data[place:place] = data[place:end]
            case 3:
                del data[place:]
            case 4:
                number = data.find(b": ", place)
                data[number + 2 : data.find(b"\n", number)] = chance.choice(TOKENS) + b","
            case _:
                data[place:place] = chance.choice(TOKENS)
    return bytes(data)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(RECORDED), st.integers(0, 2**32))
def test_damaged_output_is_parsed_or_refused(path: Path, seed: int) -> None:
    """Whatever happened to the bytes: a result, or UnreadableOutput with a known reason."""
    reason = None
    try:
        parse_fio_output(damaged(path, seed), "w")
    except UnreadableOutput as error:
        reason = error.reason
    assert reason in {None, "empty", "no JSON", "incomplete", "not fio"}


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(RECORDED), st.integers(0, 2**32))
def test_a_damaged_worker_is_merged_judged_and_printed(path: Path, seed: int) -> None:
    """Beside a good worker a damaged one never breaks the result, its JSON or its reports."""
    good = (CASES / "22-merge-fast-and-slow-vm" / "vmA.json").read_bytes()
    run = merge_files([("good", good), ("bad", damaged(path, seed))])
    written = write_result(run)
    json.loads(written, parse_constant=pytest.fail)
    assert write_result(read_result(written, "r")) == written
    assert max(map(len, render_text(run).splitlines())) <= WIDTH
    assert "VMs" in render_hcibench(run)
    assert run.cases[0].workers["good"].counted


@pytest.mark.parametrize("error", [-5, 2**40, 99999])
def test_an_error_number_of_another_system_is_shown(error: int) -> None:
    """A job error that this machine has no name for still fails the worker."""
    document = json.loads((CASES / "06-no-samples" / "read-only.json").read_text())
    document["jobs"][0]["error"] = error
    case = merge_files([("w", json.dumps(document).encode())]).cases[0]
    assert f"error {error}" in (case.workers["w"].reason or "")

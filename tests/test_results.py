"""A result's JSON: the contract's keys, the schema version, and no token that isn't JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.analysis import merge_files
from orchestrator.errors import IncompatibleResults
from orchestrator.results import RunResult, read_result, write_result

DATA = Path(__file__).parent / "data"


def mild() -> RunResult:
    paths = sorted((DATA / "truth" / "mild").glob("w*.json"))
    return merge_files((path.stem, path.read_bytes()) for path in paths)


def test_the_skeleton_has_the_names_of_the_contract() -> None:
    """Key names are a contract with everybody who reads results."""
    data = json.loads(write_result(mild()))
    assert data["schema"] == 1
    (case,) = data["cases"]
    assert {
        "case",
        "outcome",
        "verdict",
        "expected_workers",
        "received_workers",
        "total",
        "workers",
    } <= set(case)
    assert set(case["verdict"]) == {"value", "reasons"}
    assert {"read", "write", "trim"} <= set(case["total"])
    assert case["total"]["trim"] is None
    read = case["total"]["read"]
    assert {"ios", "bytes", "iops", "bytes_per_s", "latency_ns"} <= set(read)
    wanted = {"kind", "count", "min", "max", "mean", "stddev", "percentiles"}
    assert wanted <= set(read["latency_ns"])
    assert {"50", "95", "99", "99.9", "99.999"} <= set(read["latency_ns"]["percentiles"])
    assert set(case["workers"]) == {"w1", "w2", "w3", "w4"}
    worker = case["workers"]["w1"]
    assert set(worker["jobs"]) == {"disk0", "disk1"}
    assert worker["total"]["read"]["latency_ns"]["kind"] == "lat"


def test_a_result_reads_back_as_it_was_written() -> None:
    """Reading and writing again changes no byte."""
    written = write_result(mild())
    assert write_result(read_result(written, "r.json")) == written


def test_a_newer_schema_is_refused_with_words() -> None:
    """Figures of a newer schema may mean something else."""
    with pytest.raises(IncompatibleResults, match=r"r\.json: schema 2 is newer"):
        read_result(b'{"schema": 2, "cases": "whatever"}', "r.json")


@pytest.mark.parametrize("data", [b"", b"[]", b'{"cases": []}', b'{"schema": 1}', b"\xff"])
def test_what_is_no_result_is_refused(data: bytes) -> None:
    """Other files raise IncompatibleResults that names them."""
    with pytest.raises(IncompatibleResults, match="not a result of hcio"):
        read_result(data, "x.json")


def test_case_21_own_output_has_no_nan_or_infinity() -> None:
    """Whatever came in, what goes out is strict JSON."""
    names = ("nan.json", "inf.json", "python-style.json")
    folder = DATA / "cases" / "21-nan-and-inf"
    run = merge_files((name, (folder / name).read_bytes()) for name in names)
    run = replace(run, provenance={"load": float("nan"), "list": [float("inf"), {"a": 1.5}]})

    def refuse(token: str) -> None:
        raise AssertionError(token)

    data = json.loads(write_result(run), parse_constant=refuse)
    assert data["provenance"] == {"load": None, "list": [None, {"a": 1.5}]}
    worker = data["cases"][0]["workers"]["inf.json"]
    assert worker["total"]["write"]["iops"] is None
    assert not worker["counted"]

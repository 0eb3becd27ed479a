"""Export: flat rows whose columns are defined once, in every format the same."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.analysis import merge_files
from orchestrator.cli.main import run_cli
from orchestrator.export import (
    CASE_COLUMNS,
    SECOND_COLUMNS,
    case_rows,
    columns_document,
    render_csv,
    render_json,
)
from orchestrator.log_reader import Member, find_logs
from orchestrator.results import RunResult, write_result
from orchestrator.samples import samples_of
from orchestrator.series import write_series
from orchestrator.spreadsheet import Sheet, column_name, write_workbook
from orchestrator.store import RunStore

ROOT = Path(__file__).parent.parent
TRUTH = ROOT / "tests" / "data" / "truth" / "mild"
LOGS = ROOT / "tests" / "data" / "fio_logs" / "dip"
NAMESPACE = {"x": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}


@pytest.fixture(scope="module")
def merged() -> RunResult:
    """Four real workers as two repeats of a case, and a case that left nothing."""
    files = sorted(TRUTH.glob("w*.json"))
    case = merge_files((path.stem, path.read_bytes()) for path in files).cases[0]
    names = ("4k.repeat=1", "4k.repeat=2")
    cases = [replace(case, case=name) for name in names]
    return RunResult(cases=(*cases, replace(case, case="lost", outcome="failed", total=None)))


def test_columns_page_is_what_the_code_says() -> None:
    """docs/columns.md is made from the definitions; `hcio export --columns > docs/columns.md`."""
    assert (ROOT / "docs" / "columns.md").read_text() == columns_document()


def test_every_column_is_named_once_and_defined() -> None:
    """No two columns share a name, each has a meaning, latencies end in ns."""
    for columns in (CASE_COLUMNS, SECOND_COLUMNS):
        names = [column.name for column in columns]
        assert len(set(names)) == len(names)
        assert all(column.meaning for column in columns)
    kinds = {column.kind: column for column in CASE_COLUMNS}
    assert set(kinds) == {"text", "whole", "number", "yes/no"}


def test_rows_hold_the_results_figures(merged: RunResult) -> None:
    """Figures are those of the result; repeats are told apart; what isn't known is empty."""
    rows = case_rows("r", merged)
    assert [(row["case"], row["repeat"]) for row in rows] == [("4k", 1), ("4k", 2), ("lost", None)]
    total = merged.cases[0].total
    assert total is not None
    assert total.read is not None
    assert total.read.latency_ns is not None
    assert rows[0]["read_iops"] == total.read.iops
    assert rows[0]["read_p99.9_ns"] == total.read.latency_ns.percentiles["99.9"]
    assert rows[2]["read_iops"] is None
    assert rows[2]["iops"] is None
    assert all(list(row) == [column.name for column in CASE_COLUMNS] for row in rows)


def test_values_fit_their_columns_kind(merged: RunResult) -> None:
    """A whole number is an int, text is text, in every row."""
    types = {"text": str, "whole": int, "number": (int, float), "yes/no": bool}
    for row in case_rows("r", merged):
        for column in CASE_COLUMNS:
            value = row[column.name]
            assert value is None or isinstance(value, types[column.kind]), column.name


def test_csv_and_json_carry_every_value(merged: RunResult) -> None:
    """Both parse back to the same rows."""
    rows = case_rows("r", merged)
    read = list(csv.DictReader(io.StringIO(render_csv(CASE_COLUMNS, rows))))
    for row, text in zip(rows, read, strict=True):
        for name, value in row.items():
            shown = "" if value is None else str(value).lower() if value in (True, False) else value
            assert text[name] == str(shown)
    document = json.loads(render_json(CASE_COLUMNS, rows))
    assert document["rows"] == rows
    assert [column["name"] for column in document["columns"]] == list(rows[0])


def _cells(content: bytes, sheet: int) -> list[list[str]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        root = ElementTree.fromstring(archive.read(f"xl/worksheets/sheet{sheet}.xml"))
    return [
        ["".join(cell.itertext()) for cell in row.findall("x:c", NAMESPACE)]
        for row in root.findall("x:sheetData/x:row", NAMESPACE)
    ]


def test_workbook_cells() -> None:
    """Text, numbers and yes/no are kept as such; None, NaN and infinity are no cells."""
    rows = [["a", "b&<"], [1, 2.5], [None, True], [float("nan"), float("inf")]]
    content = write_workbook([Sheet("s", rows)])
    assert _cells(content, 1) == [["a", "b&<"], ["1", "2.5"], ["1"], []]
    assert content == write_workbook([Sheet("s", rows)])


@given(st.lists(st.text(max_size=40), min_size=1, max_size=4), st.text(max_size=60))
def test_any_text_makes_a_workbook_that_parses(names: list[str], text: str) -> None:
    """Odd sheet names are made allowed and different; odd characters don't break the XML."""
    content = write_workbook([Sheet(name, [[text]]) for name in names])
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        root = ElementTree.fromstring(archive.read("xl/workbook.xml"))
    found = [item.attrib["name"] for item in root.findall("x:sheets/x:sheet", NAMESPACE)]
    assert len({name.casefold() for name in found}) == len(names)
    assert all(0 < len(name) <= 31 for name in found)
    assert len(_cells(content, len(names))) == 1


def test_workbook_limits() -> None:
    """No sheet at all is an error; columns are named as spreadsheets do."""
    with pytest.raises(ValueError, match="at least one sheet"):
        write_workbook([])
    assert [column_name(n) for n in (1, 26, 27, 703)] == ["A", "Z", "AA", "AAA"]


@pytest.fixture
def runs(tmp_path: Path, merged: RunResult) -> Path:
    """A run with a series of its first case, and one without."""
    store = RunStore(tmp_path / "runs")
    folder = store.create("r", "suite: s\n")
    folder.write("result.json", write_result(merged).decode())
    (folder.path / "series").mkdir()
    path = folder.path / "series" / "4k.repeat=1.parquet"
    assert write_series(path, [Member("w1", find_logs(LOGS), host="h1")]) is not None
    store.create("bare", "suite: s\n").write("result.json", write_result(merged).decode())
    return store.path


def test_command_in_every_format(runs: Path, tmp_path: Path) -> None:
    """CSV, JSON, Parquet and XLSX hold the same cases."""
    base = ["export", "r", "--runs", str(runs)]
    found = {}
    for form in ("csv", "json", "parquet", "xlsx"):
        file = tmp_path / f"out.{form}"
        assert run_cli([*base, "--format", form, "-o", str(file)]) == 0
        found[form] = file.read_bytes()
    frame = pl.read_parquet(io.BytesIO(found["parquet"]))
    assert frame.columns == [column.name for column in CASE_COLUMNS]
    rows = json.loads(found["json"])["rows"]
    assert frame.to_dicts() == rows
    assert len(found["csv"].splitlines()) == 1 + len(rows)
    assert len(_cells(found["xlsx"], 1)) == 1 + len(rows)


def test_command_writes_seconds(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One row a second with the documented columns; a run without series says so."""
    base = ["export", "--runs", str(runs), "--per", "second"]
    assert run_cli([*base, "r"]) == 0
    read = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert list(read[0]) == [column.name for column in SECOND_COLUMNS]
    assert {row["scope"] for row in read} == {"total"}
    assert {(row["case"], row["repeat"]) for row in read} == {("4k", "1")}
    assert run_cli([*base, "r", "--scope", "all", "--format", "json"]) == 0
    assert {row["scope"] for row in json.loads(capsys.readouterr().out)["rows"]} >= {"host"}
    assert run_cli([*base, "bare"]) == 3
    assert "no series was kept" in capsys.readouterr().err
    assert run_cli([*base, "r", "bare"]) == 0
    shown = capsys.readouterr()
    assert len(list(csv.DictReader(io.StringIO(shown.out)))) == len(read)
    assert "no series was kept of r/4k.repeat=2" in shown.err
    assert "bare/4k.repeat=1" in shown.err


@pytest.mark.parametrize("per", ["case", "second"])
def test_csv_holds_no_formula(runs: Path, per: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A name from elsewhere that begins like a formula is text to every spreadsheet; a name with
    a comma and a quote comes back as it is."""
    for name in ("=cmd|' C calc'!A0", '@x,"y"', "plain"):
        (runs / "r").rename(runs / name)
        arguments = ["export", str(runs / name), "--runs", str(runs), "--per", per]
        assert run_cli(arguments) == 0
        (row, *_) = csv.DictReader(io.StringIO(capsys.readouterr().out))
        assert row["run"] == (name if name == "plain" else f"'{name}")
        (runs / name).rename(runs / "r")


def test_workbook_has_seconds_where_there_are_any(runs: Path, tmp_path: Path) -> None:
    """Cases, seconds and meanings; without a series the seconds' sheet is left out."""
    for name, sheets in (("r", 3), ("bare", 2)):
        file = tmp_path / f"{name}.xlsx"
        arguments = ["export", name, "--runs", str(runs), "--format", "xlsx", "-o", str(file)]
        assert run_cli(arguments) == 0
        with zipfile.ZipFile(file) as archive:
            assert sum("worksheets/" in part for part in archive.namelist()) == sheets


def test_command_usage(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--columns prints the meanings; no run, or a workbook to the screen, is usage."""
    assert run_cli(["export", "--columns"]) == 0
    assert capsys.readouterr().out == columns_document()
    assert run_cli(["export", "--runs", str(runs)]) == 2
    assert run_cli(["export", "r", "--runs", str(runs), "--format", "xlsx"]) == 2


def test_series_gives_samples_for_a_comparison(runs: Path) -> None:
    """Whole seconds by metric; the recorded dip of latency and rate is in them."""
    frame = pl.scan_parquet(runs / "r" / "series" / "4k.repeat=1.parquet")
    found = samples_of(frame)
    assert {"iops", "read.iops"} <= set(found)
    assert len({len(values) for values in found.values()}) == 1
    assert samples_of(frame.filter(pl.col("scope") == "group")) == {}


def test_comparison_uses_the_series(
    tmp_path: Path, merged: RunResult, capsys: pytest.CaptureFixture[str]
) -> None:
    """One run a side whose series is long enough is judged by block means."""
    store = RunStore(tmp_path)
    for name in ("one", "two"):
        folder = store.create(name, "suite: s\n")
        folder.write("result.json", write_result(RunResult(cases=merged.cases[:1])).decode())
        assert write_series(folder.path / "series.parquet", [Member("w1", find_logs(LOGS))])
    arguments = ["compare", "one", "two", "--runs", str(tmp_path), "--metric", "iops", "--json"]
    assert run_cli(arguments) == 3
    (case,) = json.loads(capsys.readouterr().out)["comparisons"][0]["cases"]
    assert [row["method"] for row in case["rows"]] == ["block means"]


def test_a_common_series_file_is_told_apart_by_case(
    tmp_path: Path, merged: RunResult, capsys: pytest.CaptureFixture[str]
) -> None:
    """One series.parquet for all cases: each case gets its own rows."""
    folder = RunStore(tmp_path).create("all", "suite: s\n")
    folder.write("result.json", write_result(merged).decode())
    part = tmp_path / "part.parquet"
    assert write_series(part, [Member("w1", find_logs(LOGS))])
    frame = pl.read_parquet(part)
    named = [frame.with_columns(pl.lit(f"4k.repeat={n}").alias("case")) for n in (1, 2)]
    pl.concat(named).write_parquet(folder.path / "series.parquet")
    assert run_cli(["export", "all", "--runs", str(tmp_path), "--per", "second"]) == 0
    read = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    counts = [sum(row["repeat"] == n for row in read) for n in ("1", "2")]
    assert counts[0] == counts[1] > 0


def test_an_output_that_cannot_be_written_is_usage(runs: Path, tmp_path: Path) -> None:
    """A wrong path is an error of the user's, not a bug."""
    target = tmp_path / "no" / "such" / "folder.csv"
    assert run_cli(["export", "r", "--runs", str(runs), "-o", str(target)]) == 2

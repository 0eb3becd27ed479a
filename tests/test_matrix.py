"""The matrix of configurations and workloads, with the four published configurations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.cli.main import run_cli
from orchestrator.matrix import Cell, Matrix, Row, build_matrix
from orchestrator.report.matrix import matrix_document, render_matrix, render_matrix_markdown
from orchestrator.results import (
    CaseResult,
    DirectionResult,
    RunResult,
    TotalResult,
    Verdict,
    write_result,
)

#: workload: (I/O size in bytes, percent of reads)
WORKLOADS = {
    "1024k seq write": (1 << 20, 0),
    "1024k seq read": (1 << 20, 100),
    "4k rand write": (4096, 0),
    "4k rand read": (4096, 100),
    "8k 70/30": (8192, 70),
}
#: Published: four hosts, vSAN 8 U2 ESA; MB/s for the first two workloads, IOPS for the others.
PUBLISHED = {
    "4 SSD a node, RAID-1": (10914, 17638, 378861, 563054, 318640),
    "4 SSD a node, RAID-5": (10999, 17726, 476770, 524076, 301960),
    "8 SSD a node, RAID-1": (12702, 24128, 520632, 526504, 323674),
    "8 SSD a node, RAID-5": (14336, 21994, 504508, 523666, 292557),
}


def _case(name: str, size: int, percent: int, iops: float) -> CaseResult:
    def part(share: float) -> DirectionResult:
        rate = iops * share
        return DirectionResult(
            ios=round(rate), bytes=round(rate * size), iops=rate, bytes_per_s=rate * size
        )

    return CaseResult(
        case=name,
        outcome="done",
        verdict=Verdict(value="valid"),
        expected_workers=16,
        received_workers=16,
        total=TotalResult(read=part(percent / 100), write=part(1 - percent / 100)),
        workers={},
    )


def _published() -> list[Row]:
    rows = []
    for name, figures in PUBLISHED.items():
        cases = tuple(
            _case(case, size, percent, figure * 1e6 / size if size > 65536 else figure)
            for (case, (size, percent)), figure in zip(WORKLOADS.items(), figures, strict=True)
        )
        rows.append(Row(name, cases))
    return rows


@pytest.fixture
def published() -> Matrix:
    """The matrix of the published figures."""
    return build_matrix(_published())


def test_published_matrix_comes_out_as_published(published: Matrix) -> None:
    """Every published figure stands in its cell, in MB/s or IOPS as it was published."""
    assert [column.unit for column in published.columns] == ["MB/s", "MB/s", "IOPS", "IOPS", "IOPS"]
    for name, figures in PUBLISHED.items():
        assert [round(cell.value or 0) for cell in published.rows[name]] == list(figures)


def test_text_and_markdown_show_every_figure(published: Matrix) -> None:
    """Both tables have a line for each configuration with its figures."""
    text, markdown = render_matrix(published), render_matrix_markdown(published)
    for name, figures in PUBLISHED.items():
        for shown in (text, markdown):
            line = next(line for line in shown.splitlines() if name in line)
            assert all(f"{figure:,}" in line for figure in figures)
    assert "1024k seq write MB/s" in text
    assert matrix_document(published)["schema"] == 1


def test_repeats_are_averaged_and_counted() -> None:
    """Repeats inside a run and runs of one name are samples of one cell."""
    first = Row("x", (_case("c.repeat=1", 4096, 100, 100), _case("c.repeat=2", 4096, 100, 200)))
    second = Row("x", (_case("c", 4096, 100, 300),))
    assert build_matrix([first, second]).rows == {"x": (Cell(200.0, 3, ""),)}


def test_an_invalid_repeat_does_not_spoil_the_mean() -> None:
    """It is left out where there are others, and the cell says so."""
    bad = replace(_case("c", 4096, 100, 900), verdict=Verdict(value="invalid"))
    (cell,) = build_matrix([Row("x", (_case("c", 4096, 100, 100), bad))]).rows["x"]
    assert (cell.value, cell.runs) == (100.0, 1)
    assert cell.note == "invalid (1 of 2 repeats count)"


def test_another_workload_of_the_same_name_is_said() -> None:
    """Down a column one thing is measured: another block size or mix is marked, noise is not."""
    rows = [
        Row("lost", (replace(_case("c", 4096, 70, 1), outcome="failed", total=None),)),
        Row("a", (_case("c", 4096, 70, 1000),)),
        Row("b", (_case("c", 4096, 71, 1100),)),
        Row("c", (_case("c", 8192, 70, 900),)),
        Row("d", (_case("c", 4096, 100, 900),)),
    ]
    found = {name: cells[0].note for name, cells in build_matrix(rows).rows.items()}
    assert (found["a"], found["b"]) == ("", "")
    assert "another workload (8 KiB, 70% reads; the first row's: 4 KiB, 70% reads)" in found["c"]
    assert "4 KiB, 100% reads" in found["d"]


def test_what_is_missing_says_why() -> None:
    """Not run, failed and invalid are told apart; none of them is a 0."""
    good = _case("c", 4096, 100, 100)
    failed = replace(good, outcome="failed", total=None)
    bad = replace(good, verdict=Verdict(value="invalid"))
    rows = [Row("a", (failed,)), Row("b", (bad,)), Row("c", (replace(good, case="d"),))]
    matrix = build_matrix(rows)
    assert matrix.rows["a"] == (Cell(None, 0, "failed"), Cell(None, 0, "not run"))
    assert matrix.rows["b"][0] == Cell(100.0, 1, "invalid")
    text = render_matrix(matrix)
    assert "100*" in text
    assert "* b, c: invalid" in text


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`hcio matrix NAME=RUN` names the rows; `--json` prints the document."""
    path = tmp_path / "r.json"
    path.write_bytes(write_result(RunResult(cases=_published()[0].cases)))
    assert run_cli(["matrix", f"4 SSD={path}"]) == 0
    assert "4 SSD" in capsys.readouterr().out
    assert run_cli(["matrix", str(path), "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["rows"]) == [str(path)]
    other = tmp_path / "s.json"
    other.write_bytes(path.read_bytes())
    assert run_cli(["matrix", f"x={path},{other}", "--json"]) == 0
    assert {cell["runs"] for cell in json.loads(capsys.readouterr().out)["rows"]["x"]} == {2}
    assert run_cli(["matrix", f"x={path}", f"x={path}"]) == 2
    assert "already" in capsys.readouterr().err

"""`hcio size`: the derivation on stdout, errors with their exit code."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.main import cli, run_cli

OSA = ["storage=osa", "disk_groups=8", "cache_gib=6400", "capacity_gib=60000", "free_gib=60000"]


def _size(*args: str) -> Result:
    return CliRunner().invoke(cli, ["size", *args], catch_exceptions=False)


def _sets(*texts: str) -> list[str]:
    return [part for text in texts for part in ("--set", text)]


def test_size_shows_inputs_with_sources_steps_and_result() -> None:
    """Every input says where it came from, every step is there, and the result in words."""
    text = _size(*_sets(*OSA)).stdout
    assert "formula hcibench-3.0" in text
    assert "disk_groups" in text
    assert "given" in text
    assert "default" in text
    assert "  disk size = max(floor(1800 / 128), 1) = 14  (GiB)" in text
    assert "  8 disks of 14 GiB each: 1792 GiB in all" in text


def test_size_json_has_bytes_and_seconds() -> None:
    """The document carries the formula's name, sources, and sizes in bytes."""
    document = json.loads(_size("--json", "--formula", "hcibench-2.8.3", *_sets(*OSA)).stdout)
    assert document["formula"] == "hcibench-2.8.3"
    assert document["inputs"]["checksum"] == {
        "value": True,
        "source": "default",
        "overridden": None,
    }
    assert document["result"]["disk_bytes"] == 14 * 2**30
    assert document["result"]["large_block_bytes"] == 256 * 1024
    assert document["result"]["latency_target_ns"] is None


@pytest.mark.parametrize(
    "args", [[], _sets("hosts"), _sets("hosts=4", "hosts=5"), _sets(*OSA, "hots=4")]
)
def test_what_cannot_be_sized_is_a_usage_error(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Missing or wrong inputs end with exit code 2 and a message, never with a guess."""
    assert run_cli(["size", *args]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("hcio: ")

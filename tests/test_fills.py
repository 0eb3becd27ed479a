"""A fill that holds is not done again: `hcio run` on this machine, twice on one file."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cli.main import run_cli

pytestmark = [pytest.mark.real, pytest.mark.slow]


def run(folder: Path, *words: str) -> int:
    return run_cli(
        [
            *("run", "4k-100r-random", "--local", "--target", str(folder / "t"), "--size", "8MiB"),
            *("--set", "runtime=1", "--set", "ramp=0", "--keep", "--poll", "0.3", *words),
        ]
    )


def test_a_second_run_keeps_the_fill_and_another_method_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The record beside the runs spares the fill, until something else is asked or the data is
    gone; each time the reason is told."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HCIO_WORK_DIR", str(tmp_path / "work"))
    compressible = ("--set", 'prepare={"compress": 50}')
    run(tmp_path, *compressible)
    assert "filling the targets of 1 worker" in capsys.readouterr().err
    run(tmp_path, *compressible)
    again = capsys.readouterr().err
    assert "not filled again: local disk0; their records hold" in again
    assert "filling" not in again
    run(tmp_path, "--set", "prepare=random")
    assert "it was filled compressible (50 % compress, 0 % dedupe), asked is random" in (
        capsys.readouterr().err
    )
    (tmp_path / "t").write_bytes(bytes(8 * 2**20))
    run(tmp_path, "--set", "prepare=random")
    assert "16 of 16 samples are zeros again" in capsys.readouterr().err

"""The prose tells the truth: the map names every module, the README every command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from orchestrator import errors
from orchestrator.cli.main import COMMANDS, cli

ROOT = Path(__file__).parent.parent


def test_the_map_is_what_the_modules_say() -> None:
    """docs/architecture.md lists every module with its own first sentence."""
    check = [sys.executable, str(ROOT / "scripts" / "module-map"), "--check"]
    done = subprocess.run(check, check=False)
    assert done.returncode == 0, "run scripts/module-map"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_and_stands_in_the_readme(name: str) -> None:
    """A command without help, or one that the README never mentions, can't be found."""
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 4
    assert f"hcio {name}" in (ROOT / "README.md").read_text()


def test_every_error_is_in_the_drawing() -> None:
    """The tree in the docstring of errors.py names every class."""
    drawn = str(errors.__doc__)
    classes = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    ]
    assert [name for name in classes if name not in drawn] == []


def test_the_example_inventory_is_named_in_the_readme() -> None:
    """The README's first step on a cluster starts from a file that exists."""
    assert "inventory.example.yaml" in (ROOT / "README.md").read_text()
    assert (ROOT / "inventory.example.yaml").is_file()

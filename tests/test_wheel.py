"""The wheel stands alone: installed into an empty environment it has its profiles and templates."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = [pytest.mark.real, pytest.mark.slow]


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "HOME": str(cwd)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel in it. Its dependencies are those of this environment: what is
    tested is what the wheel itself carries."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", folder, ROOT]
    run(*build, cwd=ROOT)
    (wheel,) = folder.glob("hcio-*.whl")
    environment = folder / "venv"
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    run(*pip, "--disable-pip-version-check", wheel, cwd=folder)
    (site,) = environment.glob("lib/python*/site-packages")
    ours = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "dependencies.pth").write_text(f"{ours}\n")
    return environment / "bin" / "hcio"


def test_the_wheel_runs_from_another_folder(installed: Path, tmp_path: Path) -> None:
    """From the wheel `hcio` lists profiles and suites and plans a run, far from the checkout."""
    where = run(
        installed.parent / "python",
        "-c",
        "import orchestrator; print(orchestrator.__file__)",
        cwd=tmp_path,
    )
    assert str(installed.parent.parent) in where
    assert "4k-70r-random" in run(installed, "profiles", cwd=tmp_path)
    assert "easy-run" in run(installed, "suites", cwd=tmp_path)
    assert "[disk0]" in run(installed, "run", "smoke", "--local", "--dry-run", cwd=tmp_path)

"""hcio on this machine for end-to-end tests: a folder of its own, real fio, small files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Done:
    """What a command of hcio did."""

    status: int
    out: str
    err: str


class Here:
    """Commands run as processes of their own in `folder`, with `--local` workers below it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the developer's own shell decides a test."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "HCIO_RUNS": str(self.folder / "runs"),
            "HCIO_WORK_DIR": str(self.folder / "work"),
            "LC_ALL": "C.UTF-8",
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start hcio and leave it running."""
        return subprocess.Popen(
            [sys.executable, "-m", "orchestrator", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def hcio(self, *arguments: str) -> Done:
        """Run hcio to its end."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=240)
        return Done(process.returncode, out, err)

    def killed_at(self, event: str, number: int, *arguments: str) -> None:
        """Start hcio and end it with SIGKILL once its journal has the event so many times."""
        process = self.start(*arguments)
        deadline = time.monotonic() + 120
        while [e["event"] for e in self.journal()].count(event) < number:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, f"{event} doesn't come"
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def run_folder(self) -> Path:
        """The folder of the latest run."""
        return (self.folder / "runs" / "latest").resolve()

    def journal(self) -> list[dict[str, Any]]:
        """The latest run's events; none before there is a run."""
        path = self.run_folder() / "state.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def starts(self, case: str) -> int:
        """How often fio was executed for a case of the latest run (needs --keep)."""
        file = self.folder / "work" / self.run_folder().name / case / "starts"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def suite(self, name: str, text: str) -> str:
        """A suite's file; its path."""
        path = self.folder / f"{name}.yaml"
        path.write_text(text)
        return str(path)

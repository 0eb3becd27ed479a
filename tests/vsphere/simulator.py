"""The vCenter simulator of tests/vcsim as a process of the test's own."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from orchestrator.secrets import Secret
from orchestrator.vsphere.session import Login

ROOT = Path(__file__).parents[2]


@dataclass
class Vcsim:
    """A running simulator: how to log in, and its control door."""

    process: subprocess.Popen[str]
    port: int
    control: int
    pem: str
    thumbprint: str
    user: str
    password: str

    @classmethod
    def start(cls, *flags: str) -> Self:
        """Start one; flags as the program has them (`-hosts=4`, `-vsan=osa`)."""
        built = subprocess.run(
            ["sh", str(ROOT / "scripts/setup-vcsim")], capture_output=True, text=True, check=True
        )
        program = built.stdout.strip().splitlines()[-1]
        process = subprocess.Popen(
            [program, *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        return cls(process, **json.loads(process.stdout.readline()))

    def stop(self) -> None:
        """End it: it goes when its standard input is closed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()

    def ask(self, path: str, body: Any = None) -> Any:
        """One wish at the control door."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.control}/{path}",
            data=json.dumps(body).encode(),
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def login(self, **other: Any) -> Login:
        """How to log in, by thumbprint unless `other` says otherwise."""
        values: dict[str, Any] = {
            "host": "127.0.0.1",
            "port": self.port,
            "user": self.user,
            "password": Secret(self.password),
            "thumbprint": self.thumbprint,
        }
        return Login(**(values | other))

    def calls(self) -> list[str]:
        """The methods called since the last time."""
        return list(self.ask("calls"))

    def inventory(self) -> list[str]:
        """Everything there is; equal exactly when nothing changed."""
        return list(self.ask("inventory"))

    def rules(self, *rules: dict[str, Any]) -> None:
        """Make calls go wrong (see tests/vcsim/gate.go); none: all is well again."""
        self.ask("rules", list(rules))

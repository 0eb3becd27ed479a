"""Stand-ins on loopback ports: a case's own script, a port that never speaks."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

CASES = Path(__file__).parent / "data" / "cases"


@contextlib.contextmanager
def running(script: Path, port: int, *arguments: object) -> Iterator[int]:
    """Run a script that listens on `port` (its first argument) until the block ends."""
    command = [sys.executable, str(script), str(port), *(str(word) for word in arguments)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        for _ in range(250):
            # Binding fails once it listens; connecting would already be counted by it.
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    break
            time.sleep(0.02)
        time.sleep(0.1)
        yield port
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def silent_port() -> Iterator[int]:
    """A port that accepts connections and never says anything."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(50)
        yield listener.getsockname()[1]

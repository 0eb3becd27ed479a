"""Real sshd, real fio: workers on loopback addresses, servers of one's own to disturb."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.sshd import Sshd, program


@pytest.fixture
def make_server() -> Iterator[Callable[..., Sshd]]:
    """Start servers; `extra` are lines of sshd_config."""
    assert program() is not None, "sshd is missing: run `make test`, which installs it"
    assert shutil.which("fio"), "fio is missing: run `make test`, which installs it"
    servers: list[Sshd] = []

    def make(*extra: str) -> Sshd:
        server = Sshd(*extra)
        server.accept()
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.stop()


@pytest.fixture
def make_cluster(tmp_path: Path, make_server: Callable[..., Sshd]) -> Callable[..., Cluster]:
    """Clusters behind one server."""
    return lambda workers, **options: Cluster(make_server(), tmp_path, workers, **options)

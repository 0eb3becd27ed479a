"""Fixtures that several test folders share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sshd import Sshd, program


@pytest.fixture(scope="session")
def sshd() -> Iterator[Sshd]:
    """One running SSH server a test process; don't stop it, start one of your own for that."""
    if program() is None:
        pytest.fail("sshd is not installed: run `make system-test` (openssh-server)")
    with Sshd() as server:
        yield server

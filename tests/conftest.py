"""Fixtures that several test folders share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.sshd import Sshd, program

# A busy machine must not fail a property: no test asserts on time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def sshd() -> Iterator[Sshd]:
    """One running SSH server a test process; don't stop it, start one of your own for that."""
    if program() is None:
        pytest.fail("sshd is not installed: run `make system-test` (openssh-server)")
    with Sshd() as server:
        yield server

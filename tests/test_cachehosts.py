"""The inventory's `clear_cache:` section."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.cachehosts import ClearCache


def test_nothing_need_be_said() -> None:
    """Empty means: the cluster's hosts, as root, by key or agent, within an hour."""
    section = ClearCache()
    assert (section.hosts, section.user, section.port, section.limit) == ((), "root", 22, 3600.0)


def test_times_and_secrets_are_written_as_everywhere() -> None:
    """A limit like `20m`, a password by reference that prints as the reference."""
    section = ClearCache.model_validate({"limit": "20m", "password": "env:ESXI_PASSWORD"})
    assert section.limit == 1200.0
    assert "env:ESXI_PASSWORD" in str(section.password)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"hosts": ["a", "a"]}, "named twice"),
        ({"passphrase": "env:X"}, "belongs to a key"),
        ({"comand": "x"}, "Extra inputs"),
        ({"limit": 0}, "more than 0"),
    ],
)
def test_what_makes_no_sense_is_refused(written: dict[str, Any], said: str) -> None:
    """Unknown keys, doubles and a passphrase without a key are usage errors."""
    with pytest.raises(ValidationError, match=said):
        ClearCache.model_validate(written)


def test_a_literal_password_is_refused_and_not_repeated() -> None:
    """Who writes the password itself reads no echo of it."""
    with pytest.raises(ValidationError) as caught:
        ClearCache.model_validate({"password": "hunter2"})
    assert "hunter2" not in str(caught.value)

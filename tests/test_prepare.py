"""The suite's `prepare:`: short forms, percents, and the shortest form back."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.prepare import Prepare


@pytest.mark.parametrize(
    ("written", "dumped"),
    [
        ("random", "random"),
        ({"method": "zero"}, "zero"),
        ("compressible", {"method": "compressible", "compress": 50, "dedupe": None}),
        (
            {"compress": "40%", "dedupe": 10},
            {"method": "compressible", "compress": 40, "dedupe": 10},
        ),
    ],
)
def test_short_forms_and_back(written: Any, dumped: Any) -> None:
    """A word alone, or percents; what is dumped reads back as the same."""
    found = Prepare.model_validate(written)
    assert found.model_dump(mode="json") == dumped
    assert Prepare.model_validate(dumped) == found


@pytest.mark.parametrize(
    "written", ["zeros", {"method": "zero", "compress": 50}, {"compress": 101}]
)
def test_what_makes_no_sense_is_refused(written: Any) -> None:
    """Unknown methods, percents of a method that has none, more than everything."""
    with pytest.raises(ValidationError):
        Prepare.model_validate(written)

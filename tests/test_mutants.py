"""A short form of the mutation fuzzer (`bench/mutants.py` judges 100,000), and its own judge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.mutants import Tally, judge, mutant, plain_figures, recorded, run_chunk

READ = Path(__file__).parent / "data" / "cases" / "06-no-samples" / "read-only.json"


@pytest.mark.parametrize("seed", [1001, 1002])
def test_no_crash_and_no_silent_wrong_number(seed: int) -> None:
    """Damaged outputs are refused, doubted, unharmed, or agree with themselves."""
    tally = run_chunk((seed, 200, recorded()))
    assert tally.failures == []
    assert tally.mutants == 200
    assert tally.refused
    assert tally.doubted
    assert tally.same


def test_the_judge_sees_a_wrong_number() -> None:
    """A figure that neither the original nor the mutant has is a failure: the judge can fail."""
    data = READ.read_bytes()
    tally = Tally(failures=[])
    judge("good", data, plain_figures(data), tally)
    assert (tally.same, tally.failures) == (1, [])
    document = json.loads(data)
    for job in document["jobs"]:
        job["read"]["bw_bytes"] *= 2
        job["read"]["io_bytes"] *= 2
    judge("other", json.dumps(document).encode(), plain_figures(data), tally)
    assert tally.undetectable == 1
    # what the judge's own reader can't read isn't what the mutant says
    judge("twice", b"{" + data, {"read.iops": 1.0}, tally)
    assert tally.mutants == 3


def test_mutants_differ_and_repeat() -> None:
    """The same seed gives the same mutants."""
    import random

    data = READ.read_bytes()
    first = [mutant(data, random.Random(seed)) for seed in range(20)]
    assert first == [mutant(data, random.Random(seed)) for seed in range(20)]
    assert len(set(first)) > 15

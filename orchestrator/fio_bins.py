"""The text of fio's `bins` objects to histograms, as many as there are in one pass.

Bins are most of the bytes of a json+ document and numpy's cost is in its calls, so the bins of
many latencies are read together: bare numbers in one text, with fences between them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Raw

from orchestrator.histogram import Histogram, bin_indexes, slices

_STRANGE = b"?"
_COMMA = ord(",")
_CUT = b'{}" \t\r\n'
#: Digits and commas stay, a colon is a comma, what may stand between is cut, all else is strange.
_TO_NUMBERS = bytes(
    byte if chr(byte) in "0123456789," else 44 if chr(byte) == ":" else _STRANGE[0]
    for byte in range(256)
)
#: Stands between two histograms in one text: a key above every bin's value, and no samples.
_FENCE_KEY = 1 << 60
_FENCE = b",%d,0," % _FENCE_KEY


def histograms(texts: Sequence[Raw | bytes]) -> list[Histogram | None]:
    """The histograms of flat JSON objects `{"value": count, ...}`; None for one that isn't that."""
    if not texts:
        return []
    together = _together(texts)
    if together is not None:
        return list(together)
    if len(texts) == 1:
        return [None]
    return [histogram for text in texts for histogram in histograms([text])]


def _together(texts: Sequence[Raw | bytes]) -> list[Histogram] | None:
    """All histograms, or None if any can't be read."""
    bare = _FENCE.join(texts).translate(_TO_NUMBERS, _CUT)
    if _STRANGE in bare:
        return None
    commas = np.frombuffer(b",%b," % bare, dtype=np.uint8) == _COMMA
    if (commas[1:] & commas[:-1]).any():
        return None
    numbers = np.fromstring(bare, dtype=np.int64, sep=",")
    if len(numbers) % 2:
        return None
    keys, counts = numbers.reshape(-1, 2).T.copy()
    # Keys rise within a histogram and a fence is above all, so they fall behind fences only.
    ends = (keys[1:] <= keys[:-1]).nonzero()[0]
    if len(ends) != len(texts) - 1 or (keys[ends] != _FENCE_KEY).any():
        return None
    starts = np.concatenate([[0], ends + 1])
    return slices(bin_indexes(keys), counts, starts, np.append(ends, len(keys)))

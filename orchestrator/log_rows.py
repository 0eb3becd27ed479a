"""Rows of fio's logs (`fio_logs`) as arrays, whatever is cut or damaged, and their percentiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from orchestrator.decimals import WORD, Letters, numbers, word
from orchestrator.histogram import BINS, VALUES, carried

Integers = NDArray[np.int64]

_DIRECTIONS: Final = 3
_COMMA, _LINE_END, _ZERO, _SPACE = b",\n0 "
#: Between a row's time and its value; behind the value, where the direction is the third letter.
_BETWEEN: Final = b", "
_TAIL: Final = b", 0, 0, 0"
_DIRECTION: Final = np.uint64(0xFF00)
_TAIL_WORD: Final = word(_TAIL[1:]) & ~_DIRECTION
#: Numbers of more digits don't fit an int64.
_MOST_WEIGHT: Final = 10**17


@dataclass(frozen=True)
class Rows:
    """Rows of rate or latency logs: equally long arrays.

    `source` is the index of the block that a row came from; `dropped` counts lines that were no
    rows (cut, damaged, or of a direction other than read 0, write 1, trim 2).
    """

    time_ms: Integers
    value: Integers
    direction: Integers
    source: Integers
    dropped: int = 0

    def __len__(self) -> int:
        return len(self.time_ms)


def whole_lines(block: bytes) -> bytes:
    """A block without its last line if that is cut short."""
    return block if block.endswith(b"\n") else block[: block.rfind(b"\n") + 1]


def parse_rows(blocks: Sequence[bytes]) -> Rows:
    """Read the rows of several blocks at once, each block some whole lines of one log.

    A last line without its end is left out: fio may have been stopped in the middle of a number.
    """
    whole = [whole_lines(block) for block in blocks]
    quick = _regular_rows(whole)
    if quick is not None:
        return quick
    counts = [block.count(b"\n") for block in whole]
    table = _read_table(b"".join(whole), 3)
    if table.height != sum(counts):
        # Empty lines are skipped by the reader: each block's rows must be counted on their own.
        tables = [_read_table(block, 3) for block in whole]
        counts = [part.height for part in tables]
        table = pl.concat(tables) if tables else table
    source = np.repeat(np.arange(len(whole)), counts)
    time_ms, value, direction = _filled(table)
    good = (time_ms >= 0) & (value >= 0) & (direction >= 0) & (direction < _DIRECTIONS)
    if good.all():
        return Rows(time_ms, value, direction, source)
    return Rows(
        time_ms[good], value[good], direction[good], source[good], int(len(good) - good.sum())
    )


def _regular_rows(blocks: Sequence[bytes]) -> Rows | None:
    """The rows of whole lines as fio 3 writes them; None where one is irregular.

    Regular is `1796076001000, 8915, 0, 0, 0`: times of one width, values below 10**8.
    """
    view = Letters(blocks)
    letters = view.letters
    ends = np.flatnonzero(letters == _LINE_END)
    width = next((block.find(b",") for block in blocks if block), -1)
    if not 0 < width <= 2 * WORD or not len(ends):
        return None
    begins = np.concatenate(([0], ends[:-1] + 1))
    first, second = begins + width, ends - len(_TAIL)
    digits = second - first - len(_BETWEEN)
    if digits.min() < 1 or digits.max() > WORD:
        return None
    tail = view.words(second + 1)
    regular = (letters.take(first) == _COMMA) & (letters.take(first + 1) == _SPACE)
    regular &= letters.take(second) == _COMMA
    regular &= (tail & ~_DIRECTION) == _TAIL_WORD
    direction = ((tail & _DIRECTION) >> np.uint64(8)).view(np.int64) - _ZERO
    if not regular.all() or direction.min() < 0 or direction.max() >= _DIRECTIONS:
        return None
    time_ms = _times(view, begins, width)
    value = numbers(view.words(second - WORD), digits)
    if time_ms is None or value is None:
        return None
    borders = np.cumsum([len(block) for block in blocks])
    counts = np.diff(ends.searchsorted(borders), prepend=0)
    return Rows(time_ms, value, direction, np.repeat(np.arange(len(blocks)), counts))


def _times(view: Letters, begins: Integers, width: int) -> Integers | None:
    """Times of `width` digits, 16 at most; the first eight of them are mostly the same in all."""
    if width <= WORD:
        return numbers(view.words(begins + (width - WORD)), width)
    head, rest = view.words(begins), width - WORD
    first = numbers(head[:1] if (head == head[0]).all() else head)
    last = numbers(view.words(begins + (width - WORD)), rest)
    return None if first is None or last is None else first * 10**rest + last


def _read_table(text: bytes, columns: int) -> pl.DataFrame:
    schema = {f"c{n}": pl.Int64 for n in range(columns)}
    if not text.strip():
        return pl.DataFrame(schema=schema)
    return pl.read_csv(
        text,
        has_header=False,
        schema=schema,
        extra_columns="ignore",
        missing_columns="insert",
        truncate_ragged_lines=True,
        ignore_errors=True,
        quote_char=None,
    )


def _filled(table: pl.DataFrame) -> list[Integers]:
    """Columns as arrays, -1 where a field was missing or no number."""
    return [
        (column.fill_null(-1) if column.null_count() else column).to_numpy() for column in table
    ]


@dataclass(frozen=True)
class HistogramRows:
    """Rows of one histogram log. `counts` has shape (rows, 1856 >> coarseness)."""

    time_ms: Integers
    direction: Integers
    counts: Integers
    coarseness: int
    dropped: int = 0

    def __len__(self) -> int:
        return len(self.time_ms)


def parse_histograms(block: bytes) -> HistogramRows | None:
    """Read the rows of a histogram log; None when it has none, or other bins than fio 3's."""
    text = whole_lines(block)
    first = text[: text.find(b"\n")]
    columns = first.count(b",") + 1
    coarseness = _coarseness(columns - 3)
    if coarseness is None:
        return None
    numbers = _regular_table(text, columns)
    dropped = 0
    if numbers is None:
        table = _read_table(text, columns)
        whole = table.drop_nulls().to_numpy().astype(np.int64, copy=False)
        numbers = whole[(whole >= 0).all(axis=1)]
        dropped = table.height - len(numbers)
    kept = numbers[numbers[:, 1] < _DIRECTIONS]
    dropped += len(numbers) - len(kept)
    return HistogramRows(kept[:, 0], kept[:, 1], kept[:, 3:], coarseness, dropped)


def _regular_table(text: bytes, columns: int) -> Integers | None:
    """Numbers of a text of whole lines, shape (lines, columns); None where a line is irregular.

    Twice as fast as a CSV reader on rows of hundreds of short numbers, most of them 0: one digit
    of all numbers is added at a time.
    """
    if text.translate(None, b"0123456789, \n"):
        return None
    letters = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero((letters == _COMMA) | (letters == _LINE_END))
    line_ends = letters[ends] == _LINE_END
    lines = len(ends) // columns
    if lines * columns != len(ends) or np.count_nonzero(line_ends) != lines:
        return None
    last_digits = letters[ends - 1]
    if not line_ends[columns - 1 :: columns].all() or (last_digits < _ZERO).any():
        return None  # a row of another length; an empty field, or a space before the comma
    numbers = (last_digits - _ZERO).astype(np.int64)
    active = np.flatnonzero(letters[ends - 2] >= _ZERO)
    place, weight = ends[active] - 2, 10
    while len(active):
        if weight > _MOST_WEIGHT:
            return None
        numbers[active] += (letters[place] - _ZERO).astype(np.int64) * weight
        more = letters[place - 1] >= _ZERO
        more &= place > 0
        active, place, weight = active[more], place[more] - 1, weight * 10
    return numbers.reshape(-1, columns)


def _coarseness(bins: int) -> int | None:
    return next((c for c in range(7) if bins == BINS >> c), None)


def coarse_values(coarseness: int) -> NDArray[np.float64]:
    """The middle in ns of each bin of a histogram log, ascending, shape (1856 >> coarseness,)."""
    merged = VALUES.reshape(-1, 1 << coarseness)
    middle: NDArray[np.float64] = (merged[:, 0] + merged[:, -1]) / 2
    return middle


def coarse_percentiles(
    counts: Integers, coarseness: int, percents: Sequence[float]
) -> NDArray[np.float64]:
    """Percentiles in ns of each row of counts, shape (rows, len(percents)).

    NaN where a row's count can't carry the percentile (`histogram.carried`).
    """
    values = coarse_values(coarseness)
    running = counts.cumsum(axis=1)
    totals = running[:, -1]
    answer = np.full((len(counts), len(percents)), np.nan)
    for column, percent in enumerate(percents):
        enough = np.array([carried(percent, int(total)) for total in totals], dtype=bool)
        wanted = np.ceil(totals * (percent / 100.0))[:, None]
        found = (running < wanted).sum(axis=1)
        answer[enough, column] = values[np.minimum(found, len(values) - 1)][enough]
    return answer

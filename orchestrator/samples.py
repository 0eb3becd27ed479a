"""A case's series as equal windows by metric: what stands in for repeats when there is one run.

Only seconds count in which every worker measured, of the whole cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

_FIGURES: Final = {"iops": "iops", "bytes_per_s": "bytes_per_s", "latency.mean": "lat_mean_ns"}
#: A worker that measured less of a second than this didn't measure it whole.
_WHOLE: Final = 0.999


def samples_of(series: pl.LazyFrame) -> dict[str, list[float]]:
    """Metric name to its values, one a second. A metric with a second without value is left out,
    so no latency is given for a direction that stood still."""
    total = series.filter(pl.col("scope") == "total").sort("second").collect()
    if total.is_empty():
        return {}
    most = total["workers"].cast(pl.Float64).max()
    if not isinstance(most, float) or most <= 0:
        return {}
    whole = total.filter(pl.col("workers") >= most * _WHOLE)
    return {name: values for name, values in _metrics(whole) if values is not None}


def _metrics(whole: pl.DataFrame) -> Iterator[tuple[str, list[float] | None]]:
    sums = whole.group_by("second", maintain_order=True).agg(
        pl.col("iops").sum(), pl.col("bytes_per_s").sum()
    )
    for name in ("iops", "bytes_per_s"):
        yield name, _known(sums[name])
    for direction in ("read", "write", "trim"):
        rows = whole.filter(pl.col("direction") == direction)
        if rows["iops"].sum() > 0:
            for name, column in _FIGURES.items():
                yield f"{direction}.{name}", _known(rows[column])


def _known(values: pl.Series) -> list[float] | None:
    """The values as floats; None when any is missing."""
    if values.is_empty() or values.null_count():
        return None
    return [float(value) for value in values.to_list()]

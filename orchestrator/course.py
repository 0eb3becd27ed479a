"""The course of a case from its series file: windows, steadiness, what stands out and where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import polars as pl
from msgspec.structs import replace

from orchestrator.dips import Anomaly, find_anomalies
from orchestrator.evidence import WorkerEvidence
from orchestrator.log_reader import Member, find_logs
from orchestrator.series import SeriesSummary, scan_series, write_series
from orchestrator.steady import SteadyRule, judge_series
from orchestrator.timeline import DIRECTIONS
from orchestrator.windows import Course, Standstill, WindowRate, WindowRates

#: A second counts as measured by all when at most this much of one worker's second is missing.
WHOLE: Final = 0.02
#: A worker that begins this long after the first is named.
NAMED_LATE_S: Final = 1.0
#: One that ends this long before the last, too: fio loses up to a second of its log as it ends.
NAMED_EARLY_S: Final = 2.0
#: Seconds at the edges of a series that are not whole.
EDGES_S: Final = 2.0
#: Anomalies that a result keeps: the longest.
KEPT: Final = 50


def case_course(
    raw: Path,
    out: Path,
    workers: Iterable[WorkerEvidence],
    *,
    ramp_s: float = 0.0,
    rule: SteadyRule | None = None,
) -> Course | None:
    """Reduce a case's logs into the series `out` and judge it; None when no worker has logs.

    `raw` is the case's folder with one folder for each worker. Only workers that are done count: a
    failed one's logs stand in raw.
    """
    members = [
        Member(
            worker=one.worker,
            files=find_logs(raw / one.worker),
            group=one.group,
            host=one.host,
            clock_offset_s=one.clock_offset_s or 0.0,
            measuring_from_ms=None if one.started is None else (one.started + ramp_s) * 1000.0,
        )
        for one in workers
        if one.outcome == "done"
    ]
    summary = write_series(out, members) if members else None
    return None if summary is None else read_course(out, summary, rule=rule)


def read_course(path: Path, summary: SeriesSummary, *, rule: SteadyRule | None = None) -> Course:
    """Judge the series at `path`. Without a `rule` SNIA's is applied to the whole common window."""
    total = _total(path)
    common = _common(total, len(summary.spans))
    begins = {name: span.begin_ms for name, span in summary.spans.items()}
    ends = {name: span.end_ms for name, span in summary.spans.items()}
    first, last = min(begins.values()), max(ends.values())
    whole = ((first - summary.origin_ms) / 1000.0, (last - summary.origin_ms) / 1000.0)
    rates = _rates(total, common) if common else []
    chosen = _over_the_measured(rule, len(rates))
    anomalies = _anomalies(path, rates, common) if common else []
    steady = judge_series(rates, chosen)
    judged = None
    if common and steady.window_s:
        judged = _window(total, (common[1] - int(steady.window_s), common[1]))
    return Course(
        origin_ms=summary.origin_ms,
        seconds=summary.seconds,
        whole=_window(total, whole),
        common=_window(total, common) if common else None,
        late_s=(max(begins.values()) - first) / 1000.0,
        tail_s=(last - min(ends.values())) / 1000.0,
        late_workers=_named(begins, first, NAMED_LATE_S),
        early_workers=_named(ends, last, NAMED_EARLY_S),
        without_series=summary.without,
        steady=steady,
        judged=judged,
        anomalies=tuple(anomalies[:KEPT]),
        standstills=tuple(_standstills(summary))[:KEPT],
        more_anomalies=max(0, len(anomalies) - KEPT),
        dropped_lines=summary.dropped_lines,
    )


def _over_the_measured(rule: SteadyRule | None, seconds: int) -> SteadyRule:
    """The rule, over all seconds where it has no window of its own. fio loses the interval in which
    it ends and a case seldom begins with a whole one, so a window may lack these seconds."""
    if rule is None:
        return SteadyRule().over(float(seconds))
    lacking = rule.window_s - seconds
    return rule.over(float(seconds)) if 0 < lacking <= EDGES_S else rule


def _standstills(summary: SeriesSummary) -> list[Standstill]:
    """The longest first."""
    found = [
        Standstill(
            worker=name,
            begin_s=(span.begin_ms - summary.origin_ms) / 1000.0,
            end_s=(span.end_ms - summary.origin_ms) / 1000.0,
        )
        for name, spans in summary.standstills.items()
        for span in spans
    ]
    return sorted(found, key=lambda one: one.begin_s - one.end_s)


def _total(path: Path) -> pl.DataFrame:
    columns = ("second", "direction", "workers", "iops", "bytes_per_s", "lat_mean_ns")
    rows = scan_series(path).filter(pl.col("scope") == "total").select(columns)
    return rows.sort("second").collect()


def _named(at: Mapping[str, float], from_ms: float, beyond_s: float) -> dict[str, float]:
    apart = {name: abs(instant - from_ms) / 1000.0 for name, instant in at.items()}
    return {name: round(seconds, 3) for name, seconds in apart.items() if seconds > beyond_s}


def _common(total: pl.DataFrame, workers: int) -> tuple[int, int] | None:
    """The longest stretch of seconds in which every worker measured."""
    full = total.filter(pl.col("workers") >= workers - WHOLE)["second"].unique().sort().to_list()
    best: tuple[int, int] | None = None
    begin = 0
    for place, second in enumerate(full):
        if place == 0 or second != full[place - 1] + 1:
            begin = second
        if best is None or second + 1 - begin > best[1] - best[0]:
            best = (begin, second + 1)
    return best


def _window(total: pl.DataFrame, window: tuple[float, float]) -> WindowRates:
    begin, end = window
    # A second that the window only touches belongs to it: nobody measured in the rest of it.
    inside = total.filter(pl.col("second") > begin - 1, pl.col("second") < end)
    rates = {}
    for (direction,), rows in inside.group_by("direction"):
        timed = rows.drop_nulls("lat_mean_ns")
        ios = float(timed["iops"].sum())
        latency = float((timed["iops"] * timed["lat_mean_ns"]).sum())
        rates[str(direction)] = WindowRate(
            iops=float(rows["iops"].sum()) / (end - begin),
            bytes_per_s=float(rows["bytes_per_s"].sum()) / (end - begin),
            lat_mean_ns=latency / ios if ios else None,
        )
    return WindowRates(begin_s=begin, end_s=end, **{d: rates.get(d) for d in DIRECTIONS})


def _rates(total: pl.DataFrame, window: tuple[int, int]) -> list[float]:
    """I/Os per second of all directions in each second of the window."""
    begin, end = window
    sums = total.group_by("second").agg(pl.col("iops").sum())
    every = pl.DataFrame({"second": range(begin, end)}, schema={"second": pl.Int64})
    joined = every.join(sums, on="second", how="left", maintain_order="left")
    return joined["iops"].fill_null(0.0).to_list()


def _anomalies(path: Path, rates: Sequence[float], window: tuple[int, int]) -> list[Anomaly]:
    """The cluster's and each worker's. A worker's is left out where the cluster's own covers it:
    that one counts the workers in which it shows."""
    begin, _ = window
    cluster = find_anomalies(rates, first_s=begin)
    own: list[Anomaly] = []
    seen = [0] * len(cluster)
    for name, values in _workers(path, window):
        for anomaly in find_anomalies(values, first_s=begin, worker=name):
            same = [n for n, one in enumerate(cluster) if _same(one, anomaly)]
            for number in same:
                seen[number] += 1
            if not same:
                own.append(anomaly)
    counted = [replace(one, workers_too=n) for one, n in zip(cluster, seen, strict=True)]
    return counted + sorted(own, key=lambda one: -one.seconds)


def _same(one: Anomaly, other: Anomaly) -> bool:
    down = ("stall", "dip", "throttled")
    return (
        (one.kind in down) == (other.kind in down)
        and one.begin_s - 2 <= other.end_s
        and other.begin_s - 2 <= one.end_s
    )


def _workers(path: Path, window: tuple[int, int]) -> Iterator[tuple[str, list[float]]]:
    """Each worker's rates over the window; some workers are read at a time."""
    begin, end = window
    rows = scan_series(path).filter(
        pl.col("scope") == "worker", pl.col("second").is_between(begin, end, closed="left")
    )
    names = rows.select(pl.col("name").unique()).collect()["name"].sort().to_list()
    for first in range(0, len(names), 64):
        some = rows.filter(pl.col("name").is_in(names[first : first + 64]))
        sums = some.group_by("name", "second").agg(pl.col("iops").sum()).collect()
        for (name,), part in sums.group_by("name"):
            rates = [0.0] * (end - begin)
            for second, rate in part.select("second", "iops").iter_rows():
                rates[second - begin] = rate
            yield str(name), rates

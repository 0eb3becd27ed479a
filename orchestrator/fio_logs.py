"""fio's own logs: the options that make them, the names they get, and what stands in them.

A rate or latency log has a row `time, value, direction, ...` for each interval in which something
completed; the time is the interval's end, in ms since 1970 (`log_unix_epoch`) or, without it,
since the job began to measure (after its ramp). Values: iops in I/Os per second, bw in KiB/s
rounded down, lat in ns. An interval without I/O has no row. The interval in which the job ends
has none in the iops, bw and histogram logs (seen with fio 3.33 to be lost on the way out).

A histogram log has a row `time, direction, block size, counts...` with 1856 >> coarseness counts
of completion latency (fio's bins, 2**coarseness neighbours added up).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Literal, cast

LogKind = Literal["iops", "bw", "lat", "clat", "slat", "hist"]

#: What the logs' names begin with; relative, so they land in fio's working directory.
LOG_PREFIX: Final = "series"
#: The kinds that a series is made of; fio writes clat and slat beside lat, which nothing reads.
USED_KINDS: Final[tuple[LogKind, ...]] = ("iops", "bw", "lat", "hist")
#: One row a second in the rate and latency logs.
INTERVAL_MS: Final = 1000
#: Rows of a job's histogram log at most, for each direction. fio holds every row in memory
#: until the job ends, about 17 KB each whatever the coarseness (measured, 3.33), so 600 rows of
#: 8 jobs with reads and writes take 160 MB of a worker; one row a second for an hour would take
#: a gigabyte. Ten minutes keep their seconds, an hour gets a row every 6 s.
MOST_HISTOGRAM_ROWS: Final = 600
#: Four of fio's bins in one: 464 counts, 1.4 KB a row instead of 5.6 KB, bins 6 % wide, so a
#: percentile over time is within 3.2 % (one of the whole case comes from json+ bins at 0.8 %).
HISTOGRAM_COARSENESS: Final = 2

_NAME = re.compile(
    r"^(?P<prefix>.+?)_(?P<kind>iops|bw|lat|clat|slat|clat_hist)\.(?P<job>\d+)\.log(?P<gz>\.gz)?$"
)


def histogram_interval_s(runtime_s: float) -> int:
    """Whole seconds between two rows of a histogram log, for a case of `runtime_s` seconds."""
    return max(1, math.ceil(runtime_s / MOST_HISTOGRAM_ROWS))


def log_options(runtime_s: float, *, prefix: str = LOG_PREFIX) -> dict[str, str]:
    """The options of a job file's `[global]` section that make fio write its logs.

    They need `group_reporting=0` only to tell jobs apart in the JSON, not for the logs: fio
    writes one set of files for each job, numbered from 1 in the order of the job file, clones by
    `numjobs` counted (`log_name`). An hour of one job and direction takes 0.5 MB in the five rate
    and latency logs and 0.85 MB in the histogram log; gzip makes both together 50 to 150 KB.
    """
    return {
        "write_iops_log": prefix,
        "write_bw_log": prefix,
        "write_lat_log": prefix,
        "log_avg_msec": str(INTERVAL_MS),
        "log_unix_epoch": "1",
        "write_hist_log": prefix,
        "log_hist_msec": str(histogram_interval_s(runtime_s) * 1000),
        "log_hist_coarseness": str(HISTOGRAM_COARSENESS),
    }


@dataclass(frozen=True)
class LogName:
    """What a log's file name says. `job` counts from 1 in the job file's order."""

    prefix: str
    kind: LogKind
    job: int
    gzipped: bool = False


def log_name(kind: LogKind, job: int, *, prefix: str = LOG_PREFIX) -> str:
    """The name fio gives the log of its `job`-th job (from 1)."""
    return f"{prefix}_{'clat_hist' if kind == 'hist' else kind}.{job}.log"


def parse_log_name(name: str) -> LogName | None:
    """What a file name says, None when it isn't a log's."""
    match = _NAME.match(name)
    if match is None:
        return None
    kind = "hist" if match["kind"] == "clat_hist" else match["kind"]
    return LogName(match["prefix"], cast(LogKind, kind), int(match["job"]), bool(match["gz"]))

"""fio's progress line (`--eta=always`), read for the live figures of a running case."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: fio prints rates in powers of 1024 by default (kb_base=1024, `unit_base` bytes): eta.c, num2str.
#: IOPS are in powers of 1000.
_BINARY = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "m": 10**6, "G": 10**9, "T": 10**12}
_BINARY |= {key: value for key, value in _DECIMAL.items() if key}

_JOBS = re.compile(r"Jobs: (\d+) \(f=(\d+)\)")
_STATES = re.compile(r"\]?: \[([^\]]*)\]")
_PERCENT = re.compile(r"\[(\d+(?:\.\d+)?)%\]")
_RATE = re.compile(r"\b([rwt])=(\d+(?:\.\d+)?)([KMGTP]i?|k)?(B/s|bit/s)")
_IOPS = re.compile(r"\[((?:[rwt]=\d+(?:\.\d+)?[kKMmGT]?,?)+) IOPS\]")
_ONE_IOPS = re.compile(r"([rwt])=(\d+(?:\.\d+)?)([kKMmGT]?)")
_LEFT = re.compile(r"\[eta (?:(\d+)d:)?(?:(\d+)h:)?(\d+)m:(\d+)s\]")


@dataclass(frozen=True)
class Eta:
    """Live figures: jobs that run, open files, fio's own letters for what each job does, percent
    done, seconds left; bytes per second and IOPS summed over directions. None is not printed."""

    jobs: int
    open_files: int
    states: str
    percent: float | None
    left_s: int | None
    bytes_per_s: dict[str, float]
    iops: dict[str, float]

    @property
    def total_iops(self) -> float | None:
        """IOPS of all directions; None when fio printed none."""
        return sum(self.iops.values()) if self.iops else None

    @property
    def total_bytes_per_s(self) -> float | None:
        """Bytes per second of all directions; None when fio printed none."""
        return sum(self.bytes_per_s.values()) if self.bytes_per_s else None


def parse_eta(line: str) -> Eta | None:
    """Read one progress line; None when it isn't one (or only its beginning was there)."""
    jobs = _JOBS.search(line)
    if jobs is None:
        return None
    states = _STATES.search(line)
    percent = _PERCENT.search(line)
    return Eta(
        jobs=int(jobs[1]),
        open_files=int(jobs[2]),
        states=states[1] if states else "",
        percent=float(percent[1]) if percent else None,
        left_s=_seconds_left(line),
        bytes_per_s=_rates(line),
        iops=_iops(line),
    )


def last_eta(text: str) -> Eta | None:
    """The last readable progress line of what fio printed, with carriage returns or newlines."""
    for line in reversed(re.split(r"[\r\n\x1e]+", text)):
        eta = parse_eta(line)
        if eta is not None and (eta.iops or eta.states):
            return eta
    return None


def _rates(line: str) -> dict[str, float]:
    rates = {}
    for way, figure, prefix, unit in _RATE.findall(line):
        rates[_DIRECTIONS[way]] = float(figure) * _BINARY[prefix] / (8 if unit == "bit/s" else 1)
    return rates


def _iops(line: str) -> dict[str, float]:
    found = _IOPS.search(line)
    if found is None:
        return {}
    return {
        _DIRECTIONS[way]: float(figure) * _DECIMAL[prefix]
        for way, figure, prefix in _ONE_IOPS.findall(found[1])
    }


def _seconds_left(line: str) -> int | None:
    found = _LEFT.search(line)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


_DIRECTIONS = {"r": "read", "w": "write", "t": "trim"}

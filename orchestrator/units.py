"""How sizes, times, rates and percents are written and read; inside there is one unit of each.

Bytes (int), seconds (float), nanoseconds of latency (int), I/Os per second (int), percent (int).
A size's `k` is 1024, as in fio; a count's `k` is 1000. `MB` and `MiB` are two different numbers:
the first is taken for rates alone, where it is 10^6 bytes, and is never printed for the second.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

_BINARY: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_DECIMAL: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_NUMBER: Final = r"(\d+(?:\.\d+)?)"
_SIZE: Final = re.compile(rf"{_NUMBER}\s*([kmgtp]?)(i?b)?", re.IGNORECASE)
_COUNT: Final = re.compile(rf"{_NUMBER}\s*([kmg]?)", re.IGNORECASE)
_DURATION_PART: Final = re.compile(rf"{_NUMBER}\s*(ms|d|h|m|s)", re.IGNORECASE)
_LATENCY: Final = re.compile(rf"{_NUMBER}\s*(ns|us|µs|ms|s)", re.IGNORECASE)
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NANOSECONDS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9}


def _text(value: object, kind: str, example: str) -> str:
    """The value as text; ValueError for what can't be a number at all (YAML's yes, a list)."""
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a {kind}; write it like {example}")
    if not isinstance(value, int | float | str):
        raise PydanticCustomError("scalar_type", f"must be a {kind}, like {example}")
    return str(value).strip()


def _whole(number: str, factor: int, text: str, unit: str) -> int:
    exact = Decimal(number) * factor
    if exact != int(exact):
        raise ValueError(f"{text!r} is not a whole number of {unit}")
    return int(exact)


def parse_size(value: object) -> int:
    """Bytes of `4k`, `50GiB`, `1.5g` or `512`. ValueError says what would be right.

    `50GB` is refused: it is 2^30 to fio and to vSphere, and 10^9 to a disk's label.
    """
    text = _text(value, "size", "4k, 50GiB or 512")
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a size; write it like 4k, 50GiB or 512 (bytes)")
    number, prefix, suffix = match[1], match[2].lower(), (match[3] or "").lower()
    if prefix and suffix == "b":
        letter = prefix.upper()
        raise ValueError(
            f"{text!r} can be read in two ways; write {number}{letter}iB for 1024-based units, "
            "or the number of bytes"
        )
    if not prefix and suffix == "ib":
        raise ValueError(f"{text!r} is not a size; write it like 4k, 50GiB or 512 (bytes)")
    return _whole(number, _BINARY[prefix], text, "bytes")


def format_size(size: int) -> str:
    """The shortest exact form that fio reads the same way: `4k`, `50g`, `1000`."""
    for prefix in ("p", "t", "g", "m", "k"):
        factor = _BINARY[prefix]
        if size and size % factor == 0:
            return f"{size // factor}{prefix}"
    return str(size)


def show_size(size: float) -> str:
    """For people, rounded: `4 KiB`, `1.5 GiB`, `512 B`."""
    value, name = float(size), "B"
    for name in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(value) < 1024 or name == "PiB":
            break
        value /= 1024
    return f"{value:.4g} {name}"


def parse_duration(value: object) -> float:
    """Seconds of `600`, `10m`, `1h30m` or `500ms`. ValueError says what would be right."""
    text = _text(value, "time", "600, 10m or 1h30m")
    if re.fullmatch(_NUMBER, text):
        return float(text)
    parts = _DURATION_PART.findall(text)
    if not parts or re.sub(r"\s", "", text) != "".join(f"{n}{u}" for n, u in parts):
        hint = f"; {text!r} with a colon is no time here" if ":" in text else ""
        raise ValueError(f"{text!r} is not a time; write it like 600 (s), 10m or 1h30m{hint}")
    units = [unit.lower() for _, unit in parts]
    if units != sorted(set(units), key=lambda unit: -_SECONDS[unit]):
        raise ValueError(f"{text!r} is not a time: units go from large to small, each once")
    total = sum(Decimal(number) * Decimal(str(_SECONDS[unit.lower()])) for number, unit in parts)
    return float(total)


def format_duration(seconds: float) -> str:
    """The exact text that parses back, to the millisecond: `1h30m`, `10m`, `2s`, `500ms`."""
    left = round(seconds * 1000)
    if left == 0:
        return "0s"
    text = ""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left = divmod(left, size)
        text += f"{count}{unit}" if count else ""
    return text


def parse_latency(value: object) -> int:
    """Nanoseconds of `500us`, `5ms`; a number without a unit is refused."""
    text = _text(value, "latency", "5ms or 500us")
    match = _LATENCY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a latency; write it with its unit, like 5ms or 500us")
    return _whole(match[1], _NANOSECONDS[match[2].lower()], text, "nanoseconds")


def format_latency(nanoseconds: int) -> str:
    """The shortest exact text that parses back: `5ms`, `1500us`."""
    for unit in ("s", "ms", "us"):
        if nanoseconds and nanoseconds % _NANOSECONDS[unit] == 0:
            return f"{nanoseconds // _NANOSECONDS[unit]}{unit}"
    return f"{nanoseconds}ns"


def parse_count(value: object) -> int:
    """A count such as I/Os per second: `50000`, `50k` (50,000: not fio's 51,200)."""
    text = _text(value, "count", "50000 or 50k")
    match = _COUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a count; write it like 50000 or 50k")
    return _whole(match[1], _DECIMAL[match[2].lower()], text, "I/Os")


def parse_byte_rate(value: object) -> int:
    """Bytes per second of `100MiB/s`, `100MB/s` (10^6), `100m` (2^20) or a plain number."""
    text = _text(value, "rate", "100MiB/s or 100MB/s")
    match = _SIZE.fullmatch(re.sub(r"\s*/s(ec)?$", "", text))
    if match is None or (not match[2] and (match[3] or "").lower() == "ib"):
        raise ValueError(f"{text!r} is not a rate; write it like 100MiB/s or 100MB/s")
    factors = _DECIMAL if (match[3] or "").lower() == "b" else _BINARY
    return _whole(match[1], factors[match[2].lower()], text, "bytes")


def show_byte_rate(bytes_per_s: float, *, binary: bool = False) -> str:
    """For people, two decimals: `104.86 MB/s`, or `100.00 MiB/s` where `binary`."""
    if binary:
        return f"{bytes_per_s / 2**20:,.2f} MiB/s"
    return f"{bytes_per_s / 10**6:,.2f} MB/s"


def parse_percent(value: object) -> int:
    """A whole percent from 0 to 100, as `70` or `70%` (fio knows no fractions here)."""
    text = _text(value, "percent", "70 or 70%").removesuffix("%").strip()
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{value!r} is not a percent; write it like 70 or 70%") from None
    if not math.isfinite(number) or number != int(number):
        raise ValueError(f"{value!r} is not a whole percent")
    if not 0 <= number <= 100:
        raise ValueError(f"{value!r} is not between 0 and 100 percent")
    return int(number)


def _positive(value: Any) -> Any:
    if value <= 0:
        raise ValueError("must be more than 0")
    return value


def _schema(pattern: str, *examples: str) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "pattern": pattern, "examples": list(examples)},
            ]
        }
    )


_SIZE_SCHEMA: Final = _schema(r"^[0-9.]+ ?([kKmMgGtTpP](iB)?|B)?$", "4k", "50GiB")
_DURATION_SCHEMA: Final = _schema(r"^([0-9.]+ ?(d|h|m|s|ms)?)+$", "10m", "1h30m")

#: Bytes, more than 0.
Size = Annotated[int, BeforeValidator(lambda v: _positive(parse_size(v))), _SIZE_SCHEMA]
#: Seconds, 0 or more.
Duration = Annotated[float, BeforeValidator(parse_duration), _DURATION_SCHEMA]
#: Seconds, more than 0.
PositiveDuration = Annotated[
    float, BeforeValidator(lambda v: _positive(parse_duration(v))), _DURATION_SCHEMA
]
#: I/Os per second, more than 0.
Iops = Annotated[
    int, BeforeValidator(lambda v: _positive(parse_count(v))), _schema(r"^[0-9.]+ ?[kKmM]?$", "50k")
]
#: Bytes per second, more than 0.
ByteRate = Annotated[
    int,
    BeforeValidator(lambda v: _positive(parse_byte_rate(v))),
    _schema(r"^[0-9.]+ ?[kKmMgG]?(i?B)?(/s)?$", "100MiB/s"),
]
#: Whole percent, 0 to 100.
Percent = Annotated[
    int, BeforeValidator(parse_percent), _schema(r"^(100|[0-9]{1,2})%?$", "70", "70%")
]
#: Nanoseconds, more than 0; written with its unit, also when a model is dumped.
Latency = Annotated[
    int,
    BeforeValidator(lambda v: _positive(parse_latency(v))),
    PlainSerializer(format_latency, return_type=str),
    WithJsonSchema(
        {"type": "string", "pattern": "^[0-9.]+ ?(ns|us|ms|s)$", "examples": ["5ms", "500us"]}
    ),
]

"""A fio job file as text: its sections and options, read the way fio's own parser reads them.

Lines are kept verbatim, so that a file can be changed in one place and be the same in all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from orchestrator.errors import ConfigError

#: fio's other names for the same option (its HOWTO; `--cmdhelp=NAME` prints the alias).
ALIASES: Final = {
    "readwrite": "rw",
    "blocksize": "bs",
    "blocksize_range": "bsrange",
    "blockalign": "ba",
    "timeout": "runtime",
    "iomem": "mem",
    "io_limit": "io_size",
    "nr_files": "nrfiles",
    "start_delay": "startdelay",
    "zone_range": "zonerange",
    "zone_size": "zonesize",
}
_HEADER: Final = re.compile(r"\s*\[(.*)\]\s*")
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d)?", re.IGNORECASE)
_SECONDS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_INT: Final = re.compile(r"(\d+)([kmgt]?)(i?)b?", re.IGNORECASE)
_EXPONENT: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


@dataclass(frozen=True)
class Line:
    """One line: its text, its number from 1, and its option where it holds one.

    `value` is None for a bare flag; a flag's meaning is 1.
    """

    text: str
    number: int
    key: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class Section:
    """A section's name and its lines below the header; fio's `global` may come several times."""

    name: str
    line: int
    lines: tuple[Line, ...]

    @property
    def is_global(self) -> bool:
        """Whether it holds defaults for the sections after it."""
        return self.name == "global"

    def options(self) -> dict[str, str]:
        """Its own options by canonical name; the last one of a name wins, a flag is `1`."""
        return {line.key: line.value or "1" for line in self.lines if line.key}


@dataclass(frozen=True)
class JobText:
    """A whole file: what stands before the first section, and the sections in order."""

    head: tuple[Line, ...]
    sections: tuple[Section, ...]

    def jobs(self) -> Iterator[tuple[Section, Mapping[str, str]]]:
        """Each job section with its options, those of the globals above it included."""
        inherited: dict[str, str] = {}
        for section in self.sections:
            if section.is_global:
                inherited |= section.options()
            else:
                yield section, inherited | section.options()

    def lines(self) -> Iterator[Line]:
        """All option lines, in order."""
        for section in self.sections:
            yield from (line for line in section.lines if line.key)

    def render(self) -> str:
        """The text again."""
        out = [line.text for line in self.head]
        for section in self.sections:
            out.append(f"[{section.name}]")
            out += [line.text for line in section.lines]
        return "\n".join(out) + "\n"


def _parse_line(text: str, number: int) -> Line:
    bare = re.split(r"[;#]", text, maxsplit=1)[0].strip()
    if not bare:
        return Line(text, number)
    if bare.startswith(("include ", "include\t")):
        return Line(text, number, "include", bare[len("include") :].strip())
    key, equals, value = bare.partition("=")
    key = key.strip().lower()
    return Line(text, number, ALIASES.get(key, key), value.strip() if equals else None)


def parse_job_text(text: str) -> JobText:
    """Split a job file into sections. Comments (`;`, `#`) are kept as lines without an option."""
    head: list[Line] = []
    sections: list[Section] = []
    name, start, lines = "", 0, head
    for number, raw in enumerate(text.splitlines(), start=1):
        header = _HEADER.fullmatch(re.split(r"[;#]", raw, maxsplit=1)[0])
        if header is None:
            lines.append(_parse_line(raw, number))
            continue
        if start:
            sections.append(Section(name, start, tuple(lines)))
        name, start, lines = header[1].strip(), number, []
    if start:
        sections.append(Section(name, start, tuple(lines)))
    return JobText(tuple(head), tuple(sections))


def fio_seconds(value: str) -> float | None:
    """Seconds of fio's time (`60`, `500ms`, `1h`); None when it isn't one (a `$` keyword)."""
    match = _TIME.fullmatch(value.strip())
    return float(match[1]) * _SECONDS[(match[2] or "s").lower()] if match else None


def fio_int(value: str) -> int | None:
    """fio's integer; None when it isn't one. `k` and `kb` are 1024 but `KiB` is 1000: with its
    default kb_base fio turns the standard's names round (seen with 3.33: bs=4KiB is 4000)."""
    match = _INT.fullmatch(value.strip())
    if match is None:
        return None
    base = 1000 if match[3] else 1024
    return int(match[1]) * int(base ** _EXPONENT[match[2].lower()])


def fio_flag(options: Mapping[str, str], key: str) -> bool:
    """Whether a flag is set; `key=0` is not."""
    return options.get(key, "0") not in ("0", "")


def fio_directions(value: str) -> tuple[int | None, int | None]:
    """The read and the write figure of `700`, `700,300` or `,300`; one figure is for both."""
    parts = [part.strip() for part in value.split(",")]
    read = fio_int(parts[0]) if parts[0] else None
    write = (fio_int(parts[1]) if parts[1] else None) if len(parts) > 1 else read
    return read, write


def set_option(job: JobText, key: str, value: str) -> JobText:
    """The file with an option replaced wherever it stands, or put before all where it doesn't."""
    if not any(line.key == key for line in job.lines()):
        return JobText(job.head, (Section("global", 0, (option_line(key, value),)), *job.sections))
    sections = tuple(
        replace(
            section,
            lines=tuple(
                option_line(key, value, line.number) if line.key == key else line
                for line in section.lines
            ),
        )
        for section in job.sections
    )
    return JobText(job.head, sections)


def option_line(key: str, value: str, number: int = 0) -> Line:
    """A line of our own."""
    return Line(f"{key}={value}", number, key, value)


@dataclass(frozen=True)
class JobTarget:
    """A target as fio sees it: its label, its path on the worker now, its size in bytes."""

    label: str
    path: str
    size: int
    kind: Literal["block", "file"]


def escape_filename(path: str) -> str:
    """The path as `filename=` takes it: a colon separates names, so it is escaped.

    ConfigError for what a job file can't say: comment signs, variables, line breaks, blanks at
    the ends.
    """
    if not path or path != path.strip() or re.search(r"[;#$\n\r\\]", path):
        raise ConfigError(
            f"target {path!r} can't be named in a fio job file",
            means="fio reads ; # $ \\ and line breaks in a name as something else",
            next_step="give the target another path",
        )
    return path.replace(":", "\\:")


def split_filenames(value: str) -> list[str]:
    """The names in a `filename=` value, unescaped."""
    return [part.replace("\\:", ":") for part in re.split(r"(?<!\\):", value) if part]


def named_files(job: JobText) -> tuple[str, ...]:
    """Every file that the job's sections name, each once, in the order they come."""
    names = [
        name
        for line in job.lines()
        if line.key == "filename"
        for name in split_filenames(line.value or "")
    ]
    return tuple(dict.fromkeys(names))

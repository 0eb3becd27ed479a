"""What the worker's program answers: a framed reply of fields, sections, text and files."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

#: The protocol of this package and its `program.sh`; another number is another version's program.
PROTOCOL = 1

_BEGIN = re.compile(rb"^#hcio-begin (\w+) (\d+)\r?$", re.MULTILINE)


class ReplyError(ValueError):
    """A reply that isn't one. The session names the host and the step."""


@dataclass(frozen=True)
class Section:
    """`key=value` lines and text blocks under one `@section NAME` line (the first has no name)."""

    name: str
    fields: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def number(self, key: str) -> float | None:
        """The field as a number; None when it is missing, empty or no number."""
        try:
            return float(self.fields.get(key, ""))
        except ValueError:
            return None

    def whole(self, key: str) -> int | None:
        """The field as a whole number; None when it is missing, empty or no number."""
        try:
            return int(self.fields.get(key, ""))
        except ValueError:
            return None


@dataclass(frozen=True)
class Reply:
    """One whole reply: the fields before any section, the named sections, the files."""

    verb: str
    head: Section
    sections: dict[str, Section]
    files: dict[str, bytes]


def parse_reply(raw: bytes, verb: str) -> Reply:
    """Find the reply to `verb` in what the session printed, whatever a login printed before it.

    Raises ReplyError when there is none, when it is another program's or another version's, and
    when it ends early: half a reply is no reply.
    """
    found = _BEGIN.search(raw)
    if found is None:
        raise ReplyError("no reply of the worker's program")
    if found[1].decode() != verb:
        raise ReplyError(f"a reply to {found[1].decode()!r} instead of {verb!r}")
    if int(found[2]) != PROTOCOL:
        raise ReplyError(f"protocol {int(found[2])}, this hcio speaks {PROTOCOL}")
    return _Reader(raw, found.end() + 1, verb).read()


class _Reader:
    """A cursor over the bytes of one reply."""

    def __init__(self, raw: bytes, at: int, verb: str) -> None:
        self.raw = raw
        self.at = at
        self.verb = verb
        self.section = Section("")
        self.text: list[str] | None = None
        self.reply = Reply(verb, self.section, {}, {})

    def read(self) -> Reply:
        end = f"#hcio-end {self.verb}"
        while (line := self._line()) != end:
            self._take(line)
        return self.reply

    def _line(self) -> str:
        stop = self.raw.find(b"\n", self.at)
        if stop < 0:
            raise ReplyError("the reply ends early")
        line = self.raw[self.at : stop].decode("utf-8", "surrogateescape")
        self.at = stop + 1
        return line

    def _take(self, line: str) -> None:
        if line.startswith("|"):
            if self.text is not None:
                self.text.append(line[1:])
        elif line.startswith("@section "):
            self._open(line.removeprefix("@section "))
        elif line.startswith("@text "):
            self._open_text(line.removeprefix("@text "))
        elif line == "@fail":
            self.section = self.reply.head
        elif line == "@end":
            self._close_text()
        elif line.startswith("@file "):
            self._file(line)
        elif "=" in line:
            key, _, value = line.partition("=")
            self.section.fields[key] = value

    def _open(self, name: str) -> None:
        self.section = (
            self.reply.sections.setdefault(name, Section(name)) if name else self.reply.head
        )

    def _open_text(self, name: str) -> None:
        self.text = []
        self.text_name = name

    def _close_text(self) -> None:
        if self.text is not None:
            self.section.texts[self.text_name] = "\n".join(self.text)
        self.text = None

    def _file(self, line: str) -> None:
        _, size, digest, name = line.split(" ", 3)
        content = self.raw[self.at : self.at + int(size)]
        self.at += int(size) + 1
        if len(content) != int(size) or self.raw[self.at - 1 : self.at] != b"\n":
            raise ReplyError(f"file {name} ends early: {len(content)} of {size} bytes")
        if digest != "-" and hashlib.sha256(content).hexdigest() != digest:
            raise ReplyError(f"file {name} was changed on its way: its SHA-256 differs")
        self.reply.files[name] = content

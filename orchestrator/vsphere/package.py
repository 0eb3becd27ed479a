"""OVF and OVA packages, by path or URL: the descriptor, and its files as streams with sizes."""

from __future__ import annotations

import io
import re
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final
from xml.etree import ElementTree

from orchestrator.errors import ConfigError

TIMEOUT: Final = 60.0
#: The envelope's own namespace.
_OVF: Final = "{http://schemas.dmtf.org/ovf/envelope/1}"


@dataclass(frozen=True)
class Part:
    """One file of a package: how to open it, and how many bytes it holds."""

    name: str
    size: int
    open: Callable[[], AbstractContextManager[IO[bytes]]]


@dataclass(frozen=True)
class Package:
    """A package: its descriptor's text, its networks' names, and its files by name."""

    descriptor: str
    networks: tuple[str, ...]
    parts: dict[str, Part]


@contextmanager
def opened(source: str) -> Iterator[Package]:
    """Open a package. ConfigError says what is wrong with it, before anything is uploaded."""
    with _stream(source) as stream:
        if source.lower().partition("?")[0].endswith(".ova"):
            yield from _ova(source, stream)
        else:
            descriptor = stream.read().decode("utf-8", "replace")
            yield _package(source, descriptor, lambda name: _neighbour(source, name))


@contextmanager
def _stream(source: str) -> Iterator[IO[bytes]]:
    try:
        if _is_url(source):
            # The scheme was looked at: http or https, nothing that reads files of this machine.
            with urllib.request.urlopen(source, timeout=TIMEOUT) as answer:  # noqa: S310
                yield answer
        else:
            with Path(source).expanduser().open("rb") as file:
                yield file
    except (urllib.error.URLError, OSError) as error:
        raise ConfigError(
            f"{source} can't be read: {getattr(error, 'reason', None) or error}",
            next_step="check the path or URL of vsphere.workers.source.ovf",
        ) from error


def _is_url(source: str) -> bool:
    return urllib.parse.urlsplit(source).scheme in ("http", "https")


def _ova(source: str, stream: IO[bytes]) -> Iterator[Package]:
    """An OVA is a tar archive; over HTTP it is copied first, to be sought in."""
    if not stream.seekable():
        with tempfile.TemporaryFile() as copy:
            for block in iter(lambda: stream.read(2**20), b""):
                copy.write(block)
            copy.seek(0)
            yield from _ova(source, copy)
        return
    try:
        with tarfile.open(fileobj=stream) as archive:
            members = {member.name: member for member in archive.getmembers() if member.isfile()}
            name = next((name for name in members if name.lower().endswith(".ovf")), None)
            if name is None:
                raise _wrong(source, "it holds no .ovf descriptor")
            text = _member(archive, members[name]).read().decode("utf-8", "replace")

            def part(name: str) -> Part | None:
                member = members.get(name)
                if member is None:
                    return None
                return Part(name, member.size, lambda: _member(archive, member))

            yield _package(source, text, part)
    except tarfile.TarError as error:
        raise _wrong(source, f"it is no OVA: {error}") from error


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    return archive.extractfile(member) or io.BytesIO()


def _neighbour(source: str, name: str) -> Part | None:
    """A file beside the descriptor. A descriptor must not reach outside of its own folder."""
    if "/" in name or "\\" in name or name.startswith("."):
        return None
    if _is_url(source):
        place = urllib.parse.urljoin(source, urllib.parse.quote(name))
        request = urllib.request.Request(place, method="HEAD")  # noqa: S310 - same scheme
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
                size = int(answer.headers.get("Content-Length") or 0)
        except (urllib.error.URLError, OSError):
            return None
    else:
        path = Path(source).expanduser().parent / name
        if not path.is_file():
            return None
        place, size = str(path), path.stat().st_size
    return Part(name, size, lambda: _stream(place))


def _package(source: str, descriptor: str, find: Callable[[str], Part | None]) -> Package:
    # No entity is ever right in a descriptor; without a DTD none can be declared.
    if re.search(r"<!(DOCTYPE|ENTITY)", descriptor):
        raise _wrong(source, "its descriptor declares entities")
    try:
        root = ElementTree.fromstring(descriptor)  # noqa: S314 - no DTD, see above
    except ElementTree.ParseError as error:
        raise _wrong(source, f"its descriptor is no XML: {error}") from error
    if root.tag != f"{_OVF}Envelope":
        raise _wrong(source, "its descriptor is no OVF envelope")
    parts: dict[str, Part] = {}
    for file in root.iter(f"{_OVF}File"):
        name = file.get(f"{_OVF}href", "")
        part = find(name)
        if part is None:
            raise _wrong(source, f"the file {name!r} that it names is missing")
        parts[name] = part
    networks = tuple(
        name for network in root.iter(f"{_OVF}Network") if (name := network.get(f"{_OVF}name", ""))
    )
    return Package(descriptor, networks, parts)


def _wrong(source: str, what: str) -> ConfigError:
    return ConfigError(
        f"{source} can't be used: {what}", next_step="give another OVF or OVA, or a template"
    )

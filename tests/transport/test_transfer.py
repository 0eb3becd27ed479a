"""Transfers notice short and changed copies, with whatever checksum tool there is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from orchestrator.errors import TransferFailed
from orchestrator.transport.base import Command, CommandResult
from orchestrator.transport.checksum import Checksum, cksum
from orchestrator.transport.local import open_local
from orchestrator.transport.transfer import get, put

T = 20.0
CONTENT = b"some\0bytes\xff\n" * 1000
NEEDED = ("sh", "cat", "wc", "mv", "rm", "chmod", "cksum")


def toolbox(folder: Path, *extra: str) -> dict[str, str]:
    """An environment whose PATH has only the named programs."""
    folder.mkdir()
    for name in (*NEEDED, *extra):
        path = shutil.which(name)
        if path is None:
            pytest.skip(f"{name} is not installed on this machine")
        (folder / name).symlink_to(path)
    return {"PATH": str(folder)}


@pytest.mark.parametrize("tool", ["sha256sum", "shasum", "openssl", "cksum"])
def test_any_checksum_tool_will_do(tmp_path: Path, tool: str) -> None:
    """Images without sha256sum use the next best tool, and an error says which it was."""
    extra = {"cksum": [], "shasum": ["shasum", "perl"]}.get(tool, [tool])
    with open_local("w1", environment=toolbox(tmp_path / "bin", *extra)) as session:
        session.put(CONTENT, str(tmp_path / "f"), timeout=T, mode=0o755)
        assert session.get(str(tmp_path / "f"), timeout=T) == CONTENT
        with pytest.raises(TransferFailed, match=f"{tool} differs"):
            put(
                Tampering(session, b"some", b"same"),
                CONTENT,
                str(tmp_path / "g"),
                timeout=T,
                mode=0o600,
            )
    assert not (tmp_path / "g").exists()


class Tampering:
    """A session whose bytes are changed on the way."""

    def __init__(self, inner: object, old: bytes, new: bytes) -> None:
        self._inner, self._old, self._new = inner, old, new

    @property
    def host(self) -> str:
        """The worker's name."""
        return "w1"

    def run(self, command: Command, *, timeout: float, stdin: bytes = b"") -> CommandResult:
        """Run with changed input; change the output."""
        changed = stdin.replace(self._old, self._new)
        result: CommandResult = self._inner.run(command, timeout=timeout, stdin=changed)  # type: ignore[attr-defined]
        return CommandResult(
            result.host,
            result.command,
            result.label,
            result.status,
            result.stdout.replace(self._old, self._new),
            result.stderr,
            result.started,
            result.duration,
        )


def test_short_and_changed_copies_are_told_apart(tmp_path: Path) -> None:
    """The error says how many bytes arrived, or that they differ; the old file stays."""
    target = tmp_path / "f"
    target.write_bytes(b"old")
    with open_local("w1") as session:
        with pytest.raises(TransferFailed, match=r"w1: put .*: 8000 of 12000 bytes arrived"):
            put(Tampering(session, b"some", b""), CONTENT, str(target), timeout=T, mode=0o600)
        assert target.read_bytes() == b"old"
        assert [path.name for path in tmp_path.iterdir()] == ["f"]
        target.write_bytes(CONTENT)
        with pytest.raises(TransferFailed, match="8000 of 12000 bytes arrived"):
            get(Tampering(session, b"some", b""), str(target), timeout=T)
        with pytest.raises(TransferFailed, match="sha256sum differs"):
            get(Tampering(session, b"some", b"same"), str(target), timeout=T)
        with pytest.raises(TransferFailed, match="no size and checksum"):
            get(Tampering(session, b"sha256sum", b""), str(target), timeout=T)


@pytest.mark.parametrize(
    ("content", "crc"),
    [(b"", "4294967295"), (b"hello\n", "3015617425"), (b"\0" * 300, "351385237")],
)
def test_cksum_is_that_of_posix(content: bytes, crc: str) -> None:
    """The values that the program itself prints."""
    assert cksum(content) == crc
    assert Checksum("cksum", crc).matches(content)

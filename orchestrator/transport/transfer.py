"""Transfers: files moved through commands, so that no file service is needed on the far side."""

from __future__ import annotations

import shlex
import uuid
from typing import Protocol

from orchestrator.errors import TransferFailed
from orchestrator.transport.base import Command, CommandResult, Literal
from orchestrator.transport.checksum import Checksum, cksum, sha256

#: Exit status of the receiving script when it has only `cksum`.
_ONLY_CKSUM = 97

# Sets `tool` and `digest` for the file $1. One process where sha256sum is there.
_DIGEST = """\
digest_of() {
  if command -v sha256sum >/dev/null 2>&1; then tool=sha256sum; digest=$(sha256sum <"$1")
  elif command -v shasum >/dev/null 2>&1; then tool=shasum; digest=$(shasum -a 256 <"$1")
  elif command -v openssl >/dev/null 2>&1; then tool=openssl
    digest=$(openssl dgst -sha256 -r <"$1")
  else tool=cksum; digest=$(cksum <"$1"); fi || exit 1
  digest=${digest%% *}
}
"""

_RECEIVE = """\
path=%(path)s; part=$path.%(token)s.part
[ ! -d "$path" ] || { echo "$path: is a directory" >&2; exit 1; }
umask %(umask)s
cat >"$part" || { rm -f -- "$part"; exit 1; }
digest_of "$part"
if [ "$tool" = cksum ] && [ -z "%(cksum)s" ]; then rm -f -- "$part"; exit 97; fi
if [ "$digest" != %(sha256)s ] && [ "$tool$digest" != "cksum%(cksum)s" ]; then
  echo "$tool" "$digest" $(wc -c <"$part"); rm -f -- "$part"; exit 0
fi
%(chmod)smv -f -- "$part" "$path" || { rm -f -- "$part"; exit 1; }
echo "$tool" stored %(size)s
"""

_SEND = """\
path=%(path)s
: <"$path" || exit 1
size=$(wc -c <"$path") || exit 1
digest_of "$path"
echo "$tool" "$digest" $size
exec cat <"$path"
"""


class Runs(Protocol):
    """Whatever can run a command: a transport's own `run`."""

    @property
    def host(self) -> str: ...

    def run(self, command: Command, *, timeout: float, stdin: bytes = b"") -> CommandResult: ...


def put(runs: Runs, content: bytes, path: str, *, timeout: float, mode: int) -> None:
    """Write `path` on the far side by rename after size and checksum were compared there.

    CommandFailed when it can't be written (no folder, full, read-only), TransferFailed when it
    arrived short or changed; the old file then stays as it was.
    """
    step = f"put {path}"
    result = runs.run(_receiving(content, path, mode, step, ""), timeout=timeout, stdin=content)
    if result.status == _ONLY_CKSUM:
        command = _receiving(content, path, mode, step, cksum(content))
        result = runs.run(command, timeout=timeout, stdin=content)
    tool, digest, size = _header(result.check(), step, result.stdout)
    if digest != "stored":
        raise _differs(runs.host, step, tool, sent=len(content), arrived=size)


def get(runs: Runs, path: str, *, timeout: float) -> bytes:
    """The whole content of `path`, its size and checksum compared here.

    CommandFailed when it can't be read, TransferFailed when it arrived short or changed.
    """
    step = f"get {path}"
    script = _DIGEST + _SEND % {"path": shlex.quote(path)}
    result = runs.run(Command.of(step, Literal(script), repeatable=True), timeout=timeout).check()
    head, _, content = result.stdout.partition(b"\n")
    tool, digest, size = _header(result, step, head)
    if len(content) != size or not Checksum(tool, digest).matches(content):
        raise _differs(runs.host, step, tool, sent=size, arrived=len(content))
    return content


def _receiving(content: bytes, path: str, mode: int, step: str, crc: str) -> Command:
    script = _RECEIVE % {
        "path": shlex.quote(path),
        "token": uuid.uuid4().hex[:12],
        "umask": f"{0o777 & ~mode:03o}",
        # A new file never gets its x bits from the umask.
        "chmod": f'chmod {mode:o} "$part" && ' if mode & 0o111 else "",
        "sha256": sha256(content),
        "cksum": crc,
        "size": len(content),
    }
    return Command.of(step, Literal(_DIGEST + script), repeatable=True)


def _header(result: CommandResult, step: str, line: bytes) -> tuple[str, str, int]:
    fields = line.decode("ascii", "replace").split()
    if len(fields) != 3 or not fields[2].isdigit():
        raise TransferFailed(
            result.host,
            step,
            "the far side's answer has no size and checksum",
            means=f"it said {line[:200]!r}",
            next_step="check that sh, cat and sha256sum there are the usual ones",
        )
    return fields[0], fields[1], int(fields[2])


def _differs(host: str, step: str, tool: str, *, sent: int, arrived: int) -> TransferFailed:
    what = f"{arrived} of {sent} bytes arrived" if sent != arrived else f"{tool} differs"
    return TransferFailed(
        host,
        step,
        what,
        means="the copy is not the file: cut short, changed on the way, or still being written",
        next_step="look for a full disk or another writer of this file, then try again",
    )

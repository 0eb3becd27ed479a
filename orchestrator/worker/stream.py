"""The stream that stages cases: the program itself, a header with sizes and SHA-256, the files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: Runs on the worker before there is a program: it only checks the stream and puts the program in
#: place. No `!` and no newline in it: a login shell may be csh.
#: $1 base, $2 run, $3 size of the program, $4 SHA-256 of the whole stream, $5 what to check.
BOOTSTRAP = (
    "umask 077; LC_ALL=C; export LC_ALL; "
    "say() { printf '\\n#hcio-begin stage 1\\n@fail\\nerror=%s\\ntext=%s\\n#hcio-end stage\\n'"
    ' "$1" "$2"; exit 3; }; '
    '[ -d "$1" ] || mkdir -p "$1" 2>/dev/null || say base "can not make folder $1"; '
    'if [ -h "$1" ]; then say base "$1 is not a folder of its own"; fi; '
    'set -- "$1" "$2" "$3" "$4" "$5" "$(ls -ldn "$1" | tr -s " " | cut -d " " -f 3)"; '
    '[ "$6" = "$(id -u)" ] || say base "folder $1 belongs to uid $6, not to us: '
    'name another base"; '
    'd=$1/$2; mkdir -p "$d" 2>/dev/null || say space "can not make folder $d"; '
    'f=$d/.stream.$$; cat >"$f" 2>/dev/null || say space "can not write $f: the disk is full"; '
    's=$({ sha256sum || openssl dgst -sha256 -r; } <"$f" 2>/dev/null | cut -c1-64); '
    'if [ "$s" != "$4" ]; then rm -f "$f"; '
    'say checksum "the stream arrived changed or short (or there is no sha256sum)"; fi; '
    'head -c "$3" "$f" >"$f.p" || say space "can not write $f.p"; '
    'if cmp -s "$f.p" "$d/program.sh"; then rm -f "$f.p"; else mv "$f.p" "$d/program.sh"; fi; '
    'exec sh "$d/program.sh" stage "$1" "$2" "$f" "$3" "$5"'
)


@dataclass(frozen=True)
class CheckedDevice:
    """A block device that a case uses, as it was judged: looked at again right before the start."""

    path: str
    size: int
    number: str  # major:minor


@dataclass(frozen=True)
class StagedCase:
    """What one case needs on one worker. `job` is the fio job file; paths in it may be relative to
    the case's `out` folder, which is fio's working directory. `files` are extra ones, by name."""

    name: str
    job: bytes
    devices: tuple[CheckedDevice, ...] = ()
    file_targets: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)

    def all_files(self) -> dict[str, bytes]:
        """Every file of the case's folder, by name."""
        lines = [f"device {d.size} {d.number} {d.path}" for d in self.devices]
        lines += [f"file - - {path}" for path in self.file_targets]
        targets = "".join(f"{line}\n" for line in lines).encode()
        return {**self.files, "targets": targets, "job.fio": self.job}


def read_program() -> bytes:
    """The worker's program as it ships in this package."""
    return Path(__file__).with_name("program.sh").read_bytes()


def build_stream(program: bytes, cases: Sequence[StagedCase]) -> tuple[bytes, str]:
    """The stream for `stage` and its SHA-256 in hex."""
    header: list[str] = []
    bodies: list[bytes] = []
    for case in cases:
        header.append(f"case {case.name}")
        for name, content in case.all_files().items():
            header.append(f"file {len(content)} {hashlib.sha256(content).hexdigest()} {name}")
            bodies.append(content)
    text = "".join(f"{line}\n" for line in [*header, "."]).encode("utf-8", "surrogateescape")
    stream = b"".join([program, text, *bodies])
    return stream, hashlib.sha256(stream).hexdigest()

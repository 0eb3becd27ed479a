"""Framing: what is put around a command so that only its own output counts as output.

A login shell's start files may print a greeting before the command runs, on either stream. So
each stream opens with a mark that nobody else can print, and the mark carries the process group.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from orchestrator.errors import AuthenticationFailed, TransportError
from orchestrator.transport.base import Command, Literal

#: Seconds between asking a process group to end and killing it.
GRACE = 2.0

# The group's number comes from /proc without a process of its own; where there is no /proc the
# shell leads its group.
_OPENING = (
    "{{ read -r _ _ _ _ hcio_group _ </proc/$$/stat; }} 2>/dev/null || hcio_group=$$\n"
    "printf '\\n%s %s\\n' {mark} \"$hcio_group\"; printf '\\n%s \\n' {mark} >&2\n"
    "unset hcio_group\n"
)
# What only a shell can do for itself (POSIX special built-ins and those without a program).
# fmt: off
_SHELL_ONLY = frozenset({
    ":", ".", "alias", "bg", "break", "cd", "command", "continue", "eval", "exec", "exit",
    "export", "fg", "getopts", "hash", "jobs", "read", "readonly", "return", "set", "shift",
    "times", "trap", "type", "ulimit", "umask", "unalias", "unset", "wait",
})
# fmt: on
_LOCKED = ("a password is required", "a terminal is required", "no tty present")


@dataclass(frozen=True)
class Framed:
    """A stream taken apart: the command's own bytes, and its process group where marked."""

    body: bytes
    group: int | None


def frame(command: Command, mark: str, *, sudo: bool = False) -> str:
    """The line for a login shell of any kind that runs the command in a POSIX shell.

    sudo is called with -n: it says no instead of asking for a password that nobody will type.
    """
    runner = "sudo -n -- sh -c" if sudo else "sh -c"
    # A plain program takes the shell's place, so that a signal that ends it is seen as one.
    become = "exec " if _is_program(command) else ""
    text = _OPENING.format(mark=mark) + become + command.shell()
    return f"exec {runner} {shlex.quote(text)}"


def _is_program(command: Command) -> bool:
    literal = any(isinstance(part, Literal) for part in command.parts)
    return bool(command.parts) and not literal and command.parts[0] not in _SHELL_ONLY


def unframe(stream: bytes, mark: str) -> Framed | None:
    """Drop all up to the mark's line; None when the mark isn't there (yet)."""
    _, found, rest = stream.partition(f"\n{mark} ".encode())
    line, ended, body = rest.partition(b"\n")
    if not found or not ended:
        return None
    return Framed(body, int(line) if line.isdigit() else None)


def body(stream: bytes, mark: str) -> bytes:
    """The command's own bytes, or all of them when the mark isn't there."""
    framed = unframe(stream, mark)
    return stream if framed is None else framed.body


def ending(group: int, *, sudo: bool = False) -> str:
    """The text that ends a process group: asked first, killed after GRACE seconds."""
    script = (
        f"kill -TERM -{group} 2>/dev/null || exit 0\n"
        f"(sleep {GRACE:.0f}; kill -KILL -{group}) </dev/null >/dev/null 2>&1 &\n"
    )
    runner = "sudo -n -- sh -c" if sudo else "sh -c"
    return f"exec {runner} {shlex.quote(script)}"


def never_started(
    host: str, step: str, status: int | None, said: bytes, *, sudo: bool
) -> TransportError:
    """The error for a command that ended without its mark: it was never run."""
    text = said.decode("utf-8", "replace").strip()[-500:]
    if sudo and any(words in text for words in _LOCKED):
        return AuthenticationFailed(
            host,
            step,
            "sudo needs a password",
            means="sudo is only ever called so that it can't ask for one",
            next_step="allow this user NOPASSWD in sudoers, log in as root, or turn sudo off",
        )
    if sudo:
        return AuthenticationFailed(
            host,
            step,
            f"sudo did not run the command (status {status}): {text}",
            next_step="install sudo and allow this user NOPASSWD, log in as root, or turn it off",
        )
    return AuthenticationFailed(
        host,
        step,
        f"the login shell did not run the command (status {status}): {text}",
        means="the user may log in but has no usable POSIX shell there",
        next_step="give the user /bin/sh, /bin/dash or /bin/bash as login shell",
    )

"""Every error that hcio raises: one tree, what it means for a run, and the exit code.

    HcioError
      ConfigError                    the user's files or words           exit 2
        InputError                     several problems, all listed at once
        TemplateError                  a template that can't be rendered
      BrokenError                    the lab, not the product            exit 4, outcome broken
        TransportError                 names the host and the step
          HostUnreachable*               no connection: address, port, time-out, dropped greeting
          ConnectionLost*                it was there and went away
          TransferFailed*                a file arrived short or changed
          AuthenticationFailed           refused; never retried (accounts lock)
          HostKeyRejected                unknown or changed host key
          KeyUnusable                    the private key file itself
          CommandTimedOut                our own deadline passed
        WorkerError                    the worker's program or protocol
        TargetRefused                  a target that must not be written
        VSphereError                   names the vCenter and the step
          VCenterUnreachable*            no connection, or no answer in time
          SessionExpired*                the session ended, and a new login did not last
          LoginRefused                   a wrong user or password; never retried (accounts lock)
          CertificateRejected            its certificate is not trusted
          TaskFailed                     vCenter says no; `fault` is its own word for it
          NotFoundInVCenter              nothing of that name, or several
          AwaitedTooLong                 a task or a guest did not get there in time
          DeploymentFailed               some workers; names each, keeps what succeeded
        HostsError                     some of many hosts; keeps what succeeded
      CommandError                   a command ran and said no           outcome failed
        CommandFailed                  exit status not 0
        CommandKilled                  ended by a signal or without a status
      ResultError                    figures that can't be used          exit 3
        UnreadableOutput               no usable fio document
        IncompatibleResults            things that must not be merged or compared
      StoreError                     the run folder                      exit 2

(* worth another try.) An error text says what happened, what it means and what to do next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXIT_GOOD = 0
EXIT_NO = 1
EXIT_USAGE = 2
EXIT_UNKNOWN = 3
EXIT_BROKEN = 4
EXIT_BUG = 70
EXIT_INTERRUPTED = 130


class HcioError(Exception):
    """Base of all. `what` happened, what it `means`, what to do `next_step`."""

    exit_code = EXIT_BUG
    retryable = False

    def __init__(self, what: str, *, means: str = "", next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.means = means
        self.next_step = next_step

    def __str__(self) -> str:
        lines = [self.what]
        if self.means:
            lines.append(f"  meaning: {self.means}")
        if self.next_step:
            lines.append(f"  next: {self.next_step}")
        return "\n".join(lines)


class ConfigError(HcioError):
    """The user's words or files; nothing has been touched yet."""

    exit_code = EXIT_USAGE


@dataclass(frozen=True)
class Problem:
    """One thing wrong in an input: where it is and what would be right."""

    file: str
    line: int | None
    path: str
    text: str
    nearest: str | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        path = f" {self.path}:" if self.path else ""
        hint = f" (did you mean {self.nearest!r}?)" if self.nearest else ""
        return f"{place}:{path} {self.text}{hint}"


class InputError(ConfigError):
    """All problems of one or several inputs, reported together."""

    def __init__(self, problems: Sequence[Problem], *, next_step: str = "") -> None:
        count = len(problems)
        head = f"{count} problem{'s' if count != 1 else ''} in the configuration"
        super().__init__(
            "\n".join([head, *(f"  {problem}" for problem in problems)]), next_step=next_step
        )
        self.problems = tuple(problems)


class TemplateError(ConfigError):
    """A template that names something unknown, or isn't a template."""


class BrokenError(HcioError):
    """The lab's fault: nothing is said about the storage under test."""

    exit_code = EXIT_BROKEN


class TransportError(BrokenError):
    """A host could not be used. `host` is its name, `step` what was being done."""

    def __init__(
        self, host: str, step: str, what: str, *, means: str = "", next_step: str = ""
    ) -> None:
        super().__init__(f"{host}: {step}: {what}", means=means, next_step=next_step)
        self.host = host
        self.step = step


class HostUnreachable(TransportError):
    """No connection could be made."""

    retryable = True


class ConnectionLost(TransportError):
    """The connection went away; what runs on the worker goes on there."""

    retryable = True


class TransferFailed(TransportError):
    """A file's size or checksum differs after the transfer."""

    retryable = True


class AuthenticationFailed(TransportError):
    """The host refused the login. Not tried again: accounts lock."""


class HostKeyRejected(TransportError):
    """The host's key is unknown, or not the one known."""


class KeyUnusable(TransportError):
    """The private key file is damaged, locked, public, or of an unknown kind."""


class CommandTimedOut(TransportError):
    """Our own deadline for a command passed; the remote process was told to end."""


class WorkerError(BrokenError):
    """A worker's program answered something that it must not answer."""

    def __init__(
        self, host: str, step: str, what: str, *, means: str = "", next_step: str = ""
    ) -> None:
        super().__init__(f"{host}: {step}: {what}", means=means, next_step=next_step)
        self.host = host
        self.step = step


class TargetRefused(BrokenError):
    """One or several targets that must not be written, each with its reason."""


class VSphereError(BrokenError):
    """A vCenter could not do what was asked. `host` is its name, `step` what was being done."""

    def __init__(
        self, host: str, step: str, what: str, *, means: str = "", next_step: str = ""
    ) -> None:
        super().__init__(f"{host}: {step}: {what}", means=means, next_step=next_step)
        self.host = host
        self.step = step


class VCenterUnreachable(VSphereError):
    """No connection to the vCenter, or it did not answer a call in time."""

    retryable = True


class SessionExpired(VSphereError):
    """The session ended again right after a new login."""

    retryable = True


class LoginRefused(VSphereError):
    """vCenter refused the user or the password. Not tried again: accounts lock."""


class CertificateRejected(VSphereError):
    """The vCenter's certificate is not one that was said to be trusted."""


class TaskFailed(VSphereError):
    """A call or task that vCenter answered with a fault; `fault` is the fault's own type name."""

    def __init__(
        self,
        host: str,
        step: str,
        fault: str,
        text: str,
        *,
        means: str = "",
        next_step: str = "",
    ) -> None:
        said = f"{fault}: {text}" if text else fault
        super().__init__(host, step, said, means=means, next_step=next_step)
        self.fault = fault
        self.text = text


class NotFoundInVCenter(VSphereError):
    """What the inventory names is not there, or is there more than once."""


class AwaitedTooLong(VSphereError):
    """A task or a guest did not reach what was awaited before its deadline."""


class DeploymentFailed(BrokenError):
    """Fewer workers than asked for. `errors` are by worker, `ready` the workers that are ready."""

    def __init__(
        self, name: str, errors: Mapping[str, Exception], ready: Sequence[Any], *, next_step: str
    ) -> None:
        lines = [f"deployment {name}: {len(errors)} of {len(errors) + len(ready)} workers failed"]
        lines += [
            f"  {worker}: {getattr(error, 'what', error)}"
            for worker, error in sorted(errors.items())
        ]
        super().__init__("\n".join(lines), next_step=next_step)
        self.errors = dict(errors)
        self.ready = tuple(ready)


class HostsError(BrokenError):
    """Some hosts failed. `errors` and `results` hold both sides, by host."""

    def __init__(
        self,
        step: str,
        errors: Mapping[str, Exception],
        results: Mapping[str, Any],
        *,
        next_step: str = "",
    ) -> None:
        total = len(errors) + len(results)
        lines = [f"{step}: {len(errors)} of {total} hosts failed"]
        lines += [f"  {host}: {error}" for host, error in sorted(errors.items())]
        super().__init__("\n".join(lines), next_step=next_step)
        self.step = step
        self.errors = dict(errors)
        self.results = dict(results)


class CommandError(HcioError):
    """A command that ran and said no. `result` is the evidence (a CommandResult)."""

    exit_code = EXIT_NO

    def __init__(self, what: str, result: Any, *, means: str = "", next_step: str = "") -> None:
        super().__init__(what, means=means, next_step=next_step)
        self.result = result


class CommandFailed(CommandError):
    """Exit status other than 0."""


class CommandKilled(CommandError):
    """Ended by a signal, or the server sent no status."""


class ResultError(HcioError):
    """Figures that can't be used."""

    exit_code = EXIT_UNKNOWN


class UnreadableOutput(ResultError):
    """A worker's output holds no usable fio document. `reason` is one of
    `empty`, `no JSON`, `incomplete`, `not fio`."""

    def __init__(self, source: str, reason: str, detail: str = "") -> None:
        super().__init__(
            f"{source}: {reason}" + (f": {detail}" if detail else ""),
            means="this worker's figures are missing from every total",
            next_step="look at the raw output beside it; run the case again if fio was cut short",
        )
        self.source = source
        self.reason = reason


class IncompatibleResults(ResultError):
    """Results that must not be merged or compared."""


class StoreError(HcioError):
    """A run folder that is missing, damaged, or used by another process."""

    exit_code = EXIT_USAGE

    def __init__(
        self, path: Path | str, what: str, *, means: str = "", next_step: str = ""
    ) -> None:
        super().__init__(f"{path}: {what}", means=means, next_step=next_step)
        self.path = path

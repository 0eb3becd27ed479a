"""The lab of the command line: the one place that names real transports and asks for secrets."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from orchestrator.inventory import Inventory, Jump, Ssh, Worker
from orchestrator.progress import Notice, Report
from orchestrator.retry import Attempt
from orchestrator.secrets import Secret, SecretReaders, SecretRef, machine_readers, resolve
from orchestrator.spec import Lab
from orchestrator.transport.base import Transport
from orchestrator.transport.local import open_local
from orchestrator.transport.retrying import RetryingTransport
from orchestrator.transport.ssh import SshSettings, open_ssh

#: How long a first connection is tried, in seconds. A refusal soon after boot is no reason to give
#: up a run, but whoever checks wants to know now.
RUN_PATIENCE_S = 30.0
CHECK_PATIENCE_S = 3.0


def make_lab(report: Report, poll_s: float | None = None) -> Lab:
    """The real world: this machine's clock and sleep."""
    return Lab(clock=time.time, sleep=time.sleep, report=report, poll_s=poll_s)


class Opener:
    """Opens workers. Every secret is fetched once, before the threads start (a prompt needs the
    terminal for itself)."""

    def __init__(
        self,
        inventory: Inventory,
        *,
        local: bool,
        report: Report,
        patience_s: float = RUN_PATIENCE_S,
    ) -> None:
        self._patience_s = patience_s
        self._ssh = inventory.ssh
        self._local = local
        self._report = report
        self._gate = threading.Semaphore(inventory.ssh.connections)
        self._secrets: dict[str, Secret] = {}
        readers = machine_readers(os.environ, ask_secret)
        for worker in inventory.workers:
            self._fetch(worker, readers)

    def _fetch(self, worker: Worker, readers: SecretReaders) -> None:
        wanted = [(worker.password, "password"), (worker.passphrase, "key passphrase")]
        for jump in worker.jump:
            wanted += [(jump.password, "password"), (jump.passphrase, "key passphrase")]
        for ref, what in wanted:
            if ref is not None and str(ref) not in self._secrets:
                purpose = f"{what} of worker {worker.name}"
                self._secrets[str(ref)] = resolve(ref, readers, purpose=purpose)

    def _secret(self, ref: SecretRef | None) -> Secret | None:
        return None if ref is None else self._secrets[str(ref)]

    def __call__(self, worker: Worker) -> Transport:
        """A connected, retrying session to one worker."""
        connect: Callable[[], Transport]
        if self._local:

            def connect() -> Transport:
                return open_local(worker.name, sudo=worker.sudo)

        else:
            settings = self._settings(worker)

            def connect() -> Transport:
                return open_ssh(worker.name, settings)

        transport = RetryingTransport(
            worker.name,
            connect,
            gate=self._gate,
            on_retry=lambda attempt: self._tell(worker.name, attempt),
        )
        transport.connect(timeout=self._patience_s)
        return transport

    def _settings(self, worker: Worker) -> SshSettings:
        return replace(
            _common(self._ssh),
            host=worker.host,
            port=worker.port,
            user=worker.user,
            key=Path(worker.key).expanduser() if worker.key else None,
            passphrase=self._secret(worker.passphrase),
            password=self._secret(worker.password),
            jump=tuple(self._jump(jump) for jump in worker.jump),
            sudo=worker.sudo,
        )

    def _jump(self, jump: Jump) -> SshSettings:
        return replace(
            _common(self._ssh),
            host=jump.host,
            port=jump.port,
            user=jump.user,
            key=Path(jump.key).expanduser() if jump.key else None,
            passphrase=self._secret(jump.passphrase),
            password=self._secret(jump.password),
        )

    def _tell(self, name: str, attempt: Attempt) -> None:
        """Say it once an outage; the end of it, good or bad, is told by what comes after."""
        if attempt.tries == 1:
            error = str(attempt.error).splitlines()[0]
            self._report(Notice(f"{error}; trying again"))


def _common(ssh: Ssh) -> SshSettings:
    """What all connections have in common; the host is filled in for each."""
    return SshSettings(
        host="",
        agent=ssh.agent,
        config=Path(ssh.config).expanduser() if ssh.config else None,
        known_hosts=Path(ssh.known_hosts).expanduser(),
        host_key_policy=ssh.policy,
        keepalive=ssh.keepalive,
        connect_timeout=ssh.connect_timeout,
        greeting_timeout=ssh.greeting_timeout,
    )


@functools.cache
def ask_secret(question: str) -> str:
    """Read a secret from the terminal without echo, each one once."""
    return str(click.prompt(question.rstrip(": "), hide_input=True, err=True))

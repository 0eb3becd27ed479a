"""Sessions with the hosts that hold the cache, from the inventory's `clear_cache:` section."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from orchestrator.cachehosts import ClearCache
from orchestrator.cli.lab import ask_secret
from orchestrator.osacache import Opener
from orchestrator.secrets import Secret, SecretRef, machine_readers, resolve
from orchestrator.transport.base import Transport
from orchestrator.transport.ssh import SshSettings, open_ssh


def host_opener(section: ClearCache) -> Callable[[str], Opener]:
    """What opens a session with a host by its name.

    Secrets are fetched here, once, before any thread starts.
    """
    readers = machine_readers(os.environ, ask_secret)

    def secret(ref: SecretRef | None, what: str) -> Secret | None:
        return None if ref is None else resolve(ref, readers, purpose=f"{what} of the ESXi hosts")

    password = secret(section.password, "password")
    passphrase = secret(section.passphrase, "key passphrase")

    def opener(host: str) -> Opener:
        settings = SshSettings(
            host=host,
            port=section.port,
            user=section.user,
            key=Path(section.key).expanduser() if section.key else None,
            passphrase=passphrase,
            password=password,
            known_hosts=Path(section.known_hosts).expanduser(),
            host_key_policy=section.policy,
        )

        def connect() -> Transport:
            return open_ssh(host, settings)

        return connect

    return opener

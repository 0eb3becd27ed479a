"""Whether a new worker is ready: its first boot is over, and its fio runs.

The host key was made by us and is pinned, so the first connection is verified already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from orchestrator.errors import WorkerError
from orchestrator.inventory import Worker
from orchestrator.transport.base import Command, Transport

STEP: Final = "getting ready"
#: cloud-init's own exit status for a boot that went well but for some complaints.
DEGRADED: Final = 2


def make_ready(
    worker: Worker,
    connect: Callable[[Worker], Transport],
    *,
    fio: bytes | None,
    boot_timeout: float = 900.0,
    timeout: float = 60.0,
) -> str:
    """Wait for the end of the first boot, push fio where one is given: fio's version text.

    `connect` tries as long as it likes. Raises WorkerError when cloud-init failed or fio doesn't
    run, and the transport's own errors.
    """
    with connect(worker) as transport:
        _booted(worker, transport, boot_timeout)
        if fio is not None:
            transport.put(fio, worker.fio, timeout=boot_timeout, mode=0o755)
        result = transport.run(
            Command.of("fio's version", worker.fio, "--version"), timeout=timeout
        )
    if result.status != 0:
        raise WorkerError(
            worker.name,
            STEP,
            f"{worker.fio} does not run: {(result.error_text or result.text).strip()[-200:]}",
            next_step="say fio: cloud-init (needs a package source), image, or push: PATH of a "
            "static binary",
        )
    return result.text.strip()


def _booted(worker: Worker, transport: Transport, timeout: float) -> None:
    script = "command -v cloud-init >/dev/null 2>&1 || exit 0; exec cloud-init status --wait --long"
    result = transport.run(
        Command.of("the end of the first boot", "sh", "-c", script), timeout=timeout
    )
    if result.status not in (0, DEGRADED):
        raise WorkerError(
            worker.name,
            STEP,
            f"cloud-init says: {result.text.strip()[-400:]}",
            next_step="look at /var/log/cloud-init-output.log on the worker",
        )

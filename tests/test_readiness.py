"""Whether a new worker is ready."""

from __future__ import annotations

import pytest

from orchestrator.errors import CommandTimedOut, WorkerError
from orchestrator.inventory import FileTarget, Worker
from orchestrator.readiness import make_ready
from orchestrator.transport.fake import FakeTransport, Reply

WORKER = Worker(name="w1", host="10.0.0.1", targets=(FileTarget(file="/x/y", size=1024),))


def worker(boot: Reply, fio: Reply | None = None) -> FakeTransport:
    """A worker whose first boot and fio answer so."""
    transport = FakeTransport("w1")
    transport.expect("cloud-init status --wait", boot)
    if fio is not None:
        transport.expect("--version", fio)
    return transport


@pytest.mark.parametrize("status", [0, 2])
def test_a_boot_that_went_well_or_nearly(status: int) -> None:
    """cloud-init's 2 is a boot with complaints: the worker is there all the same."""
    transport = worker(Reply(status=status), Reply(stdout=b"fio-3.36\n"))
    assert make_ready(WORKER, lambda _: transport, fio=None) == "fio-3.36"
    transport.verify()


def test_a_boot_that_failed_shows_what_cloud_init_says() -> None:
    """The reason is in the error, and where to look."""
    transport = worker(Reply(status=1, stdout=b"status: error\nno package fio"))
    with pytest.raises(WorkerError, match="no package fio") as caught:
        make_ready(WORKER, lambda _: transport, fio=None)
    assert "cloud-init-output.log" in caught.value.next_step


def test_a_boot_without_end_is_left() -> None:
    """The wait has its own time limit."""
    transport = worker(Reply(duration=1000.0))
    with pytest.raises(CommandTimedOut):
        make_ready(WORKER, lambda _: transport, fio=None, boot_timeout=900.0)


def test_fio_is_pushed_and_tried() -> None:
    """The user's binary is put where the worker's fio is said to be."""
    pushed = WORKER.model_copy(update={"fio": "/var/tmp/hcio-fio"})
    transport = worker(Reply(), Reply(stdout=b"fio-3.38\n"))
    assert make_ready(pushed, lambda _: transport, fio=b"ELF") == "fio-3.38"
    assert transport.files["/var/tmp/hcio-fio"] == b"ELF"


def test_a_worker_without_fio_is_not_ready() -> None:
    """The error says the three ways to get one."""
    transport = worker(Reply(), Reply(status=127, stderr=b"fio: not found"))
    with pytest.raises(WorkerError, match="not found") as caught:
        make_ready(WORKER, lambda _: transport, fio=None)
    assert "push" in caught.value.next_step

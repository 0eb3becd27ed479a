"""An OVF or OVA becomes a VM: the import order, the lease, the uploads, an abort on any error."""

from __future__ import annotations

import hashlib
import http.client
import ssl
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final

from pyVmomi import vim

from orchestrator.errors import AwaitedTooLong, CertificateRejected, TaskFailed, VCenterUnreachable
from orchestrator.vsphere.base import CloneOrder
from orchestrator.vsphere.collector import read, watch
from orchestrator.vsphere.package import Package, Part, opened
from orchestrator.vsphere.session import Session, task_failed

BLOCK: Final = 2**20
#: vCenter ends a lease that it hears nothing of for 300 s.
PROGRESS_SECONDS: Final = 15.0


def import_ovf(session: Session, source: str, order: CloneOrder, *, timeout: float) -> str:
    """Upload the package as the VM of the order, marked from its first moment: its ref.

    ConfigError for a package that can't be used; on any other error the lease is aborted, and
    vCenter removes what came in.
    """
    with opened(source) as package:
        spec = _import_spec(session, source, package, order)
        folder = vim.Folder(order.folder, session.stub)
        pool = vim.ResourcePool(order.pool, session.stub)
        host = vim.HostSystem(order.host, session.stub)
        step = f"importing {order.name}"
        lease = session.call(
            step, lambda: pool.ImportVApp(spec=spec.importSpec, folder=folder, host=host)
        )
        info = _ready(session, step, lease, timeout)
        try:
            _upload(session, lease, info, spec, package)
            session.call(step, lease.HttpNfcLeaseComplete)
        except BaseException:
            _abort(session, lease)
            raise
        return str(info.entity._moId)


def _import_spec(session: Session, source: str, package: Package, order: CloneOrder) -> Any:
    stub = session.stub
    pool = vim.ResourcePool(order.pool, stub)
    found = read(
        session,
        "reading the networks",
        [vim.HostSystem(order.host, stub)],
        {vim.HostSystem: ["network"]},
    )
    networks = list(found[0].get("network") or ()) if found else []
    params = vim.OvfManager.CreateImportSpecParams(
        entityName=order.name,
        hostSystem=vim.HostSystem(order.host, stub),
        diskProvisioning="thin",
        # Any network of the host: the worker's own cards are set after the clone.
        networkMapping=[
            vim.OvfManager.NetworkMapping(name=name, network=networks[0])
            for name in package.networks
            if networks
        ],
    )
    store = vim.Datastore(order.datastore, stub)
    manager = session.content.ovfManager
    spec = session.call(
        f"reading {source}",
        lambda: manager.CreateImportSpec(package.descriptor, pool, store, params),
        reads=True,
    )
    if spec.error:
        raise task_failed(session.host, f"reading {source}", spec.error[0])
    config = spec.importSpec.configSpec
    config.extraConfig = [
        *(config.extraConfig or ()),
        *(vim.option.OptionValue(key=k, value=v) for k, v in order.settings.items()),
    ]
    config.annotation = order.note
    return spec


def _ready(session: Session, step: str, lease: Any, timeout: float) -> Any:
    def settled(seen: Mapping[str, Mapping[str, Any]]) -> bool:
        return any(values.get("state") in ("ready", "error") for values in seen.values())

    paths = ["state"]
    seen = watch(session, step, [lease], vim.HttpNfcLease, paths, settled, timeout=timeout)
    if not settled(seen):
        _abort(session, lease)
        raise AwaitedTooLong(session.host, step, f"the upload is not open after {timeout:g} s")
    found = read(session, step, [lease], {vim.HttpNfcLease: ["state", "info", "error"]})[0]
    if found.get("state") == "error":
        raise task_failed(session.host, step, found.get("error"))
    return found.get("info")


def _abort(session: Session, lease: Any) -> None:
    """Give the lease back; vCenter then removes the half VM. It also does so by itself in time."""
    try:
        session.call("ending the upload", lease.HttpNfcLeaseAbort)
    except (VCenterUnreachable, TaskFailed):
        return


def _upload(session: Session, lease: Any, info: Any, spec: Any, package: Package) -> None:
    """Send every file that vCenter asks for, and report progress so that the lease stays."""
    names = {item.deviceId: item.path for item in spec.fileItem or ()}
    wanted = [url for url in info.deviceUrl or () if names.get(url.importKey) in package.parts]
    total = sum(package.parts[names[url.importKey]].size for url in wanted) or 1
    sent = 0
    last = time.monotonic()

    def passed(size: int) -> None:
        nonlocal sent, last
        sent += size
        if time.monotonic() - last >= PROGRESS_SECONDS:
            last = time.monotonic()
            percent = min(99, sent * 100 // total)
            session.call("uploading", lambda: lease.HttpNfcLeaseProgress(percent))

    for url in wanted:
        part = package.parts[names[url.importKey]]
        with part.open() as stream:
            _send(session, url, part, _blocks(stream, passed))


def _blocks(stream: IO[bytes], passed: Any) -> Iterator[bytes]:
    for block in iter(lambda: stream.read(BLOCK), b""):
        yield block
        passed(len(block))


def _send(session: Session, url: Any, part: Part, blocks: Iterator[bytes]) -> None:
    place = urllib.parse.urlsplit(url.url)
    host = session.login.host if place.hostname in (None, "*") else place.hostname
    step = f"uploading {part.name} to {host}"
    connection = _connection(session, url, host or "", place.port or 443)
    try:
        connection.request(
            "POST" if part.name.endswith(".vmdk") else "PUT",
            place.path,
            body=blocks,
            headers={
                "Content-Length": str(part.size),
                "Content-Type": "application/x-vnd.vmware-streamVmdk",
                "Overwrite": "t",
            },
        )
        answer = connection.getresponse()
        answer.read()
    except ssl.SSLError as error:
        raise CertificateRejected(
            session.host,
            step,
            str(error),
            next_step="add the hosts' authority to ca_file: uploads go to the ESXi host itself",
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise VCenterUnreachable(
            session.host,
            step,
            str(error) or type(error).__name__,
            next_step="uploads go to the ESXi host itself: port 443 to it must be open",
        ) from error
    finally:
        connection.close()
    if answer.status >= 300:
        raise TaskFailed(session.host, step, f"HTTP status {answer.status}", answer.reason)


def _connection(session: Session, url: Any, host: str, port: int) -> http.client.HTTPSConnection:
    """To the vCenter as always; to a host by the thumbprint that vCenter itself gives for it."""
    timeout = session.call_timeout
    if host == session.login.host:
        return session.connection(host, port, context=session.context, timeout=timeout)
    if not url.sslThumbprint:
        return http.client.HTTPSConnection(host, port, context=session.context, timeout=timeout)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    pin = url.sslThumbprint.replace(":", "").lower()

    class Pinned(http.client.HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            shown = self.sock.getpeercert(binary_form=True) or b""
            kind = hashlib.sha256 if len(pin) == 64 else hashlib.sha1
            if kind(shown).hexdigest() != pin:
                self.close()
                raise ssl.SSLError("its certificate is not the one that vCenter gives for it")

    return Pinned(host, port, context=context, timeout=timeout)

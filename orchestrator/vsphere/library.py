"""A content library's OVF template becomes a VM, through vCenter's REST service."""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any, Final

from pyVmomi import vim

from orchestrator.errors import NotFoundInVCenter, TaskFailed
from orchestrator.secrets import Secret
from orchestrator.vsphere.base import CloneOrder
from orchestrator.vsphere.collector import read
from orchestrator.vsphere.session import Session

SESSION_HEADER: Final = "vmware-api-session-id"


def deploy_item(
    session: Session, library: str, item: str, order: CloneOrder, *, timeout: float
) -> str:
    """Deploy the item as the VM of the order: its ref.

    The service takes no extraConfig here, so the VM carries the mark in its annotation until the
    caller sets it; one that was left half-way is found by that, and taken over.
    """
    there = _left_behind(session, order)
    if there is not None:
        return there
    step = f"deploying {library}/{item}"
    rest = _Rest(session, step, timeout)
    try:
        libraries = rest.ask(
            "POST", "/rest/com/vmware/content/library?~action=find", {"spec": {"name": library}}
        )
        found = _one(session, step, "content library", library, libraries)
        items = rest.ask(
            "POST",
            "/rest/com/vmware/content/library/item?~action=find",
            {"spec": {"name": item, "library_id": found}},
        )
        chosen = _one(session, step, f"item of {library}", item, items)
        answer = rest.ask(
            "POST",
            f"/rest/com/vmware/vcenter/ovf/library-item/id:{chosen}?~action=deploy",
            {
                "target": {
                    "resource_pool_id": order.pool,
                    "folder_id": order.folder,
                    "host_id": order.host,
                },
                "deployment_spec": {
                    "name": order.name,
                    "annotation": order.note,
                    "accept_all_EULA": True,
                    "default_datastore_id": order.datastore,
                    "storage_provisioning": "thin",
                },
            },
        )
    finally:
        rest.close()
    if not answer.get("succeeded"):
        raise TaskFailed(session.host, step, "DeployFailed", _reasons(answer))
    return str(answer["resource_id"]["id"])


def _left_behind(session: Session, order: CloneOrder) -> str | None:
    step = "reading the folder"
    folder = vim.Folder(order.folder, session.stub)
    found = read(session, step, [folder], {vim.Folder: ["childEntity"]})
    children = [
        child
        for child in (found[0].get("childEntity") or () if found else ())
        if isinstance(child, vim.VirtualMachine)
    ]
    if not children:
        return None
    machines = read(session, step, children, {vim.VirtualMachine: ["name", "config.annotation"]})
    for machine in machines:
        if (machine.get("name"), machine.get("config.annotation")) == (order.name, order.note):
            return machine.ref
    return None


def _one(session: Session, step: str, what: str, name: str, ids: Any) -> str:
    if isinstance(ids, list) and len(ids) == 1:
        return str(ids[0])
    count = "no" if not ids else f"{len(ids)} of"
    raise NotFoundInVCenter(
        session.host, step, f"{count} {what} {name!r}", next_step="check its name in vCenter"
    )


def _reasons(answer: Any) -> str:
    errors = (answer.get("error") or {}).get("errors") or []
    texts = [
        message.get("default_message", "")
        for error in errors
        for message in (error.get("error") or {}).get("messages") or []
    ]
    return "; ".join(text for text in texts if text)


class _Rest:
    """A REST session of its own, on the same certificate check and login."""

    def __init__(self, session: Session, step: str, timeout: float) -> None:
        self._session = session
        self._step = step
        self._timeout = timeout
        self._token: str | None = None
        user = session.login.user
        name = user.reveal() if isinstance(user, Secret) else user
        pair = f"{name}:{session.login.password.reveal()}".encode()
        basic = "Basic " + base64.b64encode(pair).decode("ascii")
        login = {"Authorization": basic}
        self._token = str(self._send("POST", "/rest/com/vmware/cis/session", None, login))

    def ask(self, method: str, path: str, body: Any) -> Any:
        """One call; the answer's value."""
        return self._send(method, path, body, {SESSION_HEADER: self._token or ""})

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        def ask() -> Any:
            login = self._session.login
            connection = self._session.connection(
                login.host, login.port, context=self._session.context, timeout=self._timeout
            )
            try:
                text = json.dumps(body) if body is not None else ""
                connection.request(
                    method, path, text, {"Content-Type": "application/json", **headers}
                )
                answer = connection.getresponse()
                data = answer.read()
            finally:
                connection.close()
            return self._value(answer, data)

        return self._session.call(self._step, ask)

    def _value(self, answer: http.client.HTTPResponse, data: bytes) -> Any:
        if answer.status >= 300:
            text = data.decode("utf-8", "replace")[:300]
            raise TaskFailed(self._session.host, self._step, f"HTTP status {answer.status}", text)
        try:
            found = json.loads(data) if data else {}
        except ValueError as error:
            raise http.client.HTTPException("an answer that is no JSON") from error
        return found.get("value") if isinstance(found, dict) and "value" in found else found

    def close(self) -> None:
        """End the REST session; what goes wrong now no longer matters."""
        try:
            self.ask("DELETE", "/rest/com/vmware/cis/session", None)
        except Exception:  # noqa: BLE001 - the answer, or the error on its way out, matters more
            return

"""Passwords reach the login byte for byte (case 53), asked plainly or as a question."""

from __future__ import annotations

import base64
import json
import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from orchestrator.errors import AuthenticationFailed
from orchestrator.secrets import Secret, SecretReaders, SecretRef, resolve
from orchestrator.transport.ssh import SshSettings, open_ssh
from tests.loopback import CASES

DATA = json.loads((CASES / "53-special-characters-in-secrets" / "secrets.json").read_text("utf-8"))


class Door(paramiko.ServerInterface):
    """A login that compares and records. `way` is the one method it allows."""

    def __init__(self, way: str, user: str, password: str) -> None:
        self.way, self.user, self.password = way, user, password
        self.tries: list[tuple[str, str]] = []

    def get_allowed_auths(self, username: str) -> str:
        return self.way

    def check_auth_password(self, username: str, password: str) -> int:
        if self.way != "password":
            return paramiko.AUTH_FAILED
        return self._compare(username, password)

    def check_auth_interactive(self, username: str, submethods: str) -> object:
        self.asking = username
        return paramiko.InteractiveQuery("", "", ("Password: ", False))

    def check_auth_interactive_response(self, responses: list[str]) -> int:
        return self._compare(self.asking, responses[0])

    def _compare(self, username: str, password: str) -> int:
        self.tries.append((username, password))
        same = (username, password) == (self.user, self.password)
        return paramiko.AUTH_SUCCESSFUL if same else paramiko.AUTH_FAILED


class Server:
    """A server behind a door, for one login after another."""

    def __init__(self, folder: Path, door: Door) -> None:
        self.door = door
        self._key = paramiko.ECDSAKey.generate()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._transports: list[paramiko.Transport] = []
        port = self._listener.getsockname()[1]
        self.known = folder / "known"
        blob = base64.b64encode(self._key.asbytes()).decode()
        self.known.write_text(f"[127.0.0.1]:{port} {self._key.get_name()} {blob}\n")
        self.port = port
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def settings(self, user: str, password: Secret) -> SshSettings:
        """How to log in here."""
        return SshSettings(
            "127.0.0.1", port=self.port, user=user, password=password, known_hosts=self.known
        )

    def stop(self) -> None:
        """Close all."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for transport in self._transports:
            transport.close()

    def _serve(self) -> None:
        while True:
            try:
                opened, _ = self._listener.accept()
            except OSError:
                return
            transport = paramiko.Transport(opened)
            transport.add_server_key(self._key)
            transport.start_server(event=threading.Event(), server=self.door)
            self._transports.append(transport)


@pytest.fixture(params=["password", "keyboard-interactive"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server for each way to ask for a password."""
    running = Server(tmp_path, Door(request.param, "", ""))
    yield running
    running.stop()


def test_case_53_passwords_arrive_byte_for_byte(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """Case 53: every password and user form reaches the login unchanged, through a secret file
    whose own newline is dropped, and none of them stands in a log."""
    caplog.set_level(logging.DEBUG)
    for number, password in enumerate(DATA["passwords"]):
        user = DATA["users"][number % 2]
        server.door.user, server.door.password = user, password
        kept = f"{password}\n".encode()
        readers = SecretReaders({}, lambda _path, kept=kept: kept, lambda _s, _u: None, str)
        secret = resolve(SecretRef.parse("file:/pw"), readers, purpose="password")
        with open_ssh("w1", server.settings(user, secret)) as session:
            assert session.alive
        assert server.door.tries[-1] == (user, password)
        if password != "plain":
            assert password not in caplog.text


def test_a_refused_password_is_offered_once(server: Server) -> None:
    """Accounts lock: one try, an error that is never repeated, and no password in it."""
    server.door.user, server.door.password = "bench", "right"
    how = server.settings("bench", Secret("hunter2"))
    with pytest.raises(AuthenticationFailed, match="user bench was refused") as caught:
        open_ssh("w1", how)
    assert server.door.tries == [("bench", "hunter2")]
    assert not caught.value.retryable
    assert "hunter2" not in f"{caught.value} {caught.value!r} {how!r}"

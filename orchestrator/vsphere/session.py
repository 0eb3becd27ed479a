"""A session with a vCenter: TLS, login, one new login when it was lost, and every error mapped.

pyVmomi checks a pinned certificate only when the usual check fails, and afterwards accepts any: the
pin is checked here, on every connection.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.cookies import SimpleCookie
from typing import Any, Final, TypeVar
from xml.parsers.expat import ExpatError

from pyVmomi import SoapStubAdapter, VmomiSupport, vim, vmodl

from orchestrator.errors import (
    CertificateRejected,
    HcioError,
    LoginRefused,
    NotFoundInVCenter,
    SessionExpired,
    TaskFailed,
    VCenterUnreachable,
)
from orchestrator.secrets import Secret

R = TypeVar("R")

#: Seconds that one call may take before the vCenter counts as not answering.
CALL_TIMEOUT: Final = 60.0
#: A kept connection is not used again after so many idle seconds: servers close them silently.
IDLE_SECONDS: Final = 20
CONNECTIONS: Final = 32

#: Every vCenter in support speaks it.
OLDEST_VERSION: Final = "vim.version.v7_0"
#: Of vSphere 6.0; the first that knows a datastore's default policy.
PBM_VERSION: Final = "pbm.version.version2"
TRUST_STEPS: Final = (
    "give the certificate's authority (tls by ca_file), pin its thumbprint "
    "(thumbprint: its SHA-256), or say insecure: true to go on without any check"
)


@dataclass(frozen=True)
class Login:
    """Whom to ask, as whom, and which certificate is trusted: the system's authorities unless
    `ca_file` (a path), `thumbprint` (SHA-256, hex) or `insecure` says otherwise."""

    host: str
    port: int
    user: str | Secret
    password: Secret
    ca_file: str | None = None
    thumbprint: str | None = None
    insecure: bool = False


class PinMismatch(ssl.SSLError):
    """The server showed another certificate than the pinned one."""


class _Lost(Exception):
    """vCenter says that we aren't logged in."""


def trust(login: Login) -> ssl.SSLContext:
    """The TLS settings of a login. CertificateRejected when the CA file can't be used."""
    if login.insecure or login.thumbprint:
        # No authority is asked: reading the system's takes longer than a whole login.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        return ssl.create_default_context(cafile=login.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise CertificateRejected(
            login.host,
            "reading the CA file",
            f"{login.ca_file}: {error}",
            next_step="give a PEM file with the authority's certificate",
        ) from error


def connection_class(login: Login) -> type[http.client.HTTPSConnection]:
    """An HTTPS connection that checks the pin, if there is one, before anything is sent."""
    pin = (login.thumbprint or "").replace(":", "").lower()

    class Pinned(http.client.HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            if pin:
                shown = self.sock.getpeercert(binary_form=True)
                found = hashlib.sha256(shown or b"").hexdigest()
                if found != pin:
                    self.close()
                    raise PinMismatch(f"its certificate's thumbprint is {found}")

    return Pinned


class _Stub(SoapStubAdapter):  # type: ignore[misc] # half-typed library: it counts as Any
    """The library's connection, with a cookie of our choice alone.

    A vCenter answers a call without a session with a cookie for a new, anonymous one; taken from
    a late answer of another thread it would replace the one that has just been logged in.
    """

    @property
    def cookie(self) -> str:
        """The session that calls are made in."""
        return self._cookie

    @cookie.setter
    def cookie(self, value: str) -> None:
        if not hasattr(self, "_cookie"):
            self._cookie = value

    def adopt(self, cookie: str) -> None:
        """Make calls in this session from now on."""
        self._cookie = cookie


class Session:
    """A logged-in session, usable by several threads."""

    def __init__(self, login: Login, *, call_timeout: float = CALL_TIMEOUT) -> None:
        """Connect and log in. Raises CertificateRejected, LoginRefused or VCenterUnreachable."""
        self.login = login
        self.host = login.host
        self.call_timeout = call_timeout
        self.context = trust(login)
        self.connection = connection_class(login)
        self._lock = threading.Lock()
        self._generation = 0
        self._closed = False
        self._api = self._mapped("connecting", self._version)
        self._stub = self._new_stub(_Stub, "/sdk", self._api)
        self._pbm: SoapStubAdapter | None = None
        self.instance = vim.ServiceInstance("ServiceInstance", self._stub)
        try:
            self.content: Any = self._mapped("connecting", self.instance.RetrieveContent)
            self._sessions: Any = self.content.sessionManager
            self._mapped("logging in", self._log_in)
        except BaseException:
            self._stub.DropConnections()
            raise

    def _new_stub(self, kind: type[SoapStubAdapter], path: str, version: str) -> SoapStubAdapter:
        stub = kind(
            host=self.login.host,
            port=self.login.port,
            path=path,
            version=version,
            sslContext=self.context,
            poolSize=CONNECTIONS,
            connectionPoolTimeout=IDLE_SECONDS,
            httpConnectionTimeout=self.call_timeout,
        )
        stub.scheme = self.connection
        return stub

    def _version(self) -> str:
        """The newest API version that both sides know; a vCenter refuses one newer than itself."""
        server = self.connection(
            self.login.host, self.login.port, context=self.context, timeout=self.call_timeout
        )
        try:
            server.request("GET", "/sdk/vimServiceVersions.xml")
            text = server.getresponse().read().decode("utf-8", "replace")
        finally:
            server.close()
        for version in re.findall(r"<version>\s*([0-9.]+)\s*</version>", text):
            known: str | None = VmomiSupport.versionMap.get(f"vim25/{version}")
            if known is not None:
                return known
        return OLDEST_VERSION

    def _log_in(self) -> None:
        """Log in on a connection of its own, then let all calls go on in the new session."""
        user = self.login.user
        door = self._new_stub(SoapStubAdapter, "/sdk", self._api)
        try:
            vim.SessionManager(self._sessions._moId, door).Login(
                userName=user.reveal() if isinstance(user, Secret) else user,
                password=self.login.password.reveal(),
                locale=None,
            )
            self._stub.adopt(door.cookie)
        finally:
            door.DropConnections()

    @property
    def session_key(self) -> str:
        """The key that the sister services (policies, vSAN) take for this session."""
        cookie = SimpleCookie(self._stub.cookie)
        return next(iter(cookie.values())).value if cookie else ""

    @property
    def stub(self) -> SoapStubAdapter:
        """The connection to the vCenter's main service."""
        return self._stub

    def pbm(self) -> SoapStubAdapter:
        """A connection to the policy service, on this session."""
        stub = self._pbm
        if stub is None:
            stub = self._pbm = self._new_stub(_Stub, "/pbm/sdk", PBM_VERSION)
        stub.requestContext = {"vcSessionCookie": self.session_key}
        return stub

    def call(self, step: str, ask: Callable[[], R], *, reads: bool = False) -> R:
        """Do `ask`, and once more after a new login when the session was lost.

        `ask` may run twice, so it makes its own collectors and views; vCenter did nothing for a
        call that it answered with NotAuthenticated. What only `reads` is also asked again when the
        connection broke. Raises VSphereError branches only.
        """
        generation = self._generation
        try:
            return self._mapped(step, ask)
        except _Lost:
            self._log_in_again(generation)
        except VCenterUnreachable:
            if not reads:
                raise
        try:
            return self._mapped(step, ask)
        except _Lost:
            raise SessionExpired(
                self.host,
                step,
                "the session ended again right after a new login",
                next_step="look whether the user's sessions are limited or being ended; try again",
            ) from None

    def _log_in_again(self, generation: int) -> None:
        with self._lock:
            if self._generation != generation:
                return  # another thread has done it
            self._mapped("logging in again", self._log_in)
            self._generation += 1

    def _mapped(self, step: str, ask: Callable[[], R]) -> R:
        try:
            return ask()
        except (HcioError, _Lost):
            raise
        except Exception as error:  # noqa: BLE001 - the library lets everything through
            raise failure(self.login, step, error, self.call_timeout) from _cause(error)

    def close(self) -> None:
        """Log out; what goes wrong now no longer matters, the session ends by itself."""
        if self._closed:
            return
        self._closed = True
        try:
            self._mapped("logging out", self._sessions.Logout)
        except (HcioError, _Lost):
            return
        finally:
            self._stub.DropConnections()
            if self._pbm is not None:
                self._pbm.DropConnections()


def lost() -> Exception:
    """What a reader raises that finds NotAuthenticated inside an answer."""
    return _Lost()


def _cause(error: Exception) -> Exception | None:
    """A login's own fault repeats nothing secret, but the library's texts are not ours to trust."""
    return None if isinstance(error, vim.fault.InvalidLogin) else error


def failure(login: Login, step: str, error: Exception, call_timeout: float) -> Exception:
    """The error of ours that stands for one of the library's, the network's or vCenter's."""
    host = login.host
    # The policy service's older version knows NotAuthenticated by its parent's name alone.
    if isinstance(error, vim.fault.NotAuthenticated) or type(error) is vmodl.fault.SecurityError:
        return _Lost()
    if isinstance(error, vim.fault.InvalidLogin):
        return LoginRefused(
            host,
            step,
            "user or password refused",
            means="not tried again, since accounts lock",
            next_step="check vsphere.vcenter.user and the secret that password refers to",
        )
    if isinstance(error, vmodl.fault.ManagedObjectNotFound):
        gone = getattr(error.obj, "_moId", None) or "an object"
        return NotFoundInVCenter(host, step, f"{gone} is no longer there")
    if isinstance(error, vmodl.MethodFault):
        return task_failed(host, step, error)
    if isinstance(error, PinMismatch | ssl.SSLCertVerificationError):
        return CertificateRejected(
            host,
            step,
            f"its certificate is not trusted: {_words(error)}",
            means="nothing was sent; it may be self-signed, or not the vCenter at all",
            next_step=TRUST_STEPS,
        )
    if isinstance(error, TimeoutError):
        return VCenterUnreachable(
            host,
            step,
            f"no answer in {call_timeout:g} s",
            means="whether the call was carried out is not known; what it made carries our mark",
            next_step="run the same command again: it goes on from what is there",
        )
    if isinstance(error, http.client.HTTPException | ExpatError):
        return VCenterUnreachable(
            host,
            step,
            f"no usable answer: {_words(error)}",
            means="the connection was cut, or what answers is no vCenter, or one that is starting",
            next_step="open its page in a browser; when it is up, run the command again",
        )
    if isinstance(error, OSError):
        return VCenterUnreachable(
            host,
            step,
            f"no connection to port {login.port}: {_words(error)}",
            next_step="check the name, port 443 and the firewall, then run the command again",
        )
    return error


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message or str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


#: What to do about faults that people meet; all others speak for themselves.
NEXT_STEPS: Final = {
    "NoPermission": "give the user the privilege named, on the object named (hcio check lists all)",
    "DuplicateName": "remove or rename the other one, or choose another deployment name",
    "InsufficientStorageSpace": "free space on the datastore, or ask for fewer or smaller disks",
    "NoDiskSpace": "free space on the datastore, or ask for fewer or smaller disks",
    "InsufficientResourcesFault": "ask for fewer workers, CPUs or less memory",
}


def task_failed(host: str, step: str, fault: Any) -> TaskFailed:
    """vCenter's no, with its own words and, where one helps, the next step."""
    kind = type(fault).__name__.rpartition(".")[2]
    text = getattr(fault, "msg", None) or getattr(fault, "reason", None) or ""
    if kind == "NoPermission":
        text = f"privilege {fault.privilegeId}" + (f" ({text})" if text else "")
    for message in getattr(fault, "faultMessage", None) or ():
        if message.message and message.message not in text:
            text = f"{text}; {message.message}" if text else message.message
    return TaskFailed(host, step, kind, text, next_step=NEXT_STEPS.get(kind, ""))

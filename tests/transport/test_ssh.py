"""The SSH transport against OpenSSH's own server: what a host can do to a session."""

from __future__ import annotations

import dataclasses
import os
import pwd
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import (
    AuthenticationFailed,
    CommandTimedOut,
    ConfigError,
    ConnectionLost,
    HostKeyRejected,
    HostUnreachable,
    KeyUnusable,
)
from orchestrator.retry import Attempt, Policy, retrying
from orchestrator.secrets import Secret
from orchestrator.transport.base import Command, Literal
from orchestrator.transport.fanout import gather
from orchestrator.transport.retrying import Policies, RetryingTransport
from orchestrator.transport.ssh import SshSettings, SshTransport, open_ssh
from tests.loopback import CASES, running, silent_port
from tests.sshd import Sshd, free_port, keygen

pytestmark = pytest.mark.real
T = 20.0
TRUE = Command.of("true", "true")


def settings(server: Sshd, host: str = "127.0.0.9") -> SshSettings:
    """How to log in to a test server."""
    return SshSettings(
        host, port=server.port, user=server.user, key=server.key, known_hosts=server.known_hosts
    )


def works(how: SshSettings) -> bool:
    """Whether a login and a command go through."""
    with open_ssh("w1", how) as session:
        return session.run(TRUE, timeout=T).status == 0


# Host keys


def test_strict_refuses_an_unknown_host(sshd: Sshd, tmp_path: Path) -> None:
    """Nothing known means no session, and the fingerprint is in the error."""
    how = dataclasses.replace(settings(sshd), known_hosts=tmp_path / "known")
    with pytest.raises(HostKeyRejected, match="SHA256:"):
        open_ssh("w1", how)
    assert not (tmp_path / "known").exists()


def test_accept_new_writes_each_host_once(sshd: Sshd, tmp_path: Path) -> None:
    """Many at the same time, in one file, without a lost or doubled line."""
    known = tmp_path / "new" / "known"
    hosts = {f"127.0.2.{number}": number for number in range(1, 13)}

    def first(number: int) -> bool:
        how = settings(sshd, f"127.0.2.{1 + number % 6}")
        return works(dataclasses.replace(how, known_hosts=known, host_key_policy="accept-new"))

    assert gather("accept", hosts, first, timeout=60, concurrency=6).errors == {}
    lines = known.read_text().splitlines()
    assert len(lines) == len(set(lines)) == 6
    assert works(dataclasses.replace(settings(sshd, "127.0.2.1"), known_hosts=known))


def test_a_changed_key_is_refused_under_either_policy(sshd: Sshd, tmp_path: Path) -> None:
    """accept-new trusts the unknown, never the changed."""
    other = keygen(tmp_path / "other", "-t", "ed25519").with_suffix(".pub").read_text().split()
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.9]:{sshd.port} {other[0]} {other[1]}\n")
    for policy in ("strict", "accept-new"):
        how = dataclasses.replace(settings(sshd), known_hosts=known, host_key_policy=policy)
        with pytest.raises(HostKeyRejected, match="but known is"):
            open_ssh("w1", how)


def test_the_known_kind_of_key_is_asked_for(tmp_path: Path) -> None:
    """A server with several host keys is accepted by any one that is known."""
    rsa = keygen(tmp_path / "rsa", "-t", "rsa", "-b", "2048")
    with Sshd(f"HostKey {rsa}") as server:
        kind, blob = rsa.with_suffix(".pub").read_text().split()[:2]
        server.known_hosts.write_text(f"[127.*]:{server.port} {kind} {blob}\n")
        assert works(settings(server))


# Connecting


def test_a_refused_connection_names_host_and_port() -> None:
    """Nothing listening is worth another try, and says where."""
    port = free_port()
    with pytest.raises(HostUnreachable, match=f"w1: connect to 127.0.0.1 port {port}") as caught:
        open_ssh("w1", SshSettings("127.0.0.1", port=port))
    assert caught.value.retryable


def test_an_unknown_name_is_not_tried_again() -> None:
    """A name that doesn't exist won't exist in a second either."""
    with pytest.raises(HostUnreachable, match=r"no-such-host\.invalid") as caught:
        open_ssh("w1", SshSettings("no-such-host.invalid"))
    assert not caught.value.retryable


def test_jump_hosts_are_passed_in_a_chain(sshd: Sshd) -> None:
    """A session goes through two other logins, and closes them with itself."""
    how = dataclasses.replace(
        settings(sshd, "127.0.3.3"), jump=(settings(sshd, "127.0.3.1"), settings(sshd, "127.0.3.2"))
    )
    with open_ssh("w1", how) as session:
        script = Command.of("from", Literal("echo $SSH_CONNECTION"))
        client, _, address, _ = session.run(script, timeout=T).text.split()
        session.put(b"x" * 300_000, f"{sshd.work}/jumped", timeout=T)
        assert len(session.get(f"{sshd.work}/jumped", timeout=T)) == 300_000
    assert address == "127.0.3.3"
    assert client.startswith("127.")


def test_a_jump_host_that_refuses_is_named(sshd: Sshd) -> None:
    """An error at the jump host says that it was the jump host."""
    jump = dataclasses.replace(settings(sshd, "127.0.3.1"), user="nobody-here")
    with pytest.raises(AuthenticationFailed, match=r"w1 \(jump host 127\.0\.3\.1\)"):
        open_ssh("w1", dataclasses.replace(settings(sshd), jump=(jump,)))


def test_openssh_configuration_is_read(sshd: Sshd, tmp_path: Path) -> None:
    """HostName, Port, User, IdentityFile and ProxyJump of a configuration file are followed,
    and what the settings say themselves wins."""
    config = tmp_path / "config"
    login = f"User {sshd.user}\n  IdentityFile {sshd.key}\n  Port {sshd.port}\n"
    config.write_text(
        f"Host lab-*\n  {login}\nHost lab-a\n  HostName 127.0.4.1\n"
        "Host lab-b\n  HostName 127.0.4.2\n  ProxyJump lab-a\n"
    )
    how = SshSettings("lab-b", config=config, known_hosts=sshd.known_hosts)
    with open_ssh("w1", how) as session:
        text = session.run(Command.of("to", Literal("echo $SSH_CONNECTION")), timeout=T).text
    assert text.split()[2] == "127.0.4.2"
    with pytest.raises(AuthenticationFailed, match="user nobody-here"):
        open_ssh("w1", dataclasses.replace(how, user="nobody-here"))


def test_a_proxy_command_carries_the_session(sshd: Sshd, tmp_path: Path) -> None:
    """ProxyCommand of a configuration file is run and spoken through."""
    relay = tmp_path / "relay.py"
    relay.write_text(
        "import os, select, socket, sys\n"
        "s = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "while True:\n"
        "    r, _, _ = select.select([0, s], [], [])\n"
        "    if 0 in r:\n"
        "        d = os.read(0, 65536)\n"
        "        if not d: break\n"
        "        s.sendall(d)\n"
        "    if s in r:\n"
        "        d = s.recv(65536)\n"
        "        if not d: break\n"
        "        os.write(1, d)\n"
    )
    config = tmp_path / "config"
    config.write_text(f"Host *\n  ProxyCommand {sys.executable} {relay} %h %p\n")
    assert works(dataclasses.replace(settings(sshd), config=config))
    config.write_text("Host *\n  ProxyCommand no-such-program-here %h %p\n")
    with pytest.raises(HostUnreachable, match="no-such-program-here"):
        open_ssh("w1", dataclasses.replace(settings(sshd), config=config))


def test_a_broken_configuration_is_the_users_own(sshd: Sshd, tmp_path: Path) -> None:
    """A file that can't be parsed is a configuration error that names it."""
    config = tmp_path / "config"
    config.write_text("this is = not\nMatch nonsense\n")
    with pytest.raises(ConfigError, match=str(config)):
        open_ssh("w1", dataclasses.replace(settings(sshd), config=config))


# Case 35: many logins, slow greetings

PATIENT = Policy("connect", attempts=40, pause=0.1, longest=1.0, limit=60.0)


@pytest.mark.slow
def test_case_35_dropped_greetings_are_tried_again(sshd: Sshd) -> None:
    """Case 35: of 20 logins where 5 are let in at a time, all succeed in the end."""
    script = CASES / "35-connection-throttling" / "grumpy_port.py"
    told: list[Attempt] = []
    gate = threading.Semaphore(8)
    with running(script, free_port(), sshd.port, 5, 0) as port:
        how = dataclasses.replace(
            settings(sshd, "127.0.0.1"),
            port=port,
            known_hosts=sshd.folder / "grumpy",
            host_key_policy="accept-new",
        )

        def login(number: int) -> int | None:
            policies = Policies(connect=PATIENT)
            connect = lambda: open_ssh(f"w{number}", how)  # noqa: E731
            with RetryingTransport(
                f"w{number}", connect, policies=policies, gate=gate, on_retry=told.append
            ) as session:
                return session.run(TRUE, timeout=60).status

        hosts = {f"w{number}": number for number in range(20)}
        gathered = gather("login", hosts, login, timeout=90, concurrency=20)
    assert gathered.require() == dict.fromkeys(hosts, 0)
    assert told, "the port dropped nobody, so nothing was shown"
    assert all("dropped before the greeting" in str(attempt.error) for attempt in told)


def test_case_35_a_slow_greeting_has_its_own_setting(sshd: Sshd) -> None:
    """Case 35: the greeting may take as long as its own setting says, 30 s unless told."""
    assert SshSettings("x").greeting_timeout >= 30
    script = CASES / "35-connection-throttling" / "grumpy_port.py"
    with running(script, free_port(), sshd.port, 50, 2) as port:
        how = dataclasses.replace(
            settings(sshd, "127.0.0.1"),
            port=port,
            connect_timeout=1.0,
            known_hosts=sshd.folder / "slow",
            host_key_policy="accept-new",
        )
        assert works(dataclasses.replace(how, greeting_timeout=15.0))
        with pytest.raises(HostUnreachable, match="greeting"):
            open_ssh("w1", dataclasses.replace(how, greeting_timeout=0.5))


def test_case_35_a_silent_port_holds_up_nobody(sshd: Sshd) -> None:
    """Case 35: a port that never greets fails once, by host and step; the others go on."""
    tries: list[str] = []
    with silent_port() as port:
        hosts = {f"w{number}": settings(sshd, f"127.0.5.{number}") for number in range(1, 5)}
        mute = SshSettings("127.0.0.1", port=port, greeting_timeout=1.0)
        hosts["mute"] = mute

        def login(how: SshSettings) -> bool:
            def once() -> bool:
                tries.append(how.host)
                return works(how)

            return retrying(PATIENT, once)

        gathered = gather("login", hosts, login, timeout=60, concurrency=2)
    assert sorted(gathered.results) == ["w1", "w2", "w3", "w4"]
    assert isinstance(gathered.errors["mute"], HostUnreachable)
    assert "greeting of 127.0.0.1" in str(gathered.errors["mute"])
    assert tries.count("127.0.0.1") == 1


# Case 37: keys and agents


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The case's key files, made by its own script."""
    folder = tmp_path_factory.mktemp("keys")
    script = CASES / "37-keys-and-agent" / "make_keys.sh"
    subprocess.run(["sh", str(script), str(folder)], check=True)
    return folder


@pytest.fixture(scope="module")
def strict_sshd(keys: Path) -> Iterator[Sshd]:
    """A server that lets three tries pass and knows all the good keys."""
    with Sshd("MaxAuthTries 3") as server:
        for name in ("k_ed25519", "k_rsa_openssh", "k_rsa_pem", "k_ecdsa", "k_locked"):
            server.allow((keys / f"{name}.pub").read_text())
        yield server


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A running agent, the one that this process uses."""
    socket = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    try:
        for _ in range(100):
            if socket.exists():
                break
            time.sleep(0.02)
        yield socket
    finally:
        process.terminate()
        process.wait()


def add(*keys: Path) -> None:
    """Load keys into the agent."""
    for key in keys:
        subprocess.run(["ssh-add", "-q", str(key)], check=True, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("name", ["k_ed25519", "k_rsa_openssh", "k_rsa_pem", "k_ecdsa"])
def test_case_37_any_usual_key_logs_in(strict_sshd: Sshd, keys: Path, name: str) -> None:
    """Case 37: every common kind and file format works."""
    assert works(dataclasses.replace(settings(strict_sshd), key=keys / name))


@pytest.mark.parametrize(
    ("name", "passphrase", "words"),
    [
        ("k_locked", None, "needs a passphrase"),
        ("k_locked", "wrong", "does not open with the passphrase"),
        ("k_public_given_by_mistake", None, "is a public key"),
        ("k_cut", None, "is damaged"),
        ("none", None, "No such file"),
    ],
)
def test_case_37_a_key_that_cant_be_used_says_why(
    strict_sshd: Sshd, keys: Path, name: str, passphrase: str | None, words: str
) -> None:
    """Case 37: the message names the real trouble, and never another kind of key."""
    secret = None if passphrase is None else Secret(passphrase)
    how = dataclasses.replace(settings(strict_sshd), key=keys / name, passphrase=secret)
    with pytest.raises(KeyUnusable, match=words) as caught:
        open_ssh("w1", how)
    assert "RSA" not in str(caught.value)
    assert not caught.value.retryable


def test_case_37_a_locked_key_works_when_opened(strict_sshd: Sshd, keys: Path) -> None:
    """Case 37: with its passphrase the locked key logs in."""
    how = dataclasses.replace(
        settings(strict_sshd), key=keys / "k_locked", passphrase=Secret("swordfish")
    )
    assert works(how)


def test_case_37_only_the_explicit_key_is_offered(
    strict_sshd: Sshd, keys: Path, agent: Path
) -> None:
    """Case 37: eight other keys in the agent don't use up the three tries."""
    add(*(keys / f"agent{number}" for number in range(1, 9)))
    assert works(dataclasses.replace(settings(strict_sshd), key=keys / "k_ed25519"))
    with pytest.raises(AuthenticationFailed) as caught:
        open_ssh("w1", dataclasses.replace(settings(strict_sshd), key=keys / "agent1"))
    assert "agent2" not in str(caught.value)
    refused = dataclasses.replace(settings(strict_sshd), key=None, password=Secret("hunter2"))
    with pytest.raises(AuthenticationFailed, match=r"offered: password\); the server asks for"):
        open_ssh("w1", refused)


def test_case_37_an_agent_serves_what_is_not_explicit(
    strict_sshd: Sshd, keys: Path, agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 37: without a key given, the agent's keys are offered; a locked file's key too."""
    monkeypatch.setenv("HOME", str(tmp_path))
    add(keys / "k_ecdsa")
    assert works(dataclasses.replace(settings(strict_sshd), key=None))
    environment = os.environ | {
        "SSH_ASKPASS_REQUIRE": "force",
        "SSH_ASKPASS": str(answer(tmp_path)),
    }
    locked = keys / "k_locked"
    subprocess.run(["ssh-add", "-q", str(locked)], check=True, env=environment)
    assert works(dataclasses.replace(settings(strict_sshd), key=locked))


def answer(folder: Path) -> Path:
    """A program that tells the case's passphrase."""
    program = folder / "answer"
    program.write_text("#!/bin/sh\necho swordfish\n")
    program.chmod(0o700)
    return program


def test_nothing_to_offer_is_said(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No key, no agent, no password: the error says so instead of a bare refusal."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with pytest.raises(AuthenticationFailed, match="nothing to offer"):
        open_ssh("w1", dataclasses.replace(settings(sshd), key=None))


# Case 38: a quiet connection is forgotten


@pytest.mark.slow
def test_case_38_keepalive_holds_a_quiet_connection(sshd: Sshd) -> None:
    """Case 38: a job quiet for longer than the firewall remembers is still collected."""
    script = CASES / "38-idle-connection-dropped" / "idle_cutter.py"
    with (
        running(script, free_port(), sshd.port, 3) as port,
        open_ssh("w1", behind(sshd, port, keepalive=1.0)) as session,
    ):
        quiet = Command.of("quiet", Literal("sleep 7; echo '{\"done\": true}'"))
        assert session.run(quiet, timeout=30).text == '{"done": true}\n'


@pytest.mark.slow
def test_case_38_without_keepalive_the_wait_is_bounded(sshd: Sshd) -> None:
    """Case 38: a connection cut without a word is ConnectionLost at the deadline, not a failure
    of the command and not a hang; the next session collects what was done meanwhile."""
    script = CASES / "38-idle-connection-dropped" / "idle_cutter.py"
    result = f"{sshd.work}/quiet-{free_port()}"
    with running(script, free_port(), sshd.port, 1) as port:
        how = behind(sshd, port, keepalive=0.0)
        with RetryingTransport("w1", lambda: open_ssh("w1", how)) as session:
            quiet = Command.of("quiet", Literal(f"sleep 2; echo done >{result}"))
            with pytest.raises(ConnectionLost, match="no sign of life"):
                session.run(quiet, timeout=4)
            assert session.get(result, timeout=T) == b"done\n"


def behind(server: Sshd, port: int, *, keepalive: float) -> SshSettings:
    """Settings that reach the server through a stand-in on another port."""
    return dataclasses.replace(
        settings(server, "127.0.0.1"),
        port=port,
        keepalive=keepalive,
        known_hosts=server.folder / f"behind-{port}",
        host_key_policy="accept-new",
    )


# Case 40: sudo


@pytest.fixture
def sudo_sshd(tmp_path: Path) -> Iterator[tuple[Sshd, Path]]:
    """A server whose users find our stand-in for sudo first on their PATH."""
    server = Sshd("SetEnv PATH=/tmp")
    tools = server.folder / "tools"
    tools.mkdir()
    config = server.folder / "sshd_config"
    path = f"SetEnv PATH={tools}:/usr/bin:/bin"
    config.write_text(config.read_text().replace("SetEnv PATH=/tmp", path))
    with server:
        yield server, tools / "sudo"


def test_case_40_sudo_never_waits_for_a_password(sudo_sshd: tuple[Sshd, Path]) -> None:
    """Case 40: sudo is called with -n, and its no is an error that says what to change."""
    server, sudo = sudo_sshd
    sudo.write_text(
        "#!/bin/sh\n[ \"$1\" = -n ] || sleep 60\necho 'sudo: a password is required' >&2; exit 1\n"
    )
    sudo.chmod(0o755)
    with open_ssh("w1", dataclasses.replace(settings(server), sudo=True)) as session:
        with pytest.raises(AuthenticationFailed, match="w1: true: sudo needs a password") as caught:
            session.run(TRUE, timeout=T)
        assert "NOPASSWD" in str(caught.value)
        sudo.write_text('#!/bin/sh\n[ "$1 $2" = "-n --" ] && shift 2 && BY=sudo exec "$@"\n')
        said = session.run(Command.of("who", Literal("echo $BY")), timeout=T)
        assert said.text == "sudo\n"
        session.put(b"content", f"{server.work}/by-sudo", timeout=T)
        assert session.get(f"{server.work}/by-sudo", timeout=T) == b"content"
        with pytest.raises(CommandTimedOut, match="told to end"):
            session.run(Command.of("long", "sleep", "60"), timeout=0.5)
        sudo.unlink()
        with pytest.raises(AuthenticationFailed, match="sudo did not run the command"):
            session.run(TRUE, timeout=T)


# Case 41: greetings and missing file service


def test_case_41_a_greeting_harms_nothing(tmp_path: Path) -> None:
    """Case 41: text that a start file prints on either stream gets into no output and no file,
    and no file service is needed."""
    bash = shutil.which("bash")
    assert bash is not None, "this test needs bash"
    snippet = (CASES / "41-login-text-breaks-sftp" / "bashrc-snippet").read_text()
    server = Sshd("ForceCommand /bin/false")
    start = server.folder / "bashrc"
    start.write_text(snippet + "echo 'and a complaint' >&2\n")
    config = server.folder / "sshd_config"
    command = f'BASH_ENV={start} exec {bash} -c "$SSH_ORIGINAL_COMMAND"'
    config.write_text(config.read_text().replace("/bin/false", command))
    assert "sftp" not in config.read_text()
    with server, open_ssh("w1", settings(server)) as session:
        result = session.run(Command.of("say", Literal("echo hi; echo no >&2")), timeout=T)
        assert (result.stdout, result.stderr) == (b"hi\n", b"no\n")
        content = b"Welcome to the lab, not\n" * 5000
        session.put(content, f"{server.work}/f", timeout=T)
        assert session.get(f"{server.work}/f", timeout=T) == content
        talk = Command.of("talk", Literal("while read -r x; do echo $x; done"))
        assert [e.reply for e in session.exchange(talk, [b"a", b"b"], timeout=T)] == [b"a", b"b"]


def test_a_login_without_a_shell_is_named() -> None:
    """An account that may log in but runs nothing is an error about the account."""
    with (
        Sshd("ForceCommand echo 'This account is currently not available.'") as server,
        open_ssh("w1", settings(server)) as session,
        pytest.raises(AuthenticationFailed, match="currently not available"),
    ):
        session.run(TRUE, timeout=T)


# Lost connections


@pytest.fixture
def own_sshd() -> Iterator[Sshd]:
    """A server that a test may stop and cut."""
    with Sshd() as server:
        yield server


def cut_soon(server: Sshd, started: Path) -> threading.Thread:
    """Cut all sessions once a command has shown that it runs."""

    def cut() -> None:
        for _ in range(500):
            if started.exists():
                break
            time.sleep(0.02)
        server.kill_sessions()

    thread = threading.Thread(target=cut)
    thread.start()
    return thread


def test_a_cut_session_is_lost_at_once(own_sshd: Sshd) -> None:
    """A connection that dies under a command is not waited for, and stays dead."""
    started = own_sshd.work / "started"
    with open_ssh("w1", settings(own_sshd)) as session:
        cutter = cut_soon(own_sshd, started)
        with pytest.raises(ConnectionLost, match="w1: long"):
            session.run(Command.of("long", Literal(f"touch {started}; sleep 20")), timeout=60)
        cutter.join()
        with pytest.raises(ConnectionLost):
            session.run(TRUE, timeout=T)
        assert not session.alive


def test_retrying_repeats_only_what_is_repeatable(own_sshd: Sshd) -> None:
    """After a cut a repeatable command runs again on a new connection; another one doesn't,
    but the session is usable right after."""
    connects: list[int] = []

    def connect() -> SshTransport:
        connects.append(1)
        return open_ssh("w1", settings(own_sshd))

    with RetryingTransport("w1", connect) as session:
        once, twice = own_sshd.work / "once", own_sshd.work / "twice"
        cutter = cut_soon(own_sshd, once)
        script = f"echo x >>{once}; sleep 3"
        with pytest.raises(ConnectionLost):
            session.run(Command.of("measured", Literal(script)), timeout=60)
        cutter.join()
        assert session.get(str(once), timeout=T) == b"x\n"
        cutter = cut_soon(own_sshd, twice)
        script = f"echo x >>{twice}; [ $(wc -l <{twice}) -gt 1 ] || sleep 20; cat {twice}"
        result = session.run(Command.of("asked", Literal(script), repeatable=True), timeout=60)
        cutter.join()
        assert result.text == "x\nx\n"
    assert len(connects) == 3


def test_retrying_outlasts_a_server_that_refuses_for_a_while(own_sshd: Sshd) -> None:
    """A worker whose sshd is down for a moment is reached when it is back."""
    with RetryingTransport("w1", lambda: open_ssh("w1", settings(own_sshd))) as session:
        session.put(b"kept", f"{own_sshd.work}/f", timeout=T)
        own_sshd.kill_sessions()
        own_sshd.refuse()
        back = threading.Timer(1.0, own_sshd.accept)
        back.start()
        try:
            assert session.get(f"{own_sshd.work}/f", timeout=60) == b"kept"
        finally:
            back.join()


def test_login_runs_as_the_worker_user(sshd: Sshd) -> None:
    """The test server gives root a user of its own, with a light shell."""
    with open_ssh("w1", settings(sshd)) as session:
        assert session.run(Command.of("id", "id", "-un"), timeout=T).text.strip() == sshd.user
    if os.geteuid() == 0:
        assert pwd.getpwnam(sshd.user).pw_shell.endswith("dash")

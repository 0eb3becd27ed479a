"""One battery for every transport: what holds on the fake holds on a real host."""

from __future__ import annotations

import hashlib
import re
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.errors import (
    CommandFailed,
    CommandKilled,
    CommandTimedOut,
    ConnectionLost,
    WorkerError,
)
from orchestrator.transport.base import Command, Literal, Transport
from orchestrator.transport.fake import FakeTransport, Reply
from orchestrator.transport.local import open_local
from orchestrator.transport.retrying import RetryingTransport
from orchestrator.transport.ssh import SshSettings, open_ssh
from tests.sshd import Sshd

T = 20.0


@dataclass
class Subject:
    """A transport under test, and a folder that its host may write."""

    transport: Transport
    folder: str


def scripted(name: str) -> FakeTransport:
    """A fake that does what a real shell does with the battery's commands."""
    fake = FakeTransport(name)
    any_time: dict[str, Callable[[Command, bytes], Reply] | Reply] = {
        "^echo '": Reply(stdout=b"it's $HOME; `x` \n"),
        "^cat$": lambda _command, stdin: Reply(stdout=stdin),
        "exit 7": Reply(stdout=b"out\n", stderr=b"err\n", status=7),
        "kill -9": Reply(status=None, signal="KILL"),
        "sleep 60": Reply(duration=60.0),
        "printf": Reply(stdout=b"caf\xe9 \xff\x00\r\n"),
        "^true": Reply(),
        "^head": Reply(stdout=b"\0" * (5 << 20)),
    }
    for pattern, reply in any_time.items():
        fake.expect(pattern, reply, times=None)
    fake.expect_exchange("while read", lambda line: b"<" + line + b">")
    return fake


def settings(server: Sshd, host: str = "127.0.0.7") -> SshSettings:
    """How to log in to the test server."""
    return SshSettings(
        host, port=server.port, user=server.user, key=server.key, known_hosts=server.known_hosts
    )


@pytest.fixture(
    params=[
        "fake",
        "local",
        pytest.param("ssh", marks=pytest.mark.real),
        pytest.param("retrying", marks=pytest.mark.real),
    ]
)
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    """Every kind of transport in turn."""
    if request.param == "fake":
        with scripted("w1") as fake:
            yield Subject(fake, "/work")
        return
    if request.param == "local":
        with open_local("w1") as local:
            yield Subject(local, str(tmp_path))
        return
    server: Sshd = request.getfixturevalue("sshd")
    folder = server.work / uuid.uuid4().hex
    session: Transport
    if request.param == "ssh":
        session = open_ssh("w1", settings(server))
    else:
        session = RetryingTransport("w1", lambda: open_ssh("w1", settings(server)))
    with session:
        session.run(Command.of("mkdir", "mkdir", str(folder)), timeout=T).check()
        yield Subject(session, str(folder))


@pytest.fixture
def transport(subject: Subject) -> Transport:
    """The transport alone."""
    return subject.transport


def test_arguments_arrive_as_they_are(transport: Transport) -> None:
    """Spaces, quotes, dollars and backquotes reach the program unchanged."""
    result = transport.run(Command.of("say", "echo", "it's $HOME; `x` "), timeout=T)
    assert result.check().stdout == b"it's $HOME; `x` \n"
    assert (result.host, result.label, transport.host) == ("w1", "say", "w1")


def test_status_and_streams_are_kept_apart(transport: Transport) -> None:
    """A command's no is a result, not an error, until it is checked."""
    command = Command.of("talk", Literal("echo out; echo err >&2; exit 7"))
    result = transport.run(command, timeout=T)
    assert (result.status, result.stdout, result.stderr) == (7, b"out\n", b"err\n")
    with pytest.raises(CommandFailed, match="w1: talk: exit status 7: err"):
        result.check()


def test_a_signal_is_no_status(transport: Transport) -> None:
    """A killed command has no exit status, and its signal where the host tells it."""
    result = transport.run(Command.of("die", "sh", "-c", "kill -9 $$"), timeout=T)
    assert result.status is None
    assert result.signal in ("KILL", None)
    with pytest.raises(CommandKilled):
        result.check()


def test_bytes_are_left_alone(transport: Transport) -> None:
    """Case 40: output in any encoding is kept raw, and shown with replacements."""
    command = Command.of("odd", "printf", "caf\\351 \\377\\000\\r\\n")
    result = transport.run(command, timeout=T).check()
    assert result.stdout == b"caf\xe9 \xff\x00\r\n"
    assert result.text.startswith("caf� �")


def test_stdin_reaches_the_command(transport: Transport) -> None:
    """All of stdin arrives, also when output comes back while it is sent."""
    content = bytes(range(256)) * 16384
    result = transport.run(Command.of("echo", "cat"), timeout=T, stdin=content)
    assert hashlib.sha256(result.check().stdout).digest() == hashlib.sha256(content).digest()


def test_stdin_may_be_ignored(transport: Transport) -> None:
    """A command that reads nothing of a large stdin still ends with its status."""
    assert transport.run(Command.of("none", "true"), timeout=T, stdin=b"x" * (4 << 20)).status == 0


def test_large_output_arrives_whole(transport: Transport) -> None:
    """Output above any window or pipe buffer is complete."""
    command = Command.of("large", "head", "-c", str(5 << 20), "/dev/zero")
    assert len(transport.run(command, timeout=T).check().stdout) == 5 << 20


def test_deadline_ends_the_command(transport: Transport) -> None:
    """A command over its time is an error that names host and step; the session stays usable."""
    with pytest.raises(CommandTimedOut, match="w1: wait"):
        transport.run(Command.of("wait", Literal("sleep 60; true")), timeout=0.3)
    assert transport.run(Command.of("after", "true"), timeout=T).status == 0


def test_lines_are_answered_in_turn(transport: Transport) -> None:
    """An exchange gives each line's answer with instants that enclose it."""
    command = Command.of("talk", Literal('while read -r x; do echo "<$x>"; done'))
    exchanges = transport.exchange(command, [b"a", b"b c"], timeout=T)
    assert [exchange.reply for exchange in exchanges] == [b"<a>", b"<b c>"]
    instants = [at for exchange in exchanges for at in (exchange.sent, exchange.received)]
    assert instants == sorted(instants)


def test_a_file_comes_back_as_it_was_put(subject: Subject) -> None:
    """put and get move any bytes, under any name, and put replaces what was there."""
    path = f"{subject.folder}/it's a $file.bin"
    for content in (b"", b"\0\xff\r\n" * 100_000, b"no newline at the end"):
        subject.transport.put(content, path, timeout=T)
        assert subject.transport.get(path, timeout=T) == content


def test_a_missing_file_is_a_command_that_failed(subject: Subject) -> None:
    """Reading what isn't there is the command's no, with the shell's own words."""
    with pytest.raises(CommandFailed, match=r"w1: get .*(?i:no such file)"):
        subject.transport.get(f"{subject.folder}/none", timeout=T)


def test_a_closed_session_says_so(transport: Transport) -> None:
    """Closing twice is fine; every verb after it is ConnectionLost."""
    transport.close()
    transport.close()
    with pytest.raises(ConnectionLost):
        transport.run(Command.of("late", "true"), timeout=T)
    with pytest.raises(ConnectionLost):
        transport.get("/x", timeout=T)
    with pytest.raises(ConnectionLost):
        transport.put(b"", "/x", timeout=T)


@pytest.fixture(params=["local", pytest.param("ssh", marks=pytest.mark.real)])
def real(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    """The transports with a real shell behind them."""
    if request.param == "local":
        with open_local("w1") as local:
            yield Subject(local, str(tmp_path))
        return
    server: Sshd = request.getfixturevalue("sshd")
    folder = str(server.work / uuid.uuid4().hex)
    with open_ssh("w1", settings(server)) as session:
        session.run(Command.of("mkdir", "mkdir", folder), timeout=T).check()
        yield Subject(session, folder)


def gone(*pids: str) -> Literal:
    """A command that waits some seconds for processes to end; status 1 when one is still there."""
    alive = " || ".join(f"kill -0 {pid} 2>/dev/null" for pid in pids)
    return Literal(f"i=0; while {alive}; do i=$((i+1)); [ $i -lt 8 ] || exit 1; sleep 1; done")


def test_case_34_both_streams_are_drained_together(real: Subject) -> None:
    """Case 34: 3 MiB on each stream and status 7, whole and apart."""
    noisy = Path(__file__).parents[1] / "data/cases/34-both-streams-large/noisy.sh"
    result = real.transport.run(Command.of("noisy", "sh", "-c", noisy.read_text()), timeout=60)
    assert result.status == 7
    assert result.stdout == b"o" * 3145728
    assert result.stderr == b"e" * 3145728


def test_deadline_ends_the_whole_group(real: Subject) -> None:
    """Children of the command end with it; a deadline leaves nothing running."""
    pids = f"{real.folder}/pids"
    script = f"sleep 61 & echo $! >{pids}; echo $$ >>{pids}; wait"
    with pytest.raises(CommandTimedOut):
        real.transport.run(Command.of("wait", "sh", "-c", script), timeout=1.0)
    numbers = real.transport.get(pids, timeout=T).split()
    assert len(numbers) == 2
    left = Command.of("look", gone(*(number.decode() for number in numbers)))
    assert real.transport.run(left, timeout=T).status == 0


def test_what_ignores_the_first_signal_is_killed(real: Subject) -> None:
    """A process that won't end when asked is killed after the grace time."""
    pid_file = f"{real.folder}/pid"
    script = f"trap '' TERM; echo $$ >{pid_file}; while :; do sleep 1; done"
    with pytest.raises(CommandTimedOut):
        real.transport.run(Command.of("stubborn", "sh", "-c", script), timeout=0.7)
    pid = real.transport.get(pid_file, timeout=T).decode().strip()
    assert real.transport.run(Command.of("look", gone(pid)), timeout=T).status == 0


def test_put_sets_the_mode_and_leaves_nothing_beside(real: Subject) -> None:
    """A file is never wider than asked for, and its partial copy is gone."""
    for mode, shown in ((0o600, "-rw-------"), (0o755, "-rwxr-xr-x"), (0o644, "-rw-r--r--")):
        real.transport.put(b"x", f"{real.folder}/f", timeout=T, mode=mode)
        listing = real.transport.run(Command.of("ls", "ls", "-lA", real.folder), timeout=T).text
        lines = [line for line in listing.splitlines() if not line.startswith("total")]
        assert len(lines) == 1
        assert lines[0].startswith(shown)


def test_put_that_cant_be_written_is_a_command_that_failed(real: Subject) -> None:
    """No folder, or a folder in the file's place: the shell's own words, and no debris."""
    with pytest.raises(CommandFailed, match="put"):
        real.transport.put(b"x", f"{real.folder}/none/f", timeout=T)
    with pytest.raises(CommandFailed, match="is a directory"):
        real.transport.put(b"x", real.folder, timeout=T)


def test_shell_builtins_work(real: Subject) -> None:
    """A command that only the shell itself knows runs too."""
    assert real.transport.run(Command.of("umask", "umask"), timeout=T).check().stdout
    assert real.transport.run(Command.of("exit", "exit", "9"), timeout=T).status == 9


def test_an_exchange_that_ends_early_is_named(real: Subject) -> None:
    """A command that stops answering is an error of that host and step, not a hang."""
    with pytest.raises(WorkerError, match=r"w1: talk: .*before it had answered"):
        real.transport.exchange(Command.of("talk", "head", "-n", "1"), [b"a", b"b"], timeout=T)


def test_exchange_has_a_deadline(real: Subject) -> None:
    """A command that never answers ends at the deadline."""
    with pytest.raises(CommandTimedOut):
        real.transport.exchange(Command.of("mute", "sleep", "60"), [b"a"], timeout=0.5)


def test_sessions_in_threads_do_not_mix(real: Subject) -> None:
    """Commands one after another from different threads give each its own output."""
    answers: list[str] = []

    def ask(number: int) -> None:
        answers.append(real.transport.run(Command.of("say", "echo", str(number)), timeout=T).text)

    for number in range(4):
        thread = threading.Thread(target=ask, args=(number,))
        thread.start()
        thread.join()
    assert answers == ["0\n", "1\n", "2\n", "3\n"]


def test_signal_is_named_locally() -> None:
    """This machine's own kernel says which signal it was."""
    with open_local("w1") as local:
        result = local.run(Command.of("die", "sh", "-c", "kill -TERM $$"), timeout=T)
    assert result.signal == signal.SIGTERM.name.removeprefix("SIG")
    with pytest.raises(CommandKilled, match=re.escape("by signal TERM")):
        result.check()

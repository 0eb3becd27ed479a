"""P1: the full cycle of a transport on many sshd workers, against bare paramiko and others.

A cycle is: connect, stage one file with its checksum, run `true`, read the file back.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import paramiko

from orchestrator.transport.base import Command
from orchestrator.transport.fanout import gather
from orchestrator.transport.ssh import SshSettings, SshTransport, open_ssh
from tests.sshd import Sshd, program

#: What is staged: about the size of a case's job file and program.
CONTENT = b"[global]\nioengine=libaio\n" * 400
#: Seconds for any one verb; far above what any takes.
VERB = 120.0
THREADS = 32
SIZES = (128, 512)
GOAL_RATIO = 2.0
GOAL_MEMORY_MB = 250
MEMORY_WORKERS = 1024


def address(number: int) -> str:
    """The loopback address of worker `number`, from 0."""
    return f"127.0.{1 + number // 250}.{1 + number % 250}"


def bare_cycle(server: Sshd, host: str) -> paramiko.SSHClient:
    """What a script of one page does with paramiko alone. It takes any host key: looking them
    up in a long known_hosts file would cost it far more than all the rest."""
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
    client.connect(
        host,
        port=server.port,
        username=server.user,
        key_filename=str(server.key),
        allow_agent=False,
        look_for_keys=False,
        banner_timeout=60,
    )
    path = shlex.quote(str(server.work / f"bare-{host}"))
    said = bare_exec(client, f"cat > {path} && sha256sum {path}", CONTENT)
    assert said.split()[0].decode() == hashlib.sha256(CONTENT).hexdigest()
    bare_exec(client, "true")
    assert bare_exec(client, f"cat {path}") == CONTENT
    return client


def bare_exec(client: paramiko.SSHClient, text: str, content: bytes = b"") -> bytes:
    """One command, its output read to the end, its status looked at."""
    stdin, stdout, _ = client.exec_command(text)
    stdin.write(content)
    stdin.channel.shutdown_write()
    said = stdout.read()
    assert stdout.channel.recv_exit_status() == 0
    return said


def bare(server: Sshd, count: int) -> float:
    """Seconds for `count` workers with bare paramiko in threads, connections kept till the end."""
    began = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        clients = list(pool.map(lambda number: bare_cycle(server, address(number)), range(count)))
    spent = time.perf_counter() - began
    for client in clients:
        client.close()
    return spent


def our_cycle(server: Sshd, host: str) -> SshTransport:
    """The same with hcio's transport: strict host key, checksums both ways."""
    settings = SshSettings(
        host,
        port=server.port,
        user=server.user,
        key=server.key,
        known_hosts=server.known_hosts,
        greeting_timeout=60,
    )
    session = open_ssh(host, settings)
    path = str(server.work / f"ours-{host}")
    session.put(CONTENT, path, timeout=VERB)
    session.run(Command.of("true", "true"), timeout=VERB).check()
    assert session.get(path, timeout=VERB) == CONTENT
    return session


def ours(server: Sshd, count: int) -> float:
    """Seconds for `count` workers with transport and fan-out, connections kept till the end."""
    hosts = {address(number): address(number) for number in range(count)}
    began = time.perf_counter()
    gathered = gather(
        "cycle",
        hosts,
        lambda host: our_cycle(server, host),
        timeout=VERB * 10,
        concurrency=THREADS,
    )
    sessions = gathered.require()
    spent = time.perf_counter() - began
    for session in sessions.values():
        session.close()
    return spent


def ansible(server: Sshd, count: int, command: str) -> float:
    """Seconds for the same cycle with Ansible: copy, command, fetch; 50 forks, pipelining."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "file").write_bytes(CONTENT)
        (folder / "hosts").write_text("".join(f"{address(i)}\n" for i in range(count)))
        options = f"-o UserKnownHostsFile={server.known_hosts} -o ControlMaster=auto"
        variables = {
            "ansible_port": server.port,
            "ansible_user": server.user,
            "ansible_ssh_private_key_file": str(server.key),
            "ansible_ssh_common_args": f"{options} -o ControlPersist=60s",
            "ansible_python_interpreter": "/usr/bin/python3",
        }
        work = f"{server.work}/ansible-{{{{ inventory_hostname }}}}"
        tasks = [
            {"copy": {"src": str(folder / "file"), "dest": work}},
            {"command": "true"},
            {"fetch": {"src": work, "dest": f"{folder}/back/", "flat": False}},
        ]
        play = [{"hosts": "all", "gather_facts": False, "vars": variables, "tasks": tasks}]
        (folder / "play.yaml").write_text(json.dumps(play))
        environment = os.environ | {"ANSIBLE_PIPELINING": "True", "ANSIBLE_FORKS": "50"}
        return timed([command, "-i", str(folder / "hosts"), str(folder / "play.yaml")], environment)


def pssh(server: Sshd, count: int, folder: Path) -> float:
    """Seconds for the same cycle with parallel-scp, parallel-ssh and parallel-slurp."""
    (folder / "file").write_bytes(CONTENT)
    (folder / "hosts").write_text(
        "".join(f"{server.user}@{address(i)}:{server.port}\n" for i in range(count))
    )
    keys = (f"UserKnownHostsFile={server.known_hosts}", f"IdentityFile={server.key}")
    common = ["-h", str(folder / "hosts"), "-p", str(THREADS), "-t", "120"]
    common += [word for key in keys for word in ("-O", key)]
    work = str(server.work / "pssh")
    return (
        timed(["parallel-scp", *common, str(folder / "file"), work])
        + timed(["parallel-ssh", *common, "true"])
        + timed(["parallel-slurp", *common, "-L", str(folder / "back"), work, "file"])
    )


def timed(command: list[str], environment: dict[str, str] | None = None) -> float:
    """Seconds that a command takes; it must succeed."""
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {(done.stdout + done.stderr)[-500:]!r}")
    return time.perf_counter() - began


def peak_memory_mb(server: Sshd, count: int) -> float:
    """Peak resident memory of a process of its own that holds `count` worked connections."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.transport", str(server.folder), str(server.port), str(count)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def run(report: Callable[[str], None]) -> None:
    """Measure and report, a line a figure."""
    if program() is None:
        report("P1 not measured: sshd is not installed")
        return
    with Sshd() as server:
        # A line a worker, as a lab has it.
        server.know(address(number) for number in range(max(*SIZES, MEMORY_WORKERS)))
        for count in SIZES:
            # Each twice, interleaved, the better kept: the machine is shared.
            rounds = [(bare(server, count), ours(server, count)) for _ in range(2)]
            plain, mine = (min(figures) for figures in zip(*rounds, strict=True))
            ratio = mine / plain
            report(
                f"P1 {count} workers: hcio {mine:.2f} s, bare paramiko {plain:.2f} s, "
                f"ratio {ratio:.2f} (goal <= {GOAL_RATIO}: {_verdict(ratio <= GOAL_RATIO)})"
            )
            if count == SIZES[0]:
                _others(server, count, mine, report)
        memory = peak_memory_mb(server, MEMORY_WORKERS)
        report(
            f"P1 {MEMORY_WORKERS} workers: peak memory {memory:.0f} MB "
            f"(goal <= {GOAL_MEMORY_MB}: {_verdict(memory <= GOAL_MEMORY_MB)})"
        )


def _verdict(reached: bool) -> str:
    return "reached" if reached else "NOT reached"


def _others(server: Sshd, count: int, mine: float, report: Callable[[str], None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = _ansible_command(Path(folder))
        if command is None:
            report("P1 Ansible: not installed (HCIO_BENCH_ANSIBLE=1 installs it for the bench)")
        else:
            spent = ansible(server, count, command)
            report(f"P1 Ansible, {count} workers: {spent:.1f} s, {spent / mine:.0f} times hcio's")
    if shutil.which("parallel-scp") is None:
        report("P1 pssh tools: not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        spent = pssh(server, count, Path(folder))
        report(f"P1 pssh tools, {count} workers: {spent:.1f} s, {spent / mine:.0f} times hcio's")


def _ansible_command(folder: Path) -> str | None:
    found = shutil.which("ansible-playbook")
    if found or os.environ.get("HCIO_BENCH_ANSIBLE") != "1":
        return found
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = [str(folder / "bin" / "pip"), "install", "-q", "ansible-core"]
    subprocess.run(install, check=True)
    return str(folder / "bin" / "ansible-playbook")


def _hold(folder: Path, port: int, count: int) -> None:
    """The memory measurement's own process: print the peak in MB."""
    server = Sshd.__new__(Sshd)
    server.folder, server.port = folder, port
    server.key, server.user = folder / "id", (folder / "user").read_text()
    ours(server, count)
    # Not getrusage: its peak would be that of the process this one was started from.
    status = Path("/proc/self/status").read_text()
    print(int(status.partition("VmHWM:")[2].split()[0]) / 1024)


if __name__ == "__main__":
    _hold(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

"""What a known_hosts file says about a host."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orchestrator.transport.ssh.hostkeys import HostKey, known

KEY = HostKey("ssh-ed25519", b"\0\0\0\x0bssh-ed25519" + b"k" * 36)


@pytest.mark.parametrize(
    ("names", "name", "found"),
    [
        ("vm1", "vm1", True),
        ("vm1,10.0.0.1", "10.0.0.1", True),
        ("vm1", "vm10", False),
        ("vm10", "vm1", False),
        ("[vm1]:2222", "[vm1]:2222", True),
        ("[vm1]:2222", "vm1", False),
        ("*.lab,!bad.lab", "good.lab", True),
        ("*.lab,!bad.lab", "bad.lab", False),
        ("[127.*]:22022", "[127.0.3.4]:22022", True),
        ("vm?", "vm7", True),
        ("# vm1", "vm1", False),
    ],
)
def test_names_match_as_sshd_8_says(names: str, name: str, found: bool) -> None:
    """Plain names, lists, ports, wildcards and negations."""
    assert known(KEY.line(names), name).keys == ((KEY,) if found else ())


def test_revoked_and_certificate_lines_give_no_trust() -> None:
    """@revoked is remembered as such; @cert-authority isn't a host's key."""
    text = "@revoked " + KEY.line("vm1") + "@cert-authority " + KEY.line("vm1")
    about = known(text, "vm1")
    assert (about.keys, about.revoked) == ((), (KEY,))


@pytest.mark.parametrize(
    "line", ["vm1", "vm1 ssh-ed25519", "vm1 ssh-ed25519 !!!", "", "|1|x vm1 a b"]
)
def test_damaged_lines_are_passed_over(line: str) -> None:
    """One bad line doesn't hide the good one behind it."""
    assert known(f"{line}\n" + KEY.line("vm1"), "vm1").keys == (KEY,)


@pytest.mark.real
def test_hashed_names_are_found(tmp_path: Path) -> None:
    """OpenSSH's own hashing of a file is understood."""
    file = tmp_path / "known"
    file.write_text(KEY.line("vm1") + KEY.line("[vm2]:2222"))
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(file)], check=True, capture_output=True)
    text = file.read_text()
    assert "vm1" not in text
    assert known(text, "vm1").keys == known(text, "[vm2]:2222").keys == (KEY,)
    assert known(text, "vm2").keys == ()


def test_fingerprint_is_openssh_s(tmp_path: Path) -> None:
    """The form that people compare with the console."""
    assert KEY.fingerprint.startswith("SHA256:")
    assert "=" not in KEY.fingerprint

"""Replies and progress lines as text: what is read, and what is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from orchestrator.worker.eta import last_eta, parse_eta
from orchestrator.worker.facts import read_facts
from orchestrator.worker.reply import ReplyError, parse_reply
from orchestrator.worker.stream import StagedCase, build_stream

ETA = Path(__file__).parent.parent / "data" / "eta"
WHOLE = b"\n#hcio-begin poll 1\na=1\n@section x\nb=2=3\n#hcio-end poll\n"


def test_a_reply_is_found_in_noise() -> None:
    """What stands before and after the frame is not part of the reply."""
    reply = parse_reply(b"motd a=9\n" + WHOLE + b"c=4\n", "poll")
    assert reply.head.fields == {"a": "1"}
    assert reply.sections["x"].fields == {"b": "2=3"}


@pytest.mark.parametrize("length", range(len(WHOLE) - 1))
def test_half_a_reply_is_no_reply(length: int) -> None:
    """Cut anywhere, a reply is refused."""
    with pytest.raises(ReplyError):
        parse_reply(WHOLE[:length], "poll")


def test_other_replies_are_refused() -> None:
    """Another verb's or another version's reply is not taken for ours."""
    with pytest.raises(ReplyError, match="instead of 'arm'"):
        parse_reply(WHOLE, "arm")
    with pytest.raises(ReplyError, match="protocol 9"):
        parse_reply(WHOLE.replace(b"poll 1", b"poll 9"), "poll")


def test_files_are_checked() -> None:
    """A file comes whole, with any bytes in it, or is refused by size or SHA-256."""
    content = b"x\n#hcio-end fetch\n\x00\xff@file 1 - y\n"
    digest = hashlib.sha256(content).hexdigest()
    head = f"\n#hcio-begin fetch 1\n@file {len(content)} {digest} out/a b\n".encode()
    whole = head + content + b"\n#hcio-end fetch\n"
    assert parse_reply(whole, "fetch").files == {"out/a b": content}
    with pytest.raises(ReplyError, match="SHA-256"):
        parse_reply(whole.replace(b"x\n", b"y\n"), "fetch")
    with pytest.raises(ReplyError, match="ends early"):
        parse_reply(whole[: len(head) + 5], "fetch")


def test_text_can_hold_anything() -> None:
    """Text lines that look like the protocol stay text."""
    text = b"@text t\n|@section x\n|#hcio-end facts\n\n@end\n"
    raw = b"\n#hcio-begin facts 1\n" + text + b"k=v\n#hcio-end facts\n"
    reply = parse_reply(raw, "facts")
    assert reply.head.texts == {"t": "@section x\n#hcio-end facts"}
    assert reply.head.fields == {"k": "v"}


def test_facts_without_lsblk_come_from_the_kernel() -> None:
    """A worker that has busybox alone still tells its disks, partitions and mounts."""
    raw = (
        b"\n#hcio-begin facts 1\nnow=5.5\nuid=0\n"
        b"@text mounts\n|36 1 8:1 / /a\\040b rw - ext4 /dev/sda1 rw\n@end\n"
        b"@text swaps\n|Filename Type\n|/dev/sdb partition\n@end\n"
        b"@section device:sda\npath=/dev/sda\nsize=1024\nro=0\nnumber=8:0\nprobed=\n"
        b"@section device:sda1\npath=/dev/sda1\nsize=512\nnumber=8:1\nparent=sda\n"
        b"@section device:sdb\npath=/dev/sdb\nsize=512\nnumber=8:16\n"
        b"signatures=swap\nprobed=blkid\n"
        b"@section device:sr0\npath=/dev/sr0\nsize=512\nnumber=11:0\n"
        b"#hcio-end facts\n"
    )
    sda, sdb, sr0 = read_facts("w", parse_reply(raw, "facts")).devices
    assert sda.children[0].mountpoints == ("/a b",)
    assert not sda.probed
    assert (sdb.swap, sdb.signatures) == (True, ("swap",))
    assert sr0.type == "rom"


@pytest.mark.parametrize("path", sorted(ETA.glob("*.json")), ids=lambda path: path.stem)
def test_progress_lines(path: Path) -> None:
    """Each recorded line of fio gives its live figures."""
    case = json.loads(path.read_text())
    eta = parse_eta(case["line"])
    if case["expected"] is None:
        assert eta is None
        return
    assert eta is not None
    for key, value in case["expected"].items():
        assert getattr(eta, key) == pytest.approx(value), key


def test_the_last_whole_line_counts() -> None:
    """A line cut at the beginning or a bare job count doesn't hide the one before it."""
    whole = "Jobs: 1 (f=1): [r(1)][50.0%][r=4KiB/s][r=1 IOPS][eta 00m:05s]"
    text = f"0.0%][r=9MiB/s]\r{whole}\rJobs: 1 (f=1)"
    eta = last_eta(text)
    assert eta is not None
    assert (eta.total_iops, eta.total_bytes_per_s, eta.left_s) == (1, 4096, 5)
    assert last_eta("") is None


def test_the_stream_says_what_it_holds() -> None:
    """Program first, then a header that ends with a dot, then the files in its order."""
    stream, digest = build_stream(b"PROGRAM\n", [StagedCase("c", b"JOB", files={"x": b"X"})])
    assert hashlib.sha256(stream).hexdigest() == digest
    head, _, body = stream.removeprefix(b"PROGRAM\n").partition(b"\n.\n")
    names = [line.rpartition(b" ")[2] for line in head.splitlines()]
    assert names == [b"c", b"x", b"targets", b"job.fio"]
    assert body == b"XJOB"

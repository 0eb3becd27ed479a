"""Clearing the cache: settings saved first and restored in every case, drains with a time limit."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.clearcache import (
    clear_by_command,
    clear_cache,
    clear_osa,
    drop_guest_caches,
    nothing_to_clear,
    restore_hosts,
    unrestored_settings,
)
from orchestrator.errors import AuthenticationFailed, ConnectionLost
from orchestrator.osacache import CACHE_RESTORED, CACHE_SAVED, Pace
from orchestrator.store import Event
from orchestrator.transport.base import Command
from orchestrator.transport.fake import FakeTransport, Reply

VSISH = Path(__file__).parent / "data" / "esxi" / "vsish"
OPTIONS = "config/LSOM/intOpts"
MIB = 2**20
BEFORE = {"plogRunElevator": 0, "plogElevSleepTime": 10, "dedupElevThrottle": 5}


class Esxi:
    """A host whose `vsish` works on files: a real shell, no connection. `lose` scripts failures."""

    def __init__(self, folder: Path, name: str = "esx1") -> None:
        self.name = name
        self.bin = folder / name
        self.tree = self.bin / "tree"
        self.bin.mkdir(parents=True)
        shutil.copy(VSISH, self.bin / "vsish")
        for option, value in BEFORE.items():
            self.write(f"{OPTIONS}/{option}", value)
        self.write("vmkModules/plog/plogLogThreshold", 16384)
        self.write("drain", 400 * MIB)
        for disk, ssd, left in (("t10.cache", 1, 900 * MIB), ("naa.capacity", 0, 0)):
            self.write(f"vmkModules/plog/devices/{disk}/info", f"deviceUUID:{disk}\nisSSD:{ssd}")
            self.write(
                f"vmkModules/plog/devices/{disk}/elevStats", f"elevRuns:1\nplogDataUsage:{left}"
            )
        for component in ("c1", "c2"):
            self.write(f"vmkModules/lsom/disks/naa.capacity/components/{component}/dropRcCache", 0)
        self.fail: Callable[[str], Reply | None] = lambda label: None

    def write(self, path: str, value: object) -> None:
        place = self.tree / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{value}\n")

    def options(self) -> dict[str, int]:
        return {
            path.name: int(path.read_text()) for path in sorted((self.tree / OPTIONS).iterdir())
        }

    def log(self) -> list[str]:
        path = self.tree / "log"
        return path.read_text().splitlines() if path.exists() else []

    def open(self) -> FakeTransport:
        return FakeTransport(self.name, handler=self._run)

    def _run(self, command: Command, stdin: bytes) -> Reply | None:
        failed = self.fail(command.label)
        if failed is not None:
            return failed
        done = subprocess.run(
            ["sh", "-c", command.shell()],
            input=stdin,
            capture_output=True,
            env={"PATH": f"{self.bin}:{os.environ['PATH']}"},
            check=False,
        )
        return Reply(done.stdout, done.stderr, done.returncode)


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def pace(self, **more: float) -> Pace:
        return Pace(sleep=self.sleep, monotonic=lambda: self.now, **more)


class Book:
    """A journal in memory."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, name: str, /, **fields: Any) -> object:
        self.events.append(Event(0.0, name, fields))
        return None

    def names(self) -> list[str]:
        return [event.name for event in self.events]


@pytest.fixture
def esxi(tmp_path: Path) -> Esxi:
    """One host with a full write buffer."""
    return Esxi(tmp_path)


def _clear(esxi: Esxi, book: Book, **more: float) -> Any:
    return clear_osa({esxi.name: esxi.open}, book, pace=Clock().pace(**more))


def test_a_clear_drops_read_caches_drains_and_restores(esxi: Esxi) -> None:
    """All components dropped, the buffer empty, every setting as before, and all of it recorded."""
    book = Book()
    cleared = _clear(esxi, book)
    [host] = cleared.hosts
    assert cleared.done is True
    assert (host.text, host.components, host.restored) == ("cleared", 2, True)
    assert all(left is not None and left <= 100 * MIB for left in host.left.values())
    assert list(host.left) == ["t10.cache"]
    assert esxi.options() == BEFORE
    assert book.names() == [CACHE_SAVED, CACHE_RESTORED]
    assert book.events[0].fields == {"host": "esx1", "values": BEFORE}


def test_the_settings_are_saved_before_the_first_change(esxi: Esxi) -> None:
    """At the instant of saving, nothing has been set on the host."""
    seen: list[list[str]] = []

    class Watching(Book):
        def record(self, name: str, /, **fields: Any) -> object:
            seen.append(esxi.log())
            return super().record(name, **fields)

    _clear(esxi, Watching())
    assert seen[0] == []
    assert f"/{OPTIONS}/plogRunElevator 1" in seen[1]


def test_a_drain_that_takes_too_long_fails_and_restores(esxi: Esxi) -> None:
    """The limit passes: the answer names device and bytes left, the settings are back."""
    esxi.write("drain", 0)
    cleared = _clear(esxi, Book(), limit=60)
    assert cleared.done is False
    assert "not done after 60 s: t10.cache 900 MiB" in cleared.why
    assert cleared.hosts[0].restored is True
    assert esxi.options() == BEFORE


def test_a_connection_lost_while_draining_is_made_again(esxi: Esxi) -> None:
    """One lost connection changes nothing: the drain is watched on over a new one."""
    lost = [Reply(error=ConnectionLost("esx1", "read write buffers", "gone"))]
    esxi.fail = lambda label: lost.pop() if label == "read write buffers" and lost else None
    assert _clear(esxi, Book()).done is True
    assert esxi.options() == BEFORE


def test_a_host_lost_for_good_stays_in_the_journal_until_it_is_restored(esxi: Esxi) -> None:
    """The host vanishes in the middle: the failure says so, and a later restore puts it right."""
    book = Book()
    gone = Reply(error=ConnectionLost("esx1", "x", "gone"))
    esxi.fail = lambda label: gone if esxi.log() and "caches" not in label else None
    cleared = _clear(esxi, book)
    assert cleared.done is False
    assert cleared.hosts[0].restored is False
    assert "NOT restored" in cleared.why
    esxi.write(f"{OPTIONS}/plogRunElevator", 1)

    pending = unrestored_settings(book.events)
    assert {host: dict(saved.values) for host, saved in pending.items()} == {"esx1": BEFORE}
    esxi.fail = lambda label: None
    restored = restore_hosts(pending, {"esx1": esxi.open}, book, pace=Clock().pace())
    assert restored.done is True
    assert esxi.options() == BEFORE
    assert unrestored_settings(book.events) == {}


def test_after_a_crash_the_first_saved_settings_are_the_true_ones(esxi: Esxi) -> None:
    """A second clear after a crash must not save the draining settings as if they were normal."""
    book = Book()
    book.record(CACHE_SAVED, host="esx1", values=BEFORE)
    for name, value in (("plogRunElevator", 1), ("plogElevSleepTime", 1)):
        esxi.write(f"{OPTIONS}/{name}", value)
    pending = unrestored_settings(book.events)
    cleared = clear_osa({"esx1": esxi.open}, book, unrestored=pending, pace=Clock().pace())
    assert cleared.done is True
    assert esxi.options() == BEFORE
    assert book.names() == [CACHE_SAVED, CACHE_RESTORED]


def test_a_setting_that_does_not_come_back_is_a_failure(esxi: Esxi) -> None:
    """Restoring is proved by reading back; a value that stays different is named."""

    def fail(label: str) -> Reply | None:
        if label == "restore cache settings":
            return Reply()  # says yes and does nothing
        return None

    esxi.fail = fail
    book = Book()
    cleared = _clear(esxi, book)
    assert cleared.done is False
    assert "plogElevSleepTime is 1, should be 10" in cleared.why
    assert list(unrestored_settings(book.events)) == ["esx1"]


def test_a_refused_component_makes_it_fail_and_nothing_stays_changed(esxi: Esxi) -> None:
    """A read cache that can't be dropped is no clear cache."""
    node = "/vmkModules/lsom/disks/naa.capacity/components/c2/dropRcCache"
    esxi.write("refuse", node)
    cleared = _clear(esxi, Book())
    assert cleared.done is False
    assert "1 components refused" in cleared.why
    assert esxi.options() == BEFORE


def test_a_build_without_dedupe_throttle_is_cleared_without_it(esxi: Esxi) -> None:
    """The optional setting is neither set nor restored where it doesn't exist."""
    (esxi.tree / OPTIONS / "dedupElevThrottle").unlink()
    book = Book()
    assert _clear(esxi, book).done is True
    assert not any("dedupElevThrottle" in line for line in esxi.log())
    assert "dedupElevThrottle" not in book.events[0].fields["values"]


def test_a_host_without_these_settings_is_left_alone(tmp_path: Path) -> None:
    """No option of OSA: nothing is saved and nothing set, and the failure says what it means."""
    esxi = Esxi(tmp_path)
    (esxi.tree / OPTIONS / "plogRunElevator").unlink()
    book = Book()
    cleared = _clear(esxi, book)
    assert cleared.done is False
    assert "no plogRunElevator among this host's options" in cleared.why
    assert (esxi.log(), book.names()) == ([], [])


def test_an_underflown_counter_is_empty(esxi: Esxi) -> None:
    """A usage just below 0 shows as a huge number, and counts as drained."""
    esxi.write("vmkModules/plog/devices/t10.cache/elevStats", f"plogDataUsage:{2**64 - 4096}")
    esxi.write("drain", 0)
    assert _clear(esxi, Book(), limit=5).done is True


def test_small_write_buffers_are_not_drained(esxi: Esxi) -> None:
    """Below the log threshold only read caches are dropped; no setting is touched."""
    esxi.write("vmkModules/plog/plogLogThreshold", 500)
    assert _clear(esxi, Book()).done is True
    assert not any("plogRunElevator 1" in line for line in esxi.log())


def test_older_builds_keep_their_components_elsewhere(esxi: Esxi) -> None:
    """Without /vmkModules/lsom/disks the older place is used."""
    shutil.rmtree(esxi.tree / "vmkModules/lsom")
    esxi.write("vmkModules/vsan/lsom/components/c9/dropRcCache", 0)
    [host] = _clear(esxi, Book()).hosts
    assert (host.done, host.components) == (True, 1)


def test_one_host_that_refuses_the_login_does_not_stop_the_others(tmp_path: Path) -> None:
    """Every host has its own answer; one failure makes the whole not done."""
    good = Esxi(tmp_path, "esx1")

    def refused() -> FakeTransport:
        raise AuthenticationFailed("esx2", "connect", "password refused")

    cleared = clear_osa({"esx1": good.open, "esx2": refused}, Book(), pace=Clock().pace())
    assert cleared.done is False
    assert [host.done for host in cleared.hosts] == [True, False]
    assert cleared.why == "esx2: connect: password refused"


def test_a_host_that_left_the_inventory_gets_the_command_to_type() -> None:
    """What can't be restored by hcio any more says how a person does it."""
    pending = unrestored_settings([Event(0.0, CACHE_SAVED, {"host": "esx9", "values": BEFORE})])
    restored = restore_hosts(pending, {}, Book(), pace=Clock().pace())
    assert restored.done is False
    assert "doesn't know this host" in restored.why


def test_a_users_command_runs_on_every_host_and_its_status_decides() -> None:
    """Status 0 on all hosts is cleared; another names the host and what it said."""
    good, bad = FakeTransport("a"), FakeTransport("b")
    good.expect("flush now", Reply())
    bad.expect("flush now", Reply(status=3, stderr=b"no such pool"))
    cleared = clear_by_command(
        {"a": lambda: good, "b": lambda: bad}, "flush now", pace=Clock().pace()
    )
    assert cleared.done is False
    assert "b: clear cache: exit status 3: no such pool" in cleared.why
    good.verify()


def test_guest_caches_are_dropped_on_every_worker() -> None:
    """One command a worker; it writes to the kernel's own switch."""
    worker = FakeTransport("w1")
    worker.expect("drop_caches", Reply())
    assert drop_guest_caches({"w1": worker}).done is True
    worker.verify()


@pytest.mark.parametrize(
    ("architecture", "command", "hosts", "done", "said"),
    [
        ("esa", None, True, None, "nothing to clear"),
        (None, None, True, False, "clear_cache.command"),
        ("osa", None, False, False, "clear_cache.hosts"),
        ("osa", None, True, True, "write buffers drained"),
        ("osa", "true", True, True, "by the command: true"),
        ("esa", "true", True, True, "by the command: true"),
        (None, "true", True, True, "by the command: true"),
    ],
)
def test_each_storage_is_cleared_in_its_own_way(
    esxi: Esxi, architecture: Any, command: str | None, hosts: bool, done: bool | None, said: str
) -> None:
    """A user's command goes first; vSAN knows its own way; what nobody knows is a failure."""
    openers = {"esx1": esxi.open} if hosts else {}
    cleared = clear_cache(architecture, openers, Book(), command=command, pace=Clock().pace())
    assert cleared.done is done
    assert said in cleared.why


def test_esa_says_that_there_is_nothing_to_clear() -> None:
    """Neither done nor failed: recorded."""
    assert nothing_to_clear().done is None
    assert "no cache tier" in nothing_to_clear().why

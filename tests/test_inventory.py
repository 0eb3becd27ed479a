from pathlib import Path
from typing import get_args

import pytest
from pydantic import ValidationError

from orchestrator.catalog import parse_document
from orchestrator.inventory import (
    Allowance,
    BlockTarget,
    FileTarget,
    Inventory,
    InventoryFile,
    Jump,
    expand_range,
    resolve_inventory,
)
from orchestrator.targets import LEFTOVERS, READ_MOUNTED

CASES = Path(__file__).parent / "data/cases"


def resolve(data):
    return resolve_inventory(InventoryFile.model_validate(data))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("w[01-03]", ["w01", "w02", "w03"]),
        ("10.0.0.[9-11]", ["10.0.0.9", "10.0.0.10", "10.0.0.11"]),
        ("r[1-2]w[1-2]", ["r1w1", "r1w2", "r2w1", "r2w2"]),
        ("plain", ["plain"]),
        ("[fe80::1%eth0]", ["[fe80::1%eth0]"]),
    ],
)
def test_ranges(text, names):
    """A range keeps its zeros, several multiply, an IPv6 address is none."""
    assert expand_range(text) == names


@pytest.mark.parametrize("text", ["w[3-1]", "w[a-c]", "w[1]", "w[1-999999999]"])
def test_wrong_ranges(text):
    """A range that is none is an error, not a name."""
    with pytest.raises(ValueError, match="range"):
        expand_range(text)


def test_defaults_are_merged_and_a_worker_wins():
    """What a worker says replaces the default, its target list as a whole."""
    inventory = resolve(
        {
            "defaults": {"user": "bench", "port": 2222, "targets": [{"serial": "a"}]},
            "workers": [
                {"name": "w[1-2]", "host": "10.0.0.[1-2]"},
                {"name": "own", "user": "root", "targets": [{"file": "/x", "size": "1g"}]},
            ],
        }
    )
    first, second, own = inventory.workers
    assert (first.user, first.port, first.host) == ("bench", 2222, "10.0.0.1")
    assert second.host == "10.0.0.2"
    assert (own.user, own.host, own.targets[0].kind) == ("root", "own", "file")


def test_targets_are_labelled_by_position():
    """A target without a label gets one that stays the same: disk and its position."""
    targets = [{"serial": "a"}, {"serial": "b", "label": "log"}, {"file": "/x", "size": 1}]
    (worker,) = resolve({"workers": [{"name": "w", "targets": targets}]}).workers
    assert [target.label for target in worker.targets] == ["disk0", "log", "disk2"]


def test_case_26_targets_go_by_serial():
    """Case 26: the plan's targets are taken with their serials, letters alone are refused."""
    plan = parse_document((CASES / "26-disk-order-changes/plan.yaml").read_text(), "p").data
    for target in plan["targets"]:
        path = target.pop("device")
        assert BlockTarget(**target, path=path).serial == target["serial"]
        with pytest.raises(ValidationError, match="another disk after a reboot"):
            BlockTarget(path=path)


@pytest.mark.parametrize(
    "target",
    [
        {"path": "/dev/sdb", "size": "1g"},
        {"path": "/dev/disk/by-id/wwn-0x5000"},
        {"path": "/dev/disk/by-path/pci-0000:03:00.0-scsi-0:0:1:0"},
        {"hctl": "0:0:1:0"},
        {"wwn": "0x5000c500"},
    ],
)
def test_what_identifies_a_device(target):
    """A serial, WWN, bus path or stable link, or a path that is checked by size."""
    assert BlockTarget.model_validate(target).kind == "block"


@pytest.mark.parametrize("path", ["/dev/sdb", "/proc/x", "relative", "/a/../dev/sdb"])
def test_a_file_target_is_no_device(path):
    """A device can't come in as a file."""
    with pytest.raises(ValidationError):
        FileTarget(file=path, size=1)


def test_allowances_are_those_that_the_worker_knows():
    """What an inventory may allow is what the target check can let through."""
    assert set(get_args(Allowance)) == {*LEFTOVERS, READ_MOUNTED}


@pytest.mark.parametrize(
    ("text", "jump"),
    [
        ("gw", {"host": "gw"}),
        ("me@gw:2222", {"host": "gw", "user": "me", "port": 2222}),
        ("[fe80::1]:22", {"host": "fe80::1", "port": 22}),
    ],
)
def test_jump_hosts_in_short(text, jump):
    """`user@host:port` is the short form."""
    assert Jump.model_validate(text) == Jump(**jump)


def test_one_jump_host_is_a_list_of_one():
    """A single jump host needs no brackets."""
    entry = {"name": "w", "jump": "gw", "targets": [{"serial": "a"}]}
    assert [jump.host for jump in resolve({"workers": [entry]}).workers[0].jump] == ["gw"]


def test_groups_keep_the_inventorys_order():
    """Workers without a group are in `all`."""
    entries = [{"name": n, "group": g, "targets": [{"serial": "a"}]} for n, g in ("ab", "cd", "eb")]
    entries.append({"name": "z", "targets": [{"serial": "a"}]})
    groups = resolve({"workers": entries}).groups()
    found = {name: [worker.name for worker in workers] for name, workers in groups.items()}
    assert found == {"b": ["a", "e"], "d": ["c"], "all": ["z"]}


def test_a_resolved_inventory_reads_back_and_holds_no_secret():
    """The plan keeps the inventory as data; secrets are references there too."""
    entry = {
        "name": "w",
        "password": "env:PW",
        "jump": {"host": "gw", "password": "prompt"},
        "targets": [{"serial": "a", "allow": ["filesystem"]}, {"file": "/x", "size": "1g"}],
    }
    inventory = resolve({"workers": [entry]})
    assert Inventory.model_validate_json(inventory.model_dump_json()) == inventory
    assert '"password":"env:PW"' in inventory.model_dump_json()


@pytest.mark.parametrize("field", ["password", "passphrase"])
def test_a_literal_secret_is_refused_without_showing_it(field):
    """Whoever writes a password where a reference belongs does not find it in the error."""
    with pytest.raises(ValidationError) as caught:
        InventoryFile.model_validate({"workers": [{"name": "w", field: "hunter2"}]})
    assert "hunter2" not in str(caught.value)

"""The cloud-init data of a worker."""

from __future__ import annotations

import json

import yaml

from orchestrator.vsphere import cloudinit
from orchestrator.vsphere.cloudinit import Seed, StaticAddress
from orchestrator.vsphere.keys import known_host, new_pair

SEED = Seed(
    instance_id="id-1-bench-001",
    hostname="bench-001",
    user="hcio",
    authorized_key="ssh-ed25519 AAAA us",
    host_key_private="PRIVATE",
    host_key_public="ssh-ed25519 BBBB bench-001",
    static=StaticAddress("10.0.0.5", 24, "10.0.0.1", ("10.0.0.2",)),
    packages=("fio",),
    extra={"packages": ["nvme-cli"], "timezone": "UTC"},
)


def test_user_data_is_cloud_config_with_our_keys_only() -> None:
    """YAML reads it; one user with our key, no passwords, our host key and no other."""
    text = cloudinit.userdata(SEED)
    assert text.startswith("#cloud-config\n")
    data = yaml.safe_load(text)
    assert [user["name"] for user in data["users"]] == ["hcio"]
    assert data["users"][0]["ssh_authorized_keys"] == ["ssh-ed25519 AAAA us"]
    assert data["ssh_pwauth"] is False
    assert data["ssh_deletekeys"] is True
    assert data["ssh_keys"]["ed25519_private"] == "PRIVATE"


def test_extra_lists_are_joined_and_values_taken() -> None:
    """The user's packages come beside ours; other keys are as they say."""
    data = yaml.safe_load(cloudinit.userdata(SEED))
    assert data["packages"] == ["fio", "nvme-cli"]
    assert data["timezone"] == "UTC"


def test_a_static_address_has_gateway_and_dns() -> None:
    """The network part is netplan's version 2."""
    data = yaml.safe_load(cloudinit.metadata(SEED))
    (card,) = data["network"]["ethernets"].values()
    assert card["addresses"] == ["10.0.0.5/24"]
    assert card["routes"] == [{"to": "default", "via": "10.0.0.1"}]
    assert card["nameservers"] == {"addresses": ["10.0.0.2"]}
    assert card["dhcp4"] is False
    assert data["cleanup-guestinfo"] == ["userdata"]


def test_several_cards_are_matched_by_hardware_address() -> None:
    """The pool's address is the first card's; a further card never sets the default route."""
    seed = Seed(**{**SEED.__dict__, "macs": ("00:50:56:AA:00:01", "00:50:56:AA:00:02")})
    cards = list(json.loads(cloudinit.metadata(seed))["network"]["ethernets"].values())
    assert [card["match"]["macaddress"] for card in cards] == [
        "00:50:56:aa:00:01",
        "00:50:56:aa:00:02",
    ]
    assert "addresses" not in cards[1]
    assert cards[1]["dhcp4-overrides"] == {"use-routes": False}


def test_packing_is_reversible_and_always_the_same() -> None:
    """gzip and base64, without a time in it, so that equal data is seen to be equal."""
    text = "#cloud-config\nü\n"
    assert cloudinit.unpacked(cloudinit.packed(text)) == text
    assert cloudinit.packed(text) == cloudinit.packed(text)
    info = cloudinit.guestinfo(SEED)
    assert info["guestinfo.userdata.encoding"] == "gzip+base64"
    assert cloudinit.unpacked(info["guestinfo.metadata"]) == cloudinit.metadata(SEED)


def test_the_fingerprint_follows_the_data() -> None:
    """Anything that the guest is told changes it; nothing else does."""
    again = Seed(**SEED.__dict__)
    other = Seed(**{**SEED.__dict__, "user": "root"})
    assert cloudinit.fingerprint(SEED) == cloudinit.fingerprint(again)
    assert cloudinit.fingerprint(SEED) != cloudinit.fingerprint(other)


def test_key_pairs_are_openssh_and_hidden() -> None:
    """Two pairs differ, the private part is in no repr, and known_hosts names the port."""
    one, two = new_pair("a"), new_pair("b")
    assert one.private.startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    assert one.public != two.public
    assert "PRIVATE" not in repr(one)
    assert known_host("10.0.0.5", 22, "ssh-ed25519 AAAA x") == "10.0.0.5 ssh-ed25519 AAAA"
    assert known_host("10.0.0.5", 2222, "ssh-ed25519 A x") == "[10.0.0.5]:2222 ssh-ed25519 A"

"""The inventory's vsphere section."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.catalog import load_inventory
from orchestrator.cluster import Cluster, LibraryItem, Ovf, Template, expand_pool
from orchestrator.errors import InputError
from orchestrator.secrets import SecretRef

SECTION: dict[str, Any] = {
    "vcenter": {"host": "vc.lab", "user": "me@vsphere.local", "password": "env:VC"},
    "datacenter": "DC",
    "cluster": "C1",
    "networks": ["VM Network"],
    "datastores": ["vsanDatastore"],
    "workers": {"source": {"template": "noble"}, "count": 4},
}


def section(**changes: Any) -> Cluster:
    """The section with changes at its top, in its vCenter (vc_) and in its workers (w_)."""
    data = {**SECTION, "vcenter": dict(SECTION["vcenter"]), "workers": dict(SECTION["workers"])}
    for key, value in changes.items():
        if key.startswith("vc_"):
            data["vcenter"][key[3:]] = value
        elif key.startswith("w_"):
            data["workers"][key[2:]] = value
        else:
            data[key] = value
    return Cluster.model_validate(data)


def test_defaults_are_hcibenchs() -> None:
    """4 CPUs, 8 GiB, 8 disks of 10 GiB on PVSCSI, thin, by DHCP: results compare."""
    workers = section().workers
    assert (workers.cpus, workers.memory) == (4, 8 * 2**30)
    assert (workers.disks.count, workers.disks.size) == (8, 10 * 2**30)
    assert (workers.disks.controller, workers.disks.thin) == ("pvscsi", True)
    assert workers.addresses == "dhcp"


def test_credentials_are_references() -> None:
    """A password is never a value, a user may be; an error doesn't repeat what stood there."""
    assert section(vc_user="file:/run/user").vcenter.user == SecretRef("file", "/run/user")
    assert section().vcenter.user == "me@vsphere.local"
    with pytest.raises(ValidationError) as caught:
        section(vc_password="hunter2")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ({"template": "noble", "clone": "linked", "snapshot": "s1"}, Template),
        ({"ovf": "https://images.lab/noble.ova"}, Ovf),
        ({"library": "images", "item": "noble"}, LibraryItem),
    ],
)
def test_sources_are_told_apart_by_their_keys(source: dict[str, str], kind: type) -> None:
    """A template, a package, a library item."""
    assert isinstance(section(w_source=source).workers.source, kind)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vc_insecure": True, "vc_thumbprint": "ab" * 32}, "give one of ca_file, thumbprint"),
        ({"vc_thumbprint": "ab" * 20}, "thumbprint"),
        ({"w_source": {"template": "t", "snapshot": "s"}}, "clone: linked"),
        ({"w_memory": "1000001"}, "multiple of 4 MiB"),
        ({"w_cloud_init": {"ssh_keys": {}}}, "ssh_keys"),
        ({"w_count": 0}, "count"),
        ({"w_count": "many"}, "count"),
        ({"w_disks": {"count": 46}}, "count"),
        ({"w_addresses": {"addresses": ["10.0.0.9-10.0.0.1"], "prefix": 24}}, "is not a range"),
        ({"w_addresses": {"addresses": ["10.0.0.1", "10.0.0.1-10.0.0.2"], "prefix": 24}}, "twice"),
        ({"deployment": "Bench_1"}, "deployment"),
        ({"networks": []}, "networks"),
        ({"datastore": "x"}, "datastore"),
    ],
)
def test_what_can_not_be_is_refused(changes: dict[str, Any], said: str) -> None:
    """Each problem names its place, before anything is touched."""
    with pytest.raises(ValidationError, match=said):
        section(**changes)


def test_pools_are_expanded_in_order() -> None:
    """Ranges and single addresses, of both families."""
    assert expand_pool(("10.0.0.9", "10.0.0.1-10.0.0.3")) == (
        "10.0.0.9",
        "10.0.0.1",
        "10.0.0.2",
        "10.0.0.3",
    )
    assert len(expand_pool(("fd00::1-fd00::ff",))) == 255
    with pytest.raises(ValueError, match="65536"):
        expand_pool(("10.0.0.0-10.2.0.0",))


def test_an_inventory_has_workers_or_a_place_to_make_them(tmp_path: Path) -> None:
    """Without workers a vsphere section is needed; problems in it have their lines."""
    path = tmp_path / "inventory.yaml"
    path.write_text("ssh: {}\n")
    with pytest.raises(InputError, match="give workers, or vsphere"):
        load_inventory(path)
    path.write_text(
        "vsphere:\n  vcenter: {host: v, user: u, password: env:P}\n  datacenter: D\n"
        "  clustre: C\n  networks: [n]\n  datastores: [d]\n"
        "  workers: {source: {template: t}, count: 2}\n"
    )
    with pytest.raises(InputError, match=r"inventory\.yaml:4: vsphere\.clustre.*'cluster'"):
        load_inventory(path)
    path.write_text(path.read_text().replace("clustre", "cluster"))
    found = load_inventory(path)
    assert found.workers == ()
    assert found.vsphere is not None
    assert found.vsphere.cluster == "C"


def test_the_shipped_example_of_a_section_is_valid(tmp_path: Path) -> None:
    """What stands as a comment in `inventory.example.yaml` works once it is no comment."""
    text = (Path(__file__).parent.parent / "inventory.example.yaml").read_text()
    lines = text[text.index("#vsphere:") :].splitlines()
    path = tmp_path / "inventory.yaml"
    path.write_text("\n".join(line.removeprefix("#") for line in lines))
    found = load_inventory(path).vsphere
    assert found is not None
    assert set(found.model_fields_set) == set(Cluster.model_fields)

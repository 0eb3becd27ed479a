"""Images that aren't in vCenter yet: OVF and OVA by path and URL, and content library items."""

from __future__ import annotations

import contextlib
import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError, HcioError, NotFoundInVCenter
from orchestrator.vsphere.deploy import Patience, Tools, deploy, destroy
from orchestrator.vsphere.package import opened
from orchestrator.vsphere.state import DeploymentState, open_state
from orchestrator.vsphere.vcenter import VCenter
from tests.vsphere.conftest import cluster
from tests.vsphere.packages import DESCRIPTOR, DISK, make_library, write_ova, write_ovf
from tests.vsphere.simulator import Vcsim

PATIENCE = Patience(clone=20, change=20, power=20, guest=20, policy=20)


@pytest.fixture
def client(vcsim: Vcsim) -> Iterator[VCenter]:
    """A logged-in client."""
    opened_client = VCenter(vcsim.login(), call_timeout=10)
    yield opened_client
    opened_client.close()


@pytest.fixture
def state(tmp_path: Path) -> DeploymentState:
    """A deployment's own folder."""
    return open_state(tmp_path / "bench", "bench")


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The folder over HTTP on this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            return

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("kind", ["ovf", "ova", "ovf-url", "ova-url"])
def test_a_package_is_opened_from_everywhere(tmp_path: Path, kind: str) -> None:
    """By path and by URL: the descriptor, its network, and its disk with size and content."""
    write_ovf(tmp_path)
    write_ova(tmp_path)
    name = f"noble.{kind[:3]}"
    with contextlib.ExitStack() as stack:
        source = str(tmp_path / name)
        if kind.endswith("url"):
            source = f"{stack.enter_context(served(tmp_path))}/{name}"
        package = stack.enter_context(opened(source))
        assert package.descriptor == DESCRIPTOR
        assert package.networks == ("VM Network",)
        part = package.parts["noble-disk1.vmdk"]
        assert part.size == len(DISK)
        with part.open() as stream:
            assert stream.read() == DISK


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.ovf", "not xml", "no XML"),
        ("a.ovf", "<x/>", "no OVF envelope"),
        ("a.ovf", "<!DOCTYPE x [<!ENTITY a 'b'>]><x/>", "declares entities"),
        ("a.ovf", DESCRIPTOR, "'noble-disk1.vmdk' that it names is missing"),
        ("a.ovf", DESCRIPTOR.replace("noble-disk1.vmdk", "../../etc/passwd"), "is missing"),
        ("a.ova", "not a tar", "no OVA"),
    ],
)
def test_a_bad_package_is_refused_before_anything(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    """Nothing is uploaded of a package that isn't whole, or reaches outside of its folder."""
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match=said), opened(str(tmp_path / name)):
        pass


def test_a_package_that_is_not_there_is_said() -> None:
    """The path is in the error."""
    with pytest.raises(ConfigError, match=r"/nowhere/noble\.ova"), opened("/nowhere/noble.ova"):
        pass


@pytest.mark.real
@pytest.mark.parametrize("write", [write_ovf, write_ova])
def test_an_ovf_becomes_workers_and_goes(
    vcsim: Vcsim, client: VCenter, state: DeploymentState, tmp_path: Path, write: object
) -> None:
    """One upload, workers cloned of it; a second deploy uploads nothing; destroy leaves nothing."""
    assert callable(write)
    before = vcsim.inventory()
    section = cluster(count=2, source={"ovf": str(write(tmp_path / "image"))})
    tools = Tools(client, patience=PATIENCE)
    assert len(deploy(tools, section, state).workers) == 2
    vcsim.calls()
    assert len(deploy(tools, section, state).workers) == 2
    assert "ImportVApp" not in vcsim.calls()
    removed = destroy(tools, section, state.id)
    assert removed == ("bench-001", "bench-002", "bench-image")
    assert vcsim.inventory() == before


@pytest.mark.real
@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("CreateImportSpec", "fault"),
        ("ImportVApp", "fault"),
        ("HttpNfcLeaseComplete", "fault"),
        ("HttpNfcLeaseComplete", "lost"),
        ("ReconfigVM_Task", "fault"),
    ],
)
def test_an_upload_that_fails_is_done_again(
    vcsim: Vcsim, state: DeploymentState, tmp_path: Path, method: str, kind: str
) -> None:
    """A half-made image is cleared away by the next deploy, and nothing is left after destroy."""
    before = vcsim.inventory()
    section = cluster(count=1, source={"ovf": str(write_ova(tmp_path))})
    vcsim.rules({"method": method, "count": 1, "kind": kind, "fault": "SystemError"})
    first = VCenter(vcsim.login(), call_timeout=1)
    with pytest.raises(HcioError, match=r"127\.0\.0\.1"):
        deploy(Tools(first, patience=PATIENCE), section, state)
    first.close()
    second = VCenter(vcsim.login(), call_timeout=10)
    tools = Tools(second, patience=PATIENCE)
    assert len(deploy(tools, section, state).workers) == 1
    destroy(tools, section, state.id)
    second.close()
    assert vcsim.inventory() == before


@pytest.mark.real
def test_a_library_item_becomes_workers_and_goes(
    vcsim: Vcsim, client: VCenter, state: DeploymentState
) -> None:
    """One deploy of the item, workers cloned of it; an unknown item says so."""
    site = client.site("DC0", "DC0_C0", pool=None, folder=None)
    make_library(vcsim, site.datastores[0].ref)
    before = vcsim.inventory()
    tools = Tools(client, patience=PATIENCE)
    with pytest.raises(NotFoundInVCenter, match="no item of images 'jammy'"):
        deploy(tools, cluster(source={"library": "images", "item": "jammy"}), state)
    section = cluster(count=2, source={"library": "images", "item": "noble"})
    assert len(deploy(tools, section, state).workers) == 2
    destroy(tools, section, state.id)
    assert vcsim.inventory() == before

"""The real client's session and reads, on the simulator: certificates, logins, losses, pages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import (
    CertificateRejected,
    HcioError,
    LoginRefused,
    NotFoundInVCenter,
    TaskFailed,
    VCenterUnreachable,
)
from orchestrator.secrets import Secret
from orchestrator.vsphere.base import CloneOrder, Mark
from orchestrator.vsphere.collector import all_pages
from orchestrator.vsphere.machines import parse_mark, render_mark
from orchestrator.vsphere.vcenter import VCenter
from tests.vsphere.simulator import Vcsim

CASES = Path(__file__).parents[1] / "data" / "cases"


@pytest.fixture
def client(vcsim: Vcsim) -> Iterator[VCenter]:
    """A logged-in client that waits two seconds for an answer."""
    opened = VCenter(vcsim.login(), call_timeout=2)
    yield opened
    opened.close()


@dataclass
class APage:
    """A page as vCenter gives it."""

    objects: Sequence[str]
    token: str | None


def test_case_49_every_page_is_read() -> None:
    """Case 49: 250 objects in three pages, and a token of '0' is still a token."""
    case = CASES / "49-large-changing-inventory"
    expected = json.loads((case / "expected.json").read_text())
    pages = json.loads((case / "pages.json").read_text())["pages"]
    pages[0]["token"] = "0"
    by_token = {"0": pages[1], pages[1]["token"]: pages[2]}
    reads: list[str] = []

    def more(token: str) -> APage:
        reads.append(token)
        return APage(**by_token[token])

    found = list(all_pages(APage(**pages[0]), more))
    assert len(found) == expected["objects_seen"]
    assert len(reads) == 2


def test_marks_are_read_as_written_and_nothing_else_is_one() -> None:
    """A damaged or foreign text makes nothing ours."""
    mark = Mark("id", "bench", "image", "bench-image", "uuid")
    assert parse_mark(render_mark(mark)) == mark
    for text in ("", "x", "[]", "{}", '{"deployment": "id"}', render_mark(mark)[:-3], "null"):
        assert parse_mark(text) is None


@pytest.mark.real
def test_case_42_the_certificate_is_checked_unless_told_otherwise(
    vcsim: Vcsim, tmp_path: Path
) -> None:
    """Case 42: refused by default with the three ways out; CA file, thumbprint, insecure work."""
    with pytest.raises(CertificateRejected) as refused:
        VCenter(vcsim.login(thumbprint=None))
    assert "127.0.0.1" in str(refused.value)
    for way in ("ca_file", "thumbprint", "insecure"):
        assert way in refused.value.next_step
    assert "Login" not in vcsim.calls()
    authority = tmp_path / "ca.pem"
    authority.write_text(vcsim.pem)
    colons = ":".join(vcsim.thumbprint[i : i + 2] for i in range(0, 64, 2)).upper()
    for trust in (
        {"thumbprint": None, "ca_file": str(authority)},
        {"thumbprint": colons},
        {"thumbprint": None, "insecure": True},
    ):
        VCenter(vcsim.login(**trust)).close()


@pytest.mark.real
def test_case_42_a_pin_is_checked_on_every_connection(vcsim: Vcsim) -> None:
    """Case 42: another certificate than the pinned one is refused before anything is sent."""
    with pytest.raises(CertificateRejected, match="thumbprint is"):
        VCenter(vcsim.login(thumbprint="00" * 32))
    assert vcsim.calls() == []


@pytest.mark.real
def test_a_ca_file_that_is_none_is_said(vcsim: Vcsim, tmp_path: Path) -> None:
    """A wrong path is an error with the path in it."""
    with pytest.raises(CertificateRejected, match=r"nowhere\.pem"):
        VCenter(vcsim.login(thumbprint=None, ca_file=str(tmp_path / "nowhere.pem")))


@pytest.mark.real
def test_case_42_a_wrong_password_is_tried_once(vcsim: Vcsim) -> None:
    """Case 42: accounts lock, so it is never tried again, and never shown."""
    with pytest.raises(LoginRefused) as refused:
        VCenter(vcsim.login(password=Secret("hunter2")))
    assert vcsim.calls().count("Login") == 1
    shown = f"{refused.value} {refused.value!r} {refused.value.__cause__!r}"
    assert "hunter2" not in shown


@pytest.mark.real
def test_case_42_a_lost_session_is_reopened_once(vcsim: Vcsim, client: VCenter) -> None:
    """Case 42: NotAuthenticated in the middle is one new login and the call again; unseen."""
    site = client.site("DC0", "DC0_C0", pool=None, folder=None)
    vcsim.ask("expire")
    vcsim.calls()
    assert client.site("DC0", "DC0_C0", pool=None, folder=None) == site
    assert vcsim.calls().count("Login") == 1
    vcsim.ask("expire")
    assert "raid1-ftt1" in client.policies()


@pytest.mark.real
def test_case_42_a_new_login_that_is_refused_is_not_repeated(vcsim: Vcsim, client: VCenter) -> None:
    """Case 42: the password was changed meanwhile: one try, then the error."""
    vcsim.rules({"method": "Login", "count": 9, "kind": "fault", "fault": "InvalidLogin"})
    vcsim.ask("expire")
    vcsim.calls()
    with pytest.raises(LoginRefused):
        client.site("DC0", "DC0_C0", pool=None, folder=None)
    assert vcsim.calls().count("Login") == 1


@pytest.mark.real
@pytest.mark.parametrize("kind", ["hang", "drop", "status", "lost"])
def test_a_read_is_asked_again_when_the_connection_breaks(
    vcsim: Vcsim, client: VCenter, kind: str
) -> None:
    """A read that got no answer once is invisible to the user."""
    vcsim.rules({"method": "RetrievePropertiesEx", "count": 1, "kind": kind})
    assert client.site("DC0", "DC0_C0", pool=None, folder=None).cluster_name == "DC0_C0"


@pytest.mark.real
def test_no_answer_is_said_with_its_time(vcsim: Vcsim, client: VCenter) -> None:
    """A vCenter that doesn't answer twice is an error that names host, step and time."""
    vcsim.rules({"method": "RetrievePropertiesEx", "count": 2, "kind": "hang"})
    with pytest.raises(VCenterUnreachable, match=r"127\.0\.0\.1: finding the .*: no answer in 2 s"):
        client.site("DC0", "DC0_C0", pool=None, folder=None)


def test_nothing_listens_there() -> None:
    """A closed port is said as such, before any login."""
    from orchestrator.vsphere.session import Login

    login = Login("127.0.0.1", 1, "u", Secret("p"), insecure=True)
    with pytest.raises(VCenterUnreachable, match="no connection to port 1"):
        VCenter(login, call_timeout=2)


@pytest.mark.real
@pytest.mark.parametrize("fault", ["NoPermission", "InsufficientResourcesFault", "InvalidState"])
def test_a_task_that_fails_carries_vcenters_word(vcsim: Vcsim, client: VCenter, fault: str) -> None:
    """The fault of a task is named, whatever it is."""
    vcsim.rules({"method": "PowerOffVM_Task", "count": 1, "kind": "task", "fault": fault})
    site = client.site("DC0", "DC0_C0", pool=None, folder=None)
    ref = client.names(site, site.folder)["DC0_C0_RP1_VM0"]
    with pytest.raises(TaskFailed) as caught:
        client.power(ref, "off", timeout=10)
    assert caught.value.fault == fault


@pytest.mark.real
def test_names_that_nearly_fit_are_suggested(client: VCenter) -> None:
    """What isn't there is answered with what is."""
    with pytest.raises(NotFoundInVCenter, match="did you mean 'DC0_C0'") as caught:
        client.site("DC0", "DC0_CO", pool=None, folder=None)
    assert "there are: DC0_C0" in caught.value.next_step
    with pytest.raises(NotFoundInVCenter, match="no datacenter 'Berlin'"):
        client.site("Berlin", "DC0_C0", pool=None, folder=None)
    with pytest.raises(NotFoundInVCenter, match="no folder 'bench'"):
        client.site("DC0", "DC0_C0", pool=None, folder="bench")
    assert client.site("DC0", "DC0_C0", pool="DC0_C0_RP1", folder=None).pool.startswith("resg")


@pytest.mark.real
def test_more_objects_than_a_page_are_all_found(vcsim: Vcsim, client: VCenter) -> None:
    """Case 49: ours are found behind the first hundred, without a read per VM."""
    site = client.site("DC0", "DC0_C0", pool=None, folder=None)
    for number in range(110):
        vcsim.ask("vm", {"name": f"stranger-{number}"})
    source = client.source(site, "ubuntu-24.04").ref
    mark = render_mark(Mark("id", "bench", "worker", "zz-1"))
    order = CloneOrder(
        source, "zz-1", "full", site.folder, site.pool, site.hosts[0].ref,
        site.datastores[0].ref, 1, 2**30, {"hcio.mark": mark},
    )  # fmt: skip
    client.clone(order, timeout=30)
    vcsim.calls()
    assert [machine.name for machine in client.machines(site, policies=False)] == ["zz-1"]
    calls = vcsim.calls()
    assert calls.count("ContinueRetrievePropertiesEx") == 1
    assert len(calls) <= 4


@pytest.mark.real
def test_settings_are_found_without_paths_of_their_own(vcsim: Vcsim, client: VCenter) -> None:
    """A vCenter that knows no path to a single setting gives the whole list, once asked so."""
    site = client.site("DC0", "DC0_C0", pool=None, folder=None)
    source = client.source(site, "ubuntu-24.04").ref
    mark = render_mark(Mark("id", "bench", "worker", "bench-1"))
    order = CloneOrder(
        source, "bench-1", "full", site.folder, site.pool, site.hosts[0].ref,
        site.datastores[0].ref, 1, 2**30, {"hcio.mark": mark},
    )  # fmt: skip
    client.clone(order, timeout=30)
    fault = {"method": "RetrievePropertiesEx", "skip": 1, "count": 1, "kind": "fault"}
    vcsim.rules(fault | {"fault": "InvalidProperty"})
    for _ in range(2):
        (machine,) = client.machines(site, policies=False)
        assert machine.belongs_to("id")


def test_every_error_of_the_client_is_of_the_tree() -> None:
    """Nothing of the library's comes out: an unknown one is a bug, and stays what it is."""
    from orchestrator.vsphere.session import Login, failure

    login = Login("h", 443, "u", Secret("p"))
    for error in (OSError(1, "x"), TimeoutError(), ConnectionResetError()):
        assert isinstance(failure(login, "step", error, 1.0), HcioError)
    bug: Any = ValueError("ours")
    assert failure(login, "step", bug, 1.0) is bug

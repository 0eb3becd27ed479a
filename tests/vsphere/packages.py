"""A small OVF package for tests, and a content library of the simulator with it."""

from __future__ import annotations

import base64
import io
import json
import ssl
import struct
import tarfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.vsphere.simulator import Vcsim

#: The header of a stream-optimized VMDK (magic, version 3, compressed grains and markers), with a
#: descriptor that says so; the simulator looks at no more.
_TEXT = b"""# Disk DescriptorFile
version=1
CID=12345678
parentCID=ffffffff
createType="streamOptimized"
RW 20480 SPARSE "noble-disk1.vmdk"
"""
DISK = struct.pack(
    "<4sIIQQQQIQQQBccccH", b"KDMV", 3, 0x30001, 20480, 128, 1, 1, 512, 0, 2, 128, 0,
    b"\n", b" ", b"\r", b"\n", 1,
).ljust(512, b"\0") + _TEXT.ljust(3584, b"\0")  # fmt: skip
DESCRIPTOR = f"""\
<?xml version="1.0" encoding="UTF-8"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1"
  xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"
  xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData"
  xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData">
  <References>
    <File ovf:id="file1" ovf:href="noble-disk1.vmdk" ovf:size="{len(DISK)}"/>
  </References>
  <DiskSection>
    <Info>Disks</Info>
    <Disk ovf:capacity="10" ovf:capacityAllocationUnits="byte * 2^30" ovf:diskId="vmdisk1"
      ovf:fileRef="file1"
      ovf:format="http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"/>
  </DiskSection>
  <NetworkSection>
    <Info>Networks</Info>
    <Network ovf:name="VM Network"><Description>The network</Description></Network>
  </NetworkSection>
  <VirtualSystem ovf:id="noble">
    <Info>A virtual machine</Info>
    <Name>noble</Name>
    <OperatingSystemSection ovf:id="94" ovf:version="64">
      <Info>Guest OS</Info>
    </OperatingSystemSection>
    <VirtualHardwareSection>
      <Info>Hardware</Info>
      <System>
        <vssd:ElementName>Virtual Hardware Family</vssd:ElementName>
        <vssd:InstanceID>0</vssd:InstanceID>
        <vssd:VirtualSystemType>vmx-13</vssd:VirtualSystemType>
      </System>
      <Item>
        <rasd:ElementName>1 CPU</rasd:ElementName>
        <rasd:InstanceID>1</rasd:InstanceID>
        <rasd:ResourceType>3</rasd:ResourceType>
        <rasd:VirtualQuantity>1</rasd:VirtualQuantity>
      </Item>
      <Item>
        <rasd:AllocationUnits>byte * 2^20</rasd:AllocationUnits>
        <rasd:ElementName>1024MB of memory</rasd:ElementName>
        <rasd:InstanceID>2</rasd:InstanceID>
        <rasd:ResourceType>4</rasd:ResourceType>
        <rasd:VirtualQuantity>1024</rasd:VirtualQuantity>
      </Item>
      <Item>
        <rasd:Address>0</rasd:Address>
        <rasd:ElementName>SCSI Controller 0</rasd:ElementName>
        <rasd:InstanceID>3</rasd:InstanceID>
        <rasd:ResourceSubType>VirtualSCSI</rasd:ResourceSubType>
        <rasd:ResourceType>6</rasd:ResourceType>
      </Item>
      <Item>
        <rasd:AddressOnParent>0</rasd:AddressOnParent>
        <rasd:ElementName>Hard Disk 1</rasd:ElementName>
        <rasd:HostResource>ovf:/disk/vmdisk1</rasd:HostResource>
        <rasd:InstanceID>4</rasd:InstanceID>
        <rasd:Parent>3</rasd:Parent>
        <rasd:ResourceType>17</rasd:ResourceType>
      </Item>
      <Item>
        <rasd:AddressOnParent>7</rasd:AddressOnParent>
        <rasd:AutomaticAllocation>true</rasd:AutomaticAllocation>
        <rasd:Connection>VM Network</rasd:Connection>
        <rasd:ElementName>Network adapter 1</rasd:ElementName>
        <rasd:InstanceID>5</rasd:InstanceID>
        <rasd:ResourceSubType>VmxNet3</rasd:ResourceSubType>
        <rasd:ResourceType>10</rasd:ResourceType>
      </Item>
    </VirtualHardwareSection>
  </VirtualSystem>
</Envelope>
"""


def write_ovf(folder: Path) -> Path:
    """A descriptor with its disk beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "noble-disk1.vmdk").write_bytes(DISK)
    path = folder / "noble.ovf"
    path.write_text(DESCRIPTOR)
    return path


def write_ova(folder: Path) -> Path:
    """The same in one archive."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "noble.ova"
    with tarfile.open(path, "w") as archive:
        for name, content in (("noble.ovf", DESCRIPTOR.encode()), ("noble-disk1.vmdk", DISK)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def make_library(vcsim: Vcsim, datastore: str) -> None:
    """A library `images` with the item `noble`; `datastore` is a ref."""
    context = ssl.create_default_context(cadata=vcsim.pem)
    base = f"https://127.0.0.1:{vcsim.port}"

    def ask(method: str, path: str, body: Any, **headers: str) -> Any:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(
            path if path.startswith("https") else base + path, data, headers, method=method
        )
        try:
            with urllib.request.urlopen(request, context=context, timeout=30) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.read()!r}") from error
        return json.loads(text)["value"] if text else None

    pair = base64.b64encode(f"{vcsim.user}:{vcsim.password}".encode()).decode()
    token = ask("POST", "/rest/com/vmware/cis/session", {}, Authorization=f"Basic {pair}")
    header = {"vmware-api-session-id": token, "Content-Type": "application/json"}
    content = "/rest/com/vmware/content"
    library = ask(
        "POST",
        f"{content}/local-library",
        {
            "create_spec": {
                "name": "images",
                "type": "LOCAL",
                "storage_backings": [{"datastore_id": datastore, "type": "DATASTORE"}],
            }
        },
        **header,
    )
    item = ask(
        "POST",
        f"{content}/library/item",
        {"create_spec": {"name": "noble", "library_id": library, "type": "ovf"}},
        **header,
    )
    update = ask(
        "POST",
        f"{content}/library/item/update-session",
        {"create_spec": {"library_item_id": item}},
        **header,
    )
    for name, data in (("noble.ovf", DESCRIPTOR.encode()), ("noble-disk1.vmdk", DISK)):
        spec = {"name": name, "source_type": "PUSH", "size": len(data)}
        place = ask(
            "POST",
            f"{content}/library/item/updatesession/file/id:{update}?~action=add",
            {"file_spec": spec},
            **header,
        )
        uri = place["upload_endpoint"]["uri"]
        ask("PUT", base + "/" + uri.split("/", 3)[3], data, **header)
    ask(
        "POST",
        f"{content}/library/item/update-session/id:{update}?~action=complete",
        {},
        **header,
    )

"""The SSH transport. paramiko is used in this package only."""

from orchestrator.transport.ssh.keys import KeyCache
from orchestrator.transport.ssh.session import SshTransport, open_ssh
from orchestrator.transport.ssh.settings import HostKeyPolicy, SshSettings

__all__ = ["HostKeyPolicy", "KeyCache", "SshSettings", "SshTransport", "open_ssh"]

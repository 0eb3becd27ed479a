"""The inventory's `clear_cache:` section: which hosts hold the cache, and how it is cleared."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from orchestrator.secrets import SecretRef
from orchestrator.units import PositiveDuration

#: A full write buffer of vSAN drains in about 36 minutes (see `clearcache`).
DEFAULT_LIMIT_S: Final = 3600.0
#: HCIBench's own: between two looks at a buffer, and how long one that is empty is watched on.
DEFAULT_EVERY_S: Final = 10.0
DEFAULT_GRACE_S: Final = 30.0

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]


class ClearCache(BaseModel):
    """How the cache is cleared before a case whose suite asks for it.

    Without `command`, vSAN OSA's own way is used, and `hosts` may be left out: they are the
    vSphere cluster's. Another storage needs a command of the user's, run on every host.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True
    )

    hosts: tuple[Text, ...] = ()
    command: Annotated[Text | None, Field(description="run by each host's shell")] = None
    user: Text = "root"
    port: Annotated[int, Field(ge=1, le=65535)] = 22
    password: SecretRef | None = None
    key: Annotated[Text | None, Field(description="private key file on this machine")] = None
    passphrase: Annotated[SecretRef | None, Field(description="of the key")] = None
    known_hosts: Annotated[Text, Field(description="file of host keys")] = "~/.ssh/known_hosts"
    policy: Annotated[
        Literal["strict", "accept-new"], Field(description="what to do with an unknown host key")
    ] = "strict"
    limit: Annotated[
        PositiveDuration, Field(description="how long clearing may take on a host")
    ] = DEFAULT_LIMIT_S

    every: Annotated[
        PositiveDuration, Field(description="between two looks at a draining buffer")
    ] = DEFAULT_EVERY_S
    grace: Annotated[
        PositiveDuration, Field(description="how long a drained buffer is watched on")
    ] = DEFAULT_GRACE_S

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if len(set(self.hosts)) != len(self.hosts):
            raise ValueError("a host is named twice")
        if self.passphrase is not None and self.key is None:
            raise ValueError("passphrase belongs to a key")
        return self

"""What the inventory states of the storage around the workers: its caches, and what limits it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from orchestrator.units import ByteRate, Iops, Size

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]


class StatedCache(BaseModel):
    """A cache between fio and the disks. A working set that fits into it measures the cache."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    name: Text
    size: Annotated[Size, Field(description="over all workers: that of all hosts together")]
    reads: bool = True
    writes: bool = False


class StatedLimit(BaseModel):
    """What a device or link carries at most: a sum that is measured near or above it is marked."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    name: Text
    iops: Iops | None = None
    bytes_per_s: ByteRate | None = None
    side: Annotated[Literal["all", "read", "write"], Field(description="of which direction")] = (
        "all"
    )
    workers: Annotated[
        tuple[Text, ...], Field(description="names or globs whose sum it holds for; none: all")
    ] = ()

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.iops is None and self.bytes_per_s is None:
            raise ValueError("give iops, bytes_per_s, or both")
        return self

"""How targets are filled before the first case: the suite's `prepare:`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema

from orchestrator.problems import or_text
from orchestrator.units import Percent

#: Of a compressible fill, where the suite gives none: data that halves, as arrays are sold by.
DEFAULT_COMPRESS: Final = 50


class Prepare(BaseModel):
    """A method, and the percents of a `compressible` fill.

    `auto` fills files (a sparse file answers reads from nothing) and leaves devices alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    method: Literal["auto", "none", "zero", "random", "compressible"] = "auto"
    compress: Annotated[
        Percent | None, Field(description="of the data that the storage can save by compressing")
    ] = None
    dedupe: Annotated[
        Percent | None, Field(description="of the blocks that are equal to another one")
    ] = None

    at_once: Annotated[
        int | None, Field(ge=1, le=1024, description="workers that are filled together; all")
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        """`random` alone; percents without a method mean `compressible`."""
        if isinstance(data, str):
            data = {"method": data}
        if isinstance(data, Mapping):
            data = dict(data)
            if "method" not in data and (data.get("compress") or data.get("dedupe")):
                data["method"] = "compressible"
            if data.get("method") == "compressible" and data.get("compress") is None:
                data["compress"] = DEFAULT_COMPRESS
        return data

    @model_validator(mode="after")
    def _percents_of_compressible(self) -> Self:
        if self.method != "compressible" and (self.compress or self.dedupe):
            raise ValueError("compress and dedupe belong to the method compressible")
        return self

    @model_serializer
    def _shortest(self) -> str | dict[str, str | int | None]:
        """The method alone where there are no percents."""
        data: dict[str, str | int | None] = {"method": self.method}
        if self.method == "compressible":
            data |= {"compress": self.compress, "dedupe": self.dedupe}
        if self.at_once is not None:
            data["at_once"] = self.at_once
        return data if len(data) > 1 else self.method

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return or_text(handler(core))

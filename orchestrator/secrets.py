"""Secrets: references that may be written in a file, and values that never show themselves."""

from __future__ import annotations

import hmac
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

MASK = "***"
FORMS = "env:NAME, file:PATH, keyring:SERVICE/USER or prompt"

Kind = Literal["env", "file", "keyring", "prompt"]


class Secret:
    """A secret value: prints as `***` everywhere, is never pickled, opens only by `reveal`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself; call it only where the value is handed to a login."""
        return self._value

    def __repr__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        mine, theirs = (s.encode("utf-8", "surrogatepass") for s in (self._value, other._value))
        return hmac.compare_digest(mine, theirs)

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, _memo: dict[int, Any]) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written anywhere; pass its reference instead")


@dataclass(frozen=True)
class SecretRef:
    """Where a secret is kept: `env:NAME`, `file:PATH`, `keyring:SERVICE/USER` or `prompt`.

    Printing it gives that text back, so it may stand in an inventory, a plan and a log.
    """

    kind: Kind
    place: str = ""

    @classmethod
    def parse(cls, text: str) -> SecretRef:
        """Read the written form. ValueError on anything else, without repeating the text:
        whoever wrote a password where a reference belongs must not find it in an error."""
        kind, _, place = text.partition(":")
        if kind == "prompt" and text == "prompt":
            return cls("prompt")
        if kind == "env" and place:
            return cls("env", place)
        if kind == "file" and place:
            return cls("file", place)
        service, _, user = place.rpartition("/")
        if kind == "keyring" and service and user:
            return cls("keyring", place)
        raise ValueError(f"not a secret reference (value not shown); write {FORMS}")

    def __str__(self) -> str:
        return self.kind if self.kind == "prompt" else f"{self.kind}:{self.place}"

    @classmethod
    def __get_pydantic_core_schema__(
        cls, _source: Any, _handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """A model field of this type is a string in YAML, JSON and the JSON Schema."""
        from pydantic_core import core_schema

        text = core_schema.str_schema(pattern=r"^(env:.+|file:.+|keyring:.+/.+|prompt)$")
        from_text = core_schema.no_info_after_validator_function(
            cls.parse, core_schema.str_schema()
        )
        return core_schema.json_or_python_schema(
            json_schema=core_schema.no_info_after_validator_function(cls.parse, text),
            python_schema=core_schema.union_schema(
                [core_schema.is_instance_schema(cls), from_text], mode="left_to_right"
            ),
            serialization=core_schema.plain_serializer_function_ser_schema(
                str, return_schema=core_schema.str_schema()
            ),
        )


@dataclass(frozen=True)
class SecretReaders:
    """The places secrets are read from. `keyring(service, user)` gives None when it has none;
    `ask(question)` reads a line from the user without echo."""

    environment: Mapping[str, str]
    file: Callable[[str], bytes]
    keyring: Callable[[str, str], str | None]
    ask: Callable[[str], str]


def resolve(ref: SecretRef, readers: SecretReaders, *, purpose: str) -> Secret:
    """Fetch the secret. `purpose` (`password of worker w1`) goes into the prompt and errors.

    The value is taken byte for byte; only a file's one trailing newline, which every editor
    adds, is dropped. Raises ConfigError when there is none or it is empty.
    """
    value = _read(ref, readers, purpose)
    if not value:
        raise _unusable(ref, purpose, "is empty")
    return Secret(value)


def _read(ref: SecretRef, readers: SecretReaders, purpose: str) -> str:
    if ref.kind == "prompt":
        return readers.ask(f"{purpose}: ")
    if ref.kind == "file":
        return _from_file(ref, readers, purpose)
    if ref.kind == "env":
        value = readers.environment.get(ref.place)
    else:
        service, _, user = ref.place.rpartition("/")
        value = readers.keyring(service, user)
    if value is None:
        raise _unusable(ref, purpose, "is not set")
    return value


def _from_file(ref: SecretRef, readers: SecretReaders, purpose: str) -> str:
    try:
        text = readers.file(ref.place).decode("utf-8")
    except OSError as error:
        raise _unusable(ref, purpose, error.strerror or type(error).__name__) from error
    except UnicodeDecodeError:
        # The decoder's own error carries the bytes, so it must not be chained.
        raise _unusable(ref, purpose, "is not UTF-8 text") from None
    return text.removesuffix("\n")


def _unusable(ref: SecretRef, purpose: str, what: str) -> ConfigError:
    return ConfigError(
        f"{purpose}: the secret {ref} {what}",
        next_step=f"put the value there, or refer to another place ({FORMS})",
    )


def machine_readers(environment: Mapping[str, str], ask: Callable[[str], str]) -> SecretReaders:
    """The readers of this machine: its files (`~` is the user's home) and its keyring."""
    return SecretReaders(
        environment=environment,
        file=lambda path: Path(path).expanduser().read_bytes(),
        keyring=_system_keyring,
        ask=ask,
    )


def _system_keyring(service: str, user: str) -> str | None:
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        raise ConfigError(
            f"the secret keyring:{service}/{user} needs the package keyring",
            next_step="install hcio[keyring], or refer to another place (env:, file:, prompt)",
        ) from None
    value: str | None = keyring.get_password(service, user)
    return value

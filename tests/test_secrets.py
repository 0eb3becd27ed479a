"""Secret references and values (case 53: passwords with special characters)."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from orchestrator.errors import ConfigError
from orchestrator.secrets import (
    Secret,
    SecretReaders,
    SecretRef,
    machine_readers,
    resolve,
)

CASE_53 = Path(__file__).parent / "data" / "cases" / "53-special-characters-in-secrets"
PASSWORDS: list[str] = json.loads((CASE_53 / "secrets.json").read_text())["passwords"]


def readers(
    env: dict[str, str] | None = None,
    files: dict[str, bytes] | None = None,
    keyring: dict[tuple[str, str], str] | None = None,
    answer: str = "",
) -> SecretReaders:
    """Readers over plain dictionaries."""

    def read(path: str) -> bytes:
        if path not in (files or {}):
            raise FileNotFoundError(2, "No such file or directory", path)
        return (files or {})[path]

    return SecretReaders(
        environment=env or {},
        file=read,
        keyring=lambda service, user: (keyring or {}).get((service, user)),
        ask=lambda _question: answer,
    )


@pytest.mark.parametrize(
    "text",
    ["env:LAB_PW", "file:/etc/lab/pw", "file:a:b/c", "keyring:vcenter/LAB\\bench", "prompt"],
)
def test_reference_prints_as_it_was_written(text: str) -> None:
    """A reference survives parse and print unchanged."""
    assert str(SecretRef.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["hunter2", "env:", "file:", "keyring:x", "keyring:/u", "prompt:x", "pass:word", ""]
)
def test_anything_else_is_refused_without_being_repeated(text: str) -> None:
    """A literal password where a reference belongs is refused and not echoed."""
    with pytest.raises(ValueError, match="not a secret reference") as caught:
        SecretRef.parse(text)
    assert text == "" or text not in str(caught.value).replace("env:NAME, file:PATH", "")


class Login(BaseModel):
    """A model with a reference in it."""

    password: SecretRef


def test_a_model_field_is_text_in_json_and_schema() -> None:
    """pydantic reads, prints and describes a reference as a string."""
    login = Login.model_validate({"password": "env:PW"})
    assert login.password == SecretRef("env", "PW")
    assert Login.model_validate_json('{"password": "env:PW"}') == login
    assert login.model_dump() == {"password": "env:PW"}
    assert Login.model_json_schema()["properties"]["password"]["type"] == "string"
    with pytest.raises(ValidationError, match="not a secret reference"):
        Login.model_validate({"password": "hunter2"})


@pytest.mark.parametrize("password", PASSWORDS)
def test_every_place_gives_the_value_byte_for_byte(password: str) -> None:
    """Case 53: nothing is stripped or expanded, except one newline of a file."""
    places = readers(
        env={"PW": password},
        files={"/pw": (password + "\n").encode(), "/bare": password.encode()},
        keyring={("lab", "bench"): password},
        answer=password,
    )
    for text in ("env:PW", "file:/pw", "keyring:lab/bench", "prompt"):
        secret = resolve(SecretRef.parse(text), places, purpose="password of w1")
        assert secret.reveal() == password
    bare = resolve(SecretRef.parse("file:/bare"), places, purpose="password of w1")
    assert bare.reveal() == password.removesuffix("\n")


@pytest.mark.parametrize("text", ["env:PW", "file:/pw", "keyring:lab/bench", "prompt"])
def test_a_missing_secret_is_named_by_its_reference(text: str) -> None:
    """Nothing there is a configuration error that says what was looked for and where."""
    with pytest.raises(ConfigError, match="password of w1") as caught:
        resolve(SecretRef.parse(text), readers(), purpose="password of w1")
    assert text in str(caught.value)


def test_a_binary_file_is_refused_without_its_bytes() -> None:
    """The decoder's error, which holds the bytes, is not chained to ours."""
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        resolve(SecretRef.parse("file:/pw"), readers(files={"/pw": b"\xff\xfe"}), purpose="pw")
    assert caught.value.__cause__ is None


def test_this_machine_reads_files(tmp_path: Path) -> None:
    """The machine's own readers take a real file and drop one newline of it."""
    (tmp_path / "pw").write_bytes(b"a b\n\n")
    places = machine_readers({}, ask=lambda _question: "")
    ref = SecretRef.parse(f"file:{tmp_path / 'pw'}")
    assert resolve(ref, places, purpose="password").reveal() == "a b\n"


def test_a_secret_never_shows_itself() -> None:
    """repr, str, format and containers print the mask; pickling is refused."""
    secret = Secret("hunter2")
    shown = f"{secret} {secret!r} {secret!s} {[secret]} {secret:>20} {{'a': secret}}"
    assert "hunter2" not in shown
    assert "***" in shown
    with pytest.raises(TypeError, match="not written anywhere"):
        pickle.dumps(secret)


def test_secrets_compare_and_copy_by_value() -> None:
    """Settings that hold a secret can be compared, hashed and copied."""
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert hash(Secret("a")) == hash(Secret("a"))
    assert copy.deepcopy(Secret("a")) == copy.copy(Secret("a"))

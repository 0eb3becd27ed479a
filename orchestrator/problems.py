"""A model's errors as Problems: the path as the user wrote it, a plain text, the nearest name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from orchestrator.errors import Problem

Path = tuple[str | int, ...]

#: How pydantic names a form of a union that isn't a model.
_FORM: Final = re.compile(
    r"(int|float|str|bool|none|constrained-str|.*\[.*\].*)", re.DOTALL | re.IGNORECASE
)

#: What pydantic says when a value isn't of a union's other form; worth less than any other error.
_WRONG_FORM: Final = frozenset(
    ["model_type", "model_attributes_type", "dict_type", "tuple_type", "list_type", "string_type"]
) | {"int_type", "float_type", "bool_type", "literal_error", "scalar_type", "is_instance_of"}
_PLAIN: Final = {
    "missing": "is missing",
    "extra_forbidden": "unknown key",
    "model_type": "must be a mapping of keys to values",
    "dict_type": "must be a mapping of keys to values",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "too_short": "must hold at least one",
    "string_too_short": "must not be empty",
}


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that was probably meant, or None."""
    found = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
    return found[0] if found else None


def dotted(path: Path) -> str:
    """`cases.0.profile`."""
    return ".".join(str(step) for step in path)


def or_text(schema: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a model that also has a short form in text, for editors."""
    return {"anyOf": [{"type": "string"}, schema]}


@dataclass(frozen=True)
class _Found:
    """An error, its path without pydantic's names for forms, and the union forms it is in."""

    item: ErrorDetails
    path: Path
    names: frozenset[str]
    forms: tuple[tuple[Path, str], ...]

    @property
    def hint(self) -> str | None:
        if self.item["type"] != "extra_forbidden":
            return None
        return nearest(str(self.path[-1]), self.names)

    @property
    def is_wrong_form(self) -> bool:
        return self.item["type"] in _WRONG_FORM


def problems_of(
    error: ValidationError,
    model: type[BaseModel],
    *,
    file: str,
    prefix: Path = (),
    line_of: Callable[[Path], int | None] = lambda _path: None,
) -> list[Problem]:
    """Every error of a validation, in the order of the fields.

    `prefix` is where the model stands in the file; `line_of` gives the line of a path. Of a
    union's forms only the one that was probably meant is spoken of.
    """
    found = [_clean(item, model) for item in error.errors(include_url=False)]
    problems: dict[tuple[Path, str], Problem] = {}
    for one in found:
        if any(_best_form(place, found) != form for place, form in one.forms):
            continue
        if one.item["type"] == "too_short" and any(_inside(two.path, one.path) for two in found):
            continue
        whole = prefix + one.path
        text = _text(one.item)
        problems.setdefault(
            (whole, text), Problem(file, line_of(whole), dotted(whole), text, one.hint)
        )
    return list(problems.values())


def _inside(path: Path, other: Path) -> bool:
    return len(path) > len(other) and path[: len(other)] == other


def _best_form(place: Path, found: list[_Found]) -> str:
    """The form of the union at `place` that fits best: not of the wrong kind, with a near name,
    with the fewest errors."""
    scores: dict[str, tuple[bool, int, int, int]] = {}
    for one in found:
        for where, form in one.forms:
            if where == place:
                wrong, unknown, near, count = scores.get(form, (False, 0, 0, 0))
                wrong = wrong or (one.path == place and one.is_wrong_form)
                unknown += one.item["type"] == "extra_forbidden" and one.hint is None
                near -= one.hint is not None
                scores[form] = (wrong, unknown, near, count + 1)
    return min(scores, key=lambda form: scores[form])


def _text(item: ErrorDetails) -> str:
    kind, message = item["type"], item["msg"]
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == "string_pattern_mismatch":
        return f"has a form that is not allowed (it must match {item['ctx']['pattern']})"
    return message[:1].lower() + message[1:]


def _clean(item: ErrorDetails, model: type[BaseModel]) -> _Found:
    """Walk the location through the models' fields; what is no field, key or index is a form."""
    models: list[type[BaseModel]] = [model]
    path: list[str | int] = []
    forms: list[tuple[Path, str]] = []
    mapping = False
    for step in item["loc"]:
        fields = _fields(models)
        if isinstance(step, int):
            path.append(step)
        elif step in fields and not mapping:
            path.append(step)
            models, mapping = fields[step]
        elif chosen := [form for form in models if form.__name__ == step]:
            models, mapping = chosen, False
            forms.append((tuple(path), step))
        elif _FORM.fullmatch(step):
            forms.append((tuple(path), step))
        else:
            path.append(step)
            mapping = False
    return _Found(item, tuple(path), frozenset(_fields(models)), tuple(forms))


def _fields(
    models: Iterable[type[BaseModel]],
) -> dict[str, tuple[list[type[BaseModel]], bool]]:
    return {
        field.alias or name: (list(_models_in(field.annotation)), _is_mapping(field.annotation))
        for model in models
        for name, field in model.model_fields.items()
    }


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


def _is_mapping(annotation: Any) -> bool:
    origin = getattr(annotation, "__origin__", annotation)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return True
    return any(_is_mapping(inner) for inner in get_args(annotation))

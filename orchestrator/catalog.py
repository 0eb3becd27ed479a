"""Finds and reads what people write: profiles, suites, templates and inventories.

Folders are looked through from the shipped ones to the user's own, whose files add to and replace
them. This is the one module that knows YAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from orchestrator.errors import ConfigError, HcioError, InputError, Problem
from orchestrator.hcibench import is_hcibench_name, profile_of_name
from orchestrator.inventory import Inventory, InventoryFile, resolve_inventory
from orchestrator.jobfile import TemplateSource
from orchestrator.problems import Path as DataPath
from orchestrator.problems import dotted, nearest, problems_of
from orchestrator.profiles import Profile
from orchestrator.suites import Suite

_Model = TypeVar("_Model", bound=BaseModel)

#: More nodes than this is no configuration but a bomb of aliases.
MAX_NODES: Final = 200_000
_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("map", "seq", "str", "int", "float", "bool", "null")
)
_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")


class _Loader(yaml.SafeLoader):
    """YAML without 1.1's traps: `on`, `no`, `1:30`, `010` and dates stay the text they are."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:null", re.compile(r"^(?:~|null|)$"), ["~", "n", ""]
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(f"^{_INT.pattern}$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(f"^{_FLOAT.pattern}$"), list("-+.0123456789")
)


@dataclass
class Document:
    """A YAML file's data, the line of each path in it, and what is wrong with it as YAML."""

    file: str
    data: Any = None
    lines: dict[DataPath, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    readable: bool = True

    def line_of(self, path: DataPath) -> int | None:
        """The line of a path, or of the nearest thing around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)

    def validate(self, model: type[_Model]) -> _Model:
        """The document as a model; InputError lists all problems with their lines."""
        problems = list(self.problems)
        if not self.readable:
            raise InputError(problems)
        try:
            result = model.model_validate({} if self.data is None else self.data)
        except ValidationError as error:
            problems += problems_of(error, model, file=self.file, line_of=self.line_of)
        if problems:
            raise InputError(problems)
        return result


def parse_document(text: str, file: str) -> Document:
    """Read YAML text. What isn't YAML, or has a key twice, is in the document's problems."""
    document = Document(file)
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is not None:
            document.data = _Reader(document, loader).read(node, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        what = f"not YAML: {error.problem or error.context or 'unreadable'}"
        document.problems.append(Problem(file, line, "", what))
        document.readable = False
    except (yaml.YAMLError, ValueError) as error:
        document.problems.append(Problem(file, None, "", f"not YAML: {error}"))
        document.readable = False
    finally:
        loader.dispose()
    return document


class _Reader:
    """Turns a node tree into data, noting lines and double keys."""

    def __init__(self, document: Document, loader: _Loader) -> None:
        self.document = document
        self.loader = loader
        self.open: list[int] = []
        self.count = 0

    def read(self, node: yaml.Node, path: DataPath) -> Any:
        """The node's data; ValueError for an alias that holds itself, too many nodes, or a tag."""
        self.count += 1
        if node.tag not in _TAGS:
            raise ValueError(f"the tag {node.tag} is not known here")
        if id(node) in self.open or self.count > MAX_NODES:
            raise ValueError("an alias contains itself, or aliases multiply without end")
        self.document.lines.setdefault(path, node.start_mark.line + 1)
        self.open.append(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self.read(item, (*path, n)) for n, item in enumerate(node.value)]
            return self.loader.construct_object(node, deep=True)
        finally:
            self.open.pop()

    def _mapping(self, node: yaml.MappingNode, path: DataPath) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or key_node.value == "<<":
                self._problem(line, path, "a key must be plain text (merge keys are not read)")
                continue
            key = str(key_node.value)
            inner = (*path, key)
            if key in data:
                first = self.document.lines[inner]
                self._problem(line, inner, f"is there twice (first in line {first})")
                continue
            self.document.lines[inner] = line
            data[key] = self.read(value_node, inner)
        return data

    def _problem(self, line: int, path: DataPath, text: str) -> None:
        self.document.problems.append(Problem(self.document.file, line, dotted(path), text))


def dump_yaml(data: Any) -> str:
    """Data as YAML text, keys in their own order; what it writes, parse_document reads back."""
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
    return text


# --- Folders ---------------------------------------------------------------------------------


def shipped_folder() -> Path:
    """What came with hcio: inside the wheel, or the top of a checkout."""
    package = Path(__file__).resolve().parent
    inside = package / "shipped"
    return inside if inside.is_dir() else package.parent


@dataclass(frozen=True)
class Entry:
    """A file of the catalog: its name is its stem; `origin` is `shipped` or the user's folder."""

    name: str
    path: Path
    origin: str


class Catalog:
    """The profiles, suites and templates there are. Files are read when they are asked for."""

    def __init__(self, folders: Sequence[tuple[str, Path]], templates: Sequence[Path]) -> None:
        self._folders = tuple(folders)
        self._templates = tuple(templates)
        self._read: dict[Path, Profile] = {}

    @classmethod
    def of(cls, profiles: Path | None = None, *, here: Path | None = None) -> Catalog:
        """The shipped catalog, then `./profiles` and `./templates` of `here`, then `profiles`
        (`--profiles DIR`, with templates in `DIR/templates`). ConfigError when DIR is missing."""
        shipped = shipped_folder()
        folders = [("shipped", shipped / "profiles")]
        templates = [shipped / "templates"]
        if profiles is not None and not profiles.is_dir():
            raise ConfigError(
                f"{profiles}: no such folder", next_step="give --profiles a folder of YAML files"
            )
        own = [] if here is None else [(here / "profiles", here / "templates")]
        own += [] if profiles is None else [(profiles, profiles / "templates")]
        for folder, template in own:
            if folder.resolve() != folders[0][1].resolve():
                folders.append((str(folder), folder))
            templates.append(template)
        return cls(folders, templates)

    def profiles(self) -> dict[str, Entry]:
        """All profiles' files by name, sorted: `NAME.yaml`, or a job file `NAME.fio`."""
        return self._entries("", (".yaml", ".yml", ".fio"))

    def suites(self) -> dict[str, Entry]:
        """All suites' files by name, sorted."""
        return self._entries("suites", (".yaml", ".yml"))

    def _entries(self, below: str, suffixes: tuple[str, ...]) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        for origin, folder in self._folders:
            place = folder / below
            files = sorted(place.iterdir()) if place.is_dir() else []
            for path in files:
                if path.suffix in suffixes and path.is_file() and not path.name.startswith("."):
                    found[path.stem] = Entry(path.stem, path, origin)
        return dict(sorted(found.items()))

    def find_profile(self, name: str) -> Profile:
        """A profile by its name, by its file's path, or by a name in HCIBench's form.

        InputError with the nearest name when there is none, or with all that is wrong in it.
        """
        entries = self.profiles()
        if name in entries:
            path = entries[name].path
            if path not in self._read:
                self._read[path] = load_profile(path)
            return self._read[path]
        if is_hcibench_name(name):
            return profile_of_name(name)
        path = Path(name)
        if path.suffix in (".yaml", ".yml", ".fio") and path.is_file():
            return load_profile(path)
        raise _missing("profile", name, entries, "hcio profiles lists them")

    def find_suite(self, name: str) -> Suite:
        """A suite by its name or its file's path; every profile that it names must exist.

        A profile's own name is a suite of that one case.
        """
        entries = self.suites()
        if name in entries:
            return self._load_suite(entries[name].path)
        path = Path(name)
        if path.suffix in (".yaml", ".yml") and path.is_file():
            return self._load_suite(path)
        if name in self.profiles() or is_hcibench_name(name):
            return Suite.model_validate({"name": name, "cases": [name]})
        raise _missing("suite", name, [*entries, *self.profiles()], "hcio suites lists them")

    def _load_suite(self, path: Path) -> Suite:
        document = _named(read_document(path), path)
        suite = document.validate(Suite)
        problems = [
            Problem(document.file, document.line_of(where), dotted(where), problem.text, near)
            for where, name in _profiles_of(suite)
            for problem, near in self._faults(name)
        ]
        if problems:
            raise InputError(problems)
        return suite

    def _faults(self, name: str) -> Iterator[tuple[Problem, str | None]]:
        try:
            self.find_profile(name)
        except InputError as error:
            for problem in error.problems:
                yield problem, problem.nearest
        except HcioError as error:
            yield Problem("", None, "", error.what), None

    def template(self, name: str) -> TemplateSource:
        """A job file template by its file's name; the user's own is preferred."""
        for folder in reversed(self._templates):
            path = folder / "jobfile" / name
            if path.is_file():
                return TemplateSource(str(path), _read(path))
        raise ConfigError(f"no template {name}", next_step="install hcio again")


def _missing(kind: str, name: str, names: Iterable[str], hint: str) -> InputError:
    problem = Problem("catalog", None, "", f"no {kind} is named {name!r}", nearest(name, names))
    return InputError([problem], next_step=hint)


def _profiles_of(suite: Suite) -> Iterator[tuple[DataPath, str]]:
    """Every profile that a suite names, and where."""
    for index, case in enumerate(suite.cases):
        if isinstance(case.profile, str):
            yield ("cases", index, "profile"), case.profile
        for group, given in case.groups.items():
            name = given if isinstance(given, str) else given.profile
            if isinstance(name, str):
                yield ("cases", index, "groups", group), name


# --- Files -----------------------------------------------------------------------------------


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start})") from None


def read_document(path: Path) -> Document:
    """Read a YAML file. ConfigError when it can't be read at all."""
    return parse_document(_read(path), str(path))


def load_profile(path: Path) -> Profile:
    """Read a profile: YAML, or a bare job file (`.fio`). InputError lists all that is wrong."""
    if path.suffix == ".fio":
        document = Document(str(path), {"name": path.stem, "fio": _read(path)})
        return document.validate(Profile)
    document = _named(read_document(path), path)
    own = document.data.get("fio") if isinstance(document.data, dict) else None
    if isinstance(own, str) and "\n" not in own and "[" not in own:
        file = path.parent / own
        if file.is_file():
            document.data["fio"] = _read(file)
        else:
            line = document.line_of(("fio",))
            document.problems.append(Problem(document.file, line, "fio", f"no file {file}"))
            document.data["fio"] = "[none]\n"
    return document.validate(Profile)


def _named(document: Document, path: Path) -> Document:
    """The document with its name: the file's stem, from which a written one must not differ."""
    if isinstance(document.data, dict):
        name = document.data.setdefault("name", path.stem)
        if name != path.stem:
            line = document.line_of(("name",))
            text = f"is {name!r}, but the file is {path.name}; they must be the same"
            document.problems.append(Problem(document.file, line, "name", text))
    return document


def load_inventory(path: Path) -> Inventory:
    """Read and resolve an inventory. InputError lists all that is wrong, with lines."""
    document = read_document(path)
    written = document.validate(InventoryFile)
    try:
        return resolve_inventory(written, file=document.file)
    except InputError as error:
        raise InputError([_placed(problem, document) for problem in error.problems]) from None


def _placed(problem: Problem, document: Document) -> Problem:
    steps = [int(s) if s.isdecimal() else s for s in problem.path.split(".")]
    line = document.line_of(tuple(steps))
    return Problem(problem.file, line, problem.path, problem.text, problem.nearest)

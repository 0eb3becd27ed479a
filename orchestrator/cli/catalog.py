"""`hcio schema`, `profiles`, `suites` and `show`: what there is, and how it is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import BaseModel

from orchestrator.catalog import Catalog, Entry, dump_yaml
from orchestrator.demand import lint_depth, lint_profile, wall_seconds
from orchestrator.errors import InputError, Problem
from orchestrator.expansion import expand_suite
from orchestrator.inventory import InventoryFile
from orchestrator.profiles import Profile
from orchestrator.suites import Case, Suite
from orchestrator.units import format_duration, format_size

_SCHEMAS: dict[str, type[BaseModel]] = {
    "profile": Profile,
    "suite": Suite,
    "inventory": InventoryFile,
}
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _options(command: _Command) -> _Command:
    command = click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)
    return click.option(
        "--profiles",
        "folder",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Your own folder of profiles and suites.",
    )(command)


def _catalog(folder: Path | None) -> Catalog:
    return Catalog.of(folder, here=Path.cwd())


@click.command("schema")
@click.argument("kind", type=click.Choice(sorted(_SCHEMAS)))
def schema_command(kind: str) -> None:
    """Print the JSON Schema of a profile, a suite or an inventory.

    An editor that knows it completes and checks the YAML as you type.
    """
    schema = _SCHEMAS[kind].model_json_schema()
    # A file's name is its stem, so the key may be left out there.
    schema["required"] = [key for key in schema.get("required", []) if key != "name"]
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"hcio {kind}"}
    click.echo(json.dumps({**schema, **head}, indent=2))


@click.command("profiles")
@_options
def profiles_command(folder: Path | None, as_json: bool) -> None:
    """List the profiles there are, the shipped ones and your own."""
    catalog = _catalog(folder)
    found = _read_all(catalog.profiles(), catalog.find_profile)
    rows = [
        {"name": entry.name, "description": profile.description, "origin": entry.origin}
        for entry, profile in found
    ]
    _print_rows("profiles", rows, as_json)


@click.command("suites")
@_options
def suites_command(folder: Path | None, as_json: bool) -> None:
    """List the suites there are, with their cases and the time that fio takes for them."""
    catalog = _catalog(folder)
    rows: list[dict[str, Any]] = []
    for entry, suite in _read_all(catalog.suites(), catalog.find_suite):
        cases = expand_suite(suite, catalog.find_profile)
        rows.append(
            {
                "name": entry.name,
                "description": suite.description,
                "origin": entry.origin,
                "cases": [case.id for case in cases],
                "seconds": sum(_seconds(case) for case in cases),
            }
        )
    _print_rows("suites", rows, as_json)


@click.command("show")
@click.argument("name")
@_options
def show_command(name: str, folder: Path | None, as_json: bool) -> None:
    """Show one profile or suite with every value that it has.

    NAME may also be a file, or a workload's name in HCIBench's form.
    """
    catalog = _catalog(folder)
    if name in catalog.suites() and name not in catalog.profiles():
        data = _show_suite(catalog.find_suite(name), catalog)
    elif name in catalog.suites():
        data = {
            **_show_suite(catalog.find_suite(name), catalog),
            "profile": _show_profile(catalog.find_profile(name)),
        }
    else:
        profile = _find_either(name, catalog)
        data = _show_profile(profile)
        _warn(profile)
    click.echo(json.dumps(data, indent=2) if as_json else dump_yaml(_readable(data)).rstrip())


def _warn(profile: Profile) -> None:
    """What lint says of a profile, beside what is shown; rates as if a worker had one target."""
    for finding in (*lint_profile(profile), *lint_depth(profile, 1)):
        if finding.level == "warning":
            place = f"{finding.section}: " if finding.section else ""
            click.echo(f"warning: {place}{finding.text}", err=True)


def _find_either(name: str, catalog: Catalog) -> Profile:
    """The profile; when there is none, the error names the nearest profile or suite."""
    try:
        return catalog.find_profile(name)
    except InputError as error:
        if not any(problem.file == "catalog" for problem in error.problems):
            raise
    catalog.find_suite(name)
    raise InputError([Problem("catalog", None, "", f"{name!r} is a suite's file; give its name")])


def _seconds(case: Case) -> float:
    return max(wall_seconds(profile) for profile in case.groups.values())


def _show_profile(profile: Profile) -> dict[str, Any]:
    data = profile.model_dump(mode="json", exclude_none=True, exclude_defaults=False)
    shaped = profile.fio is None and not profile.jobs
    keep = ["name", "description", "runtime", "ramp", "engine", "direct", "jobs", "fio"]
    order = [*keep, *data] if shaped else keep
    return {k: data[k] for k in order if data.get(k) not in (None, "", [], {})}


_SIZES = frozenset(["block_size", "size"])
_TIMES = frozenset(["runtime", "ramp", "fast_fail", "pause", "max_skew", "window", "seconds"])


def _readable(data: Any, key: str = "") -> Any:
    """Sizes and times as people write them; a profile so shown reads back as the same one."""
    if isinstance(data, Mapping):
        inherit = key if key in _SIZES else ""
        return {k: _readable(v, inherit or k) for k, v in data.items()}
    if isinstance(data, list):
        return [_readable(item) for item in data]
    if key in _SIZES and isinstance(data, int):
        return format_size(data)
    if key in _TIMES and isinstance(data, int | float):
        return format_duration(data)
    return data


def _show_suite(suite: Suite, catalog: Catalog) -> dict[str, Any]:
    cases = expand_suite(suite, catalog.find_profile)
    data = suite.model_dump(mode="json", exclude_none=True)
    data.pop("cases")
    shown = [
        {
            "id": case.id,
            "seconds": _seconds(case),
            "groups": {group: profile.name for group, profile in case.groups.items()},
        }
        for case in cases
    ]
    return {**{k: v for k, v in data.items() if v not in ([], {})}, "cases": shown}


_Found = TypeVar("_Found")


def _read_all(
    entries: Mapping[str, Entry], find: Callable[[str], _Found]
) -> list[tuple[Entry, _Found]]:
    """Read every file; InputError with the problems of all of them."""
    found: list[tuple[Entry, _Found]] = []
    problems: list[Problem] = []
    for name, entry in entries.items():
        try:
            found.append((entry, find(name)))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return found


def _print_rows(kind: str, rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"schema": 1, kind: rows}, indent=2))
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        more = ""
        if "cases" in row:
            count = len(row["cases"])
            more = f" [{count} case{'s' if count != 1 else ''}, {format_duration(row['seconds'])}]"
        own = "" if row["origin"] == "shipped" else f" ({row['origin']})"
        click.echo(f"{row['name']:{width}}  {row['description']}{more}{own}")

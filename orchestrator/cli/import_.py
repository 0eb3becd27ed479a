"""`hcio import`: results made elsewhere become run folders; the files are kept verbatim."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from orchestrator import __version__
from orchestrator.analysis import UniqueNames, merge_files
from orchestrator.catalog import dump_yaml, parse_document
from orchestrator.cli.sides import runs_option
from orchestrator.errors import EXIT_GOOD, EXIT_UNKNOWN, ConfigError, UnreadableOutput
from orchestrator.fio_output import parse_fio_output
from orchestrator.hcibench_differences import ImportedCase
from orchestrator.hcibench_folders import split_folder
from orchestrator.imported import CaseFolder, import_hcibench, with_provenance
from orchestrator.measured import Job
from orchestrator.plausibility import noted
from orchestrator.report.imported import render_imported
from orchestrator.report.text import render_text
from orchestrator.results import RunResult, write_result
from orchestrator.store import RunFolder, RunStore
from orchestrator.suites import ALL
from orchestrator.workload import workload_of

_SUMMARY_END = "-res.txt"
_UNSAFE = re.compile(r"[^A-Za-z0-9_.=+-]+")
#: Small files of a case that are kept beside the VMs' own.
_KEPT = ("fio.cfg", "vsan.cfg", "resource_usage.info", "resource_util.info")

#: What HCIBench itself writes into a case's folder.
_OWN = ("hcibench.cfg", *_KEPT)

name_option = click.option("--name", help="The run's id. [made from the source's name]")
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


@click.group("import")
def import_command() -> None:
    """Make a run folder from results made elsewhere."""


@import_command.command("hcibench")
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@name_option
@json_option
@runs_option
def hcibench_command(directory: Path, name: str | None, as_json: bool, runs: Path) -> int:
    """Import a result folder of HCIBench 2.x or 3.0: a whole test, or one case of it.

    What the VMs' files hold is merged; what HCIBench's own summary says is kept beside it, and
    where the two differ both are shown with the reason.
    """
    found = {item.name: item for item in _case_folders(directory)}
    imported = import_hcibench(
        [item.texts() for item in found.values()], source=directory.resolve().name
    )
    run_id = _run_id(name, f"hcibench-{directory.resolve().name}")
    folder = _create(runs, run_id, "hcibench", directory, imported.workloads)
    for said in imported.cases:
        found[said.folder].keep(folder, said, imported.workers[said.folder])
    result = with_provenance(imported.result, run=run_id, hcio=__version__)
    folder.write("result.json", write_result(result).decode())
    if as_json:
        click.echo(write_result(result).decode(), nl=False)
    else:
        click.echo(f"imported as {run_id}: cases: {len(result.cases)}", err=True)
        click.echo(render_text(result) + render_imported(result), nl=False)
    return _exit_code(result)


@import_command.command("fio")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--case", default="fio", show_default=True, help="What the case is called.")
@name_option
@json_option
@runs_option
def fio_command(
    files: tuple[Path, ...], case: str, name: str | None, as_json: bool, runs: Path
) -> int:
    """Import plain fio outputs (json or json+), one FILE a worker, as one case."""
    _refuse_twice(files)
    names = UniqueNames()
    contents = {names.unique(path.stem): _read(path) for path in files}
    result = noted(merge_files(contents.items(), case=_safe(case)))
    run_id = _run_id(name, f"fio-{files[0].stem}" + (f"+{len(files) - 1}" if files[1:] else ""))
    # a plain output doesn't say how long its ramp was
    cases = tuple(replace(c, timing=replace(c.timing, ramp_s=None)) for c in result.cases)
    result = with_provenance(
        replace(result, cases=cases), imported="fio", run=run_id, hcio=__version__
    )
    workloads = {_safe(case): {ALL: workload_of(_jobs(contents))}}
    folder = _create(runs, run_id, "fio", files[0].parent, workloads)
    for worker, content in contents.items():
        folder.write_raw(_safe(case), _safe(worker), {"fio.json": content})
    folder.write("result.json", write_result(result).decode())
    if as_json:
        click.echo(write_result(result).decode(), nl=False)
    else:
        click.echo(f"imported as {run_id}", err=True)
        click.echo(render_text(result), nl=False)
    return _exit_code(result)


def _create(
    runs: Path,
    run_id: str,
    kind: str,
    source: Path,
    workloads: Mapping[str, Mapping[str, Mapping[str, Any]]],
) -> RunFolder:
    """The run's folder, its plan saying what each case measured: comparisons read it there."""
    plan: dict[str, Any] = {"imported": kind, "run": run_id, "hcio": __version__}
    plan["source"] = source.resolve().name
    plan["cases"] = [
        {"id": case, "groups": {name: dict(fields) for name, fields in groups.items()}}
        for case, groups in workloads.items()
    ]
    folder = RunStore(runs).create(run_id, dump_yaml(plan))
    folder.record("imported", kind=kind, source=source.resolve().name)
    return folder


def _jobs(contents: Mapping[str, bytes]) -> Iterator[Job]:
    for worker, content in contents.items():
        try:
            yield from parse_fio_output(content, worker).jobs
        except UnreadableOutput:
            continue


def _exit_code(result: RunResult) -> int:
    return EXIT_GOOD if any(case.total is not None for case in result.cases) else EXIT_UNKNOWN


def _run_id(name: str | None, made: str) -> str:
    """The id that was asked for, or one made of the source's name."""
    if name is None:
        return _safe(made)
    if name != _safe(name):
        raise ConfigError(
            f"--name {name!r} can't be a run's id: it names a folder below --runs",
            next_step=f"take letters, digits, -, _ and dots, like {_safe(name)}",
        )
    return name


def _refuse_twice(files: Sequence[Path]) -> None:
    """The same file named twice would count twice."""
    seen: set[Path] = set()
    for path in files:
        if path.resolve() in seen:
            raise ConfigError(
                f"{path}: named twice",
                means="each file is one worker: its I/Os would count twice",
                next_step="name every file once",
            )
        seen.add(path.resolve())


def _safe(name: str) -> str:
    """A name that is safe as a folder's, and no option or formula to whoever reads it."""
    return _UNSAFE.sub("_", name).strip(".").lstrip("-=+") or "unnamed"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror or error}", next_step="give files that can be read"
        ) from error


class _Outputs(Mapping[str, bytes]):
    """VM to its file, read when it is looked at and not kept."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = paths

    def __getitem__(self, vm: str) -> bytes:
        return _read(self._paths[vm])

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


@dataclass(frozen=True)
class _Found:
    """Where one case's files are. `folder` is None when only its summary is there."""

    name: str
    folder: Path | None
    summary: Path | None

    def outputs(self) -> dict[str, Path]:
        if self.folder is None:
            return {}
        return {path.stem: path for path in sorted(self.folder.glob("*.json"))}

    def text(self, name: str) -> str | None:
        path = None if self.folder is None else self.folder / name
        if path is None or not path.is_file():
            return None
        return _read(path).decode("utf-8", "replace")

    def texts(self) -> CaseFolder:
        configuration = self.text("hcibench.cfg")
        data = {} if configuration is None else parse_document(configuration, "hcibench.cfg").data
        summary = None if self.summary is None else _read(self.summary).decode("utf-8", "replace")
        return CaseFolder(
            name=self.name,
            outputs=_Outputs(self.outputs()),
            summary=summary,
            configuration=data if isinstance(data, dict) else {},
            vsan=self.text("vsan.cfg"),
            usage=self.text("resource_usage.info"),
        )

    def keep(self, folder: RunFolder, said: ImportedCase, workers: Mapping[str, str]) -> None:
        """Copy the files into the run folder. Not hcibench.cfg: it may name accounts."""
        case = _safe(said.case)
        for vm, path in self.outputs().items():
            folder.write_raw(case, _safe(workers[vm]), {"fio.json": _read(path)})
        beside = {n: text.encode() for n in _KEPT if (text := self.text(n)) is not None}
        if self.summary is not None:
            beside["res.txt"] = _read(self.summary)
        if beside:
            own = "hcibench" if said.group is None else _safe(f"hcibench-{said.group}")
            folder.write_raw(case, own, beside)


def _case_folders(directory: Path) -> Iterator[_Found]:
    """The cases of a test folder, or the one case that `directory` itself is."""
    directory = directory.resolve()
    if _is_case(directory):
        yield _found(directory.parent, directory.name)
        return
    names = {path.name for path in directory.iterdir() if _is_case(path)}
    names |= {path.name.removesuffix(_SUMMARY_END) for path in directory.glob(f"*{_SUMMARY_END}")}
    for name in sorted(names):
        yield _found(directory, name)


def _is_case(path: Path) -> bool:
    """A folder of results, or one that HCIBench began and whose VMs left nothing."""
    if not path.is_dir() or split_folder(path.name)[1] is None:
        return False
    return any(path.glob("*.json")) or any((path / name).is_file() for name in _OWN)


def _found(parent: Path, name: str) -> _Found:
    folder, summary = parent / name, parent / f"{name}{_SUMMARY_END}"
    return _Found(
        name,
        folder if folder.is_dir() else None,
        summary if summary.is_file() else None,
    )

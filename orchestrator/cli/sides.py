"""Sides of a comparison, a matrix or an export from what the user names: runs and result files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator.catalog import parse_document
from orchestrator.compare import Side
from orchestrator.conditions import case_conditions, run_conditions
from orchestrator.contrast import Observation
from orchestrator.errors import ConfigError, IncompatibleResults
from orchestrator.repeats import group_repeats, split_repeat
from orchestrator.results import RunResult, read_result
from orchestrator.store import RunStore

if TYPE_CHECKING:
    import polars as pl

runs_option = click.option(
    "--runs",
    envvar="HCIO_RUNS",
    default="runs",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where the runs are.",
)


def load_run(reference: str, runs: Path) -> tuple[RunResult, dict[str, Any], Path | None]:
    """A run's result, its plan's data ({} for a bare result file), and its folder.

    Raises StoreError when there is no such run, IncompatibleResults when it has no result.
    """
    if reference.endswith(".json") and Path(reference).is_file():
        return read_result(Path(reference).read_bytes(), reference), {}, None
    folder = RunStore(runs).find(reference)
    text = folder.read_result()
    if text is None:
        raise IncompatibleResults(
            f"{reference}: this run has no result yet",
            means="it was not finished, or not collected",
            next_step=f"`hcio collect {reference}`, or `hcio report {reference}`",
        )
    data = parse_document(folder.read_plan(), str(folder.path / "plan.yaml")).data
    plan = data if isinstance(data, dict) else {}
    return read_result(text.encode(), reference), plan, folder.path


def load_side(references: str, runs: Path) -> Side:
    """One side: a run, or several runs of the same thing (`A1,A2,A3`), whose cases are repeats.

    Raises ConfigError when a run is named twice: its figures would count as evidence twice.
    """
    names = [name.strip() for name in references.split(",") if name.strip()]
    if not names:
        raise ConfigError("a side without a run", next_step="name a run, or several as A1,A2,A3")
    cases: dict[str, tuple[Observation, ...]] = {}
    conditions: list[Mapping[str, Any]] = []
    sources: list[str] = []
    details: dict[str, list[Mapping[str, Any]]] = {}
    for name in names:
        run, plan, folder = load_run(name, runs)
        source = str(folder or Path(name).resolve())
        if source in sources:
            raise ConfigError(
                f"{references}: {name} is a run that this side has already",
                means="the same figures twice would look like two measurements that agree",
                next_step="name every run once",
            )
        sources.append(source)
        conditions.append(run_conditions(plan, run.provenance))
        for case_id, fields in case_conditions(plan).items():
            details.setdefault(split_repeat(case_id)[0], []).append(fields)
        for case, repeats in group_repeats(run.cases).items():
            alone = len(run.cases) == 1
            seen = tuple(Observation(r, _series(folder, r.case, alone=alone)) for r in repeats)
            cases[case] = cases.get(case, ()) + seen
    of_cases = {case: _merged(several) for case, several in details.items()}
    return Side(", ".join(names), cases, _merged(conditions), of_cases, tuple(sources))


def load_baseline(references: str | None, runs: Path, candidate: Path | None = None) -> Side | None:
    """The side that a run's acceptance rules mean; None where none is named.

    To be loaded before the run begins: `latest` is the run before it then. ConfigError when it is
    `candidate`, the folder of the run that is to be judged.
    """
    if references is None:
        return None
    side = load_side(references, runs)
    if candidate is not None and str(candidate) in side.sources:
        raise ConfigError(
            f"--baseline {references} is the run itself",
            means="a run agrees with itself, which says nothing",
            next_step="name an earlier run; `hcio list` shows them",
        )
    return side


def case_series(folder: Path | None, case: str, *, alone: bool = False) -> pl.LazyFrame | None:
    """The series of a case, lazily; None where the run kept none.

    It is `series/<case>.parquet`, or the case's rows of `series.parquet`; one without a column
    `case` belongs to the run's only case (`alone`).
    """
    if folder is None:
        return None
    from orchestrator.series import scan_series  # polars takes its time to load

    own, common = folder / "series" / f"{case}.parquet", folder / "series.parquet"
    if own.is_file():
        return scan_series(own)
    if not common.is_file():
        return None
    frame = scan_series(common)
    if "case" in frame.collect_schema().names():
        import polars

        return frame.filter(polars.col("case") == case).drop("case")
    return frame if alone else None


def _series(folder: Path | None, case: str, *, alone: bool) -> dict[str, list[float]]:
    """The windows of a case by metric name; empty where the run kept no series."""
    frame = case_series(folder, case, alone=alone)
    if frame is None:
        return {}
    from orchestrator.samples import samples_of

    return samples_of(frame)


def _merged(several: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Conditions of several runs; where they differ all values are said."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for conditions in several for name in conditions):
        values = list(dict.fromkeys(str(conditions.get(name)) for conditions in several))
        found[name] = several[0].get(name) if len(values) == 1 else " and ".join(values)
    return found

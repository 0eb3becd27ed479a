"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def runs_option(function: F) -> F:
    """`--runs DIR`."""
    option = click.option(
        "--runs",
        type=click.Path(path_type=Path),
        default=Path("runs"),
        envvar="HCIO_RUNS",
        show_default=True,
        help="Where runs are kept (HCIO_RUNS).",
    )
    return option(function)


def options_of_a_walk(function: F) -> F:
    """`--poll` and `--forks`."""
    function = click.option(
        "--forks",
        type=click.IntRange(1, 1024),
        default=64,
        show_default=True,
        help="Workers spoken to at the same time.",
    )(function)
    return click.option(
        "--poll",
        type=click.FloatRange(0.1, 3600),
        help="Seconds between two looks at the workers.",
    )(function)


baseline_option = click.option(
    "--baseline",
    metavar="RUN",
    help="The run that the suite's rules `vs baseline` mean (several: A1,A2,A3).",
)

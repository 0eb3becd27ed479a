"""`hcio size`: how many workers and disks an easy run takes, and how each figure was derived."""

from __future__ import annotations

import json
from pathlib import Path

import click

from orchestrator.errors import ConfigError
from orchestrator.report.sizing import render_sizing, sizing_document
from orchestrator.sizing import DEFAULT_FORMULA, FORMULAS, size_easy_run
from orchestrator.sizing_inputs import Value, parse_input, resolve_inputs


def parse_settings(texts: tuple[str, ...]) -> dict[str, Value]:
    """The values of `--set NAME=VALUE`. ConfigError for another form or a name given twice."""
    values: dict[str, Value] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign:
            raise ConfigError(f"--set {text}: write it as NAME=VALUE, like --set hosts=4")
        if name in values:
            raise ConfigError(f"--set {name} is given twice")
        values[name] = parse_input(name, value)
    return values


def read_facts(inventory: Path | None) -> dict[str, Value]:
    """What vCenter says of the inventory's cluster; nothing without an inventory."""
    if inventory is None:
        return {}
    # Only here: the vSphere library is slow to load, and most sizing needs none.
    from orchestrator.catalog import load_inventory
    from orchestrator.cli.workers import open_vsphere
    from orchestrator.vsphere.observer import Observer
    from orchestrator.vsphere.sizing_facts import read_sizing_inputs

    cluster = load_inventory(inventory).vsphere
    if cluster is None:
        raise ConfigError(
            f"{inventory} has no vsphere section: there is no vCenter to ask",
            next_step="give the inputs with --set NAME=VALUE",
        )
    with open_vsphere(cluster) as vsphere:
        observer = Observer(vsphere.session)
        try:
            return read_sizing_inputs(vsphere, observer, cluster)
        finally:
            observer.close()


@click.command()
@click.option("-i", "--inventory", type=click.Path(path_type=Path), help="Ask its vCenter.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Override an input.")
@click.option("--formula", type=click.Choice(list(FORMULAS)), default=DEFAULT_FORMULA)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def size_command(
    inventory: Path | None, settings: tuple[str, ...], formula: str, as_json: bool
) -> None:
    """Size an easy run, and show how each figure was derived."""
    given = parse_settings(settings)
    sizing = size_easy_run(resolve_inputs(given, read_facts(inventory)), formula)
    if as_json:
        click.echo(json.dumps(sizing_document(sizing), indent=2))
    else:
        click.echo(render_sizing(sizing), nl=False)

"""The command line: which commands there are, and how an error becomes a message and an exit code.

Commands are imported when they are asked for, so that `hcio --help` stays quick.
"""

from __future__ import annotations

import importlib
import sys

import click

from orchestrator import __version__
from orchestrator.errors import EXIT_BUG, EXIT_INTERRUPTED, HcioError

EXIT_CODES = """\b
Exit codes: 0 good; 1 a check, acceptance rule or comparison said no, or a case failed;
2 usage or configuration; 3 could not tell; 4 the lab is broken; 70 a bug of ours;
130 interrupted."""

#: name: (module, one line for the list), in the order of average work.
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("orchestrator.cli.run", "Run a suite on workers, or on this machine."),
    "search": ("orchestrator.cli.search", "The most I/O within an objective."),
    "resume": ("orchestrator.cli.runs", "Take a run up where it stands."),
    "collect": ("orchestrator.cli.runs", "Fetch what a run left on its workers."),
    "status": ("orchestrator.cli.runs", "How a run stands."),
    "stop": ("orchestrator.cli.runs", "End a run on its workers."),
    "report": ("orchestrator.cli.runs", "Report a run from its folder alone."),
    "list": ("orchestrator.cli.runs", "List the runs there are."),
    "clean": ("orchestrator.cli.runs", "Remove what a run left on its workers."),
    "check": ("orchestrator.cli.check", "Check the workers before a run."),
    "workers": ("orchestrator.cli.workers", "Deploy, list and destroy workers on vSphere."),
    "merge": ("orchestrator.cli.merge", "Merge plain fio outputs, one file a worker."),
    "size": ("orchestrator.cli.size", "Size an easy run, and show how each figure was derived."),
    "compare": ("orchestrator.cli.compare", "Compare candidates with a baseline."),
    "accept": ("orchestrator.cli.accept", "Hold acceptance rules against a run."),
    "matrix": ("orchestrator.cli.matrix", "Configurations down, workloads across."),
    "campaign": ("orchestrator.cli.campaign", "The same suites over several configurations."),
    "import": ("orchestrator.cli.import_", "Make a run folder from results made elsewhere."),
    "export": ("orchestrator.cli.export", "Write runs as CSV, Parquet, JSON or a workbook."),
    "schema": ("orchestrator.cli.catalog", "Print a JSON Schema: profile, suite or inventory."),
    "profiles": ("orchestrator.cli.catalog", "List the profiles there are."),
    "suites": ("orchestrator.cli.catalog", "List the suites there are."),
    "show": ("orchestrator.cli.catalog", "Show one profile or suite, resolved."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when used: `hcio NAME` loads that module's `NAME`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command = getattr(module, cmd_name.replace("-", "_") + "_command")
        assert isinstance(command, click.Command)  # noqa: S101 - our own table
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES,
)
@click.version_option(__version__, prog_name="hcio")
def cli() -> None:
    """Run storage workloads on hyper-converged clusters, and tell the truth about the result."""


def run_cli(args: list[str] | None = None) -> int:
    """Run the command line on `args` and return its exit code; errors go to stderr."""
    try:
        code = cli.main(args=args, prog_name="hcio", standalone_mode=False)
    except HcioError as error:
        click.echo(f"hcio: {error}", err=True)
        return error.exit_code
    except click.exceptions.Abort:
        click.echo("hcio: interrupted", err=True)
        return EXIT_INTERRUPTED
    except KeyboardInterrupt:
        click.echo("hcio: interrupted", err=True)
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    return code if isinstance(code, int) else 0


def entry() -> None:
    """The console script."""
    try:
        sys.exit(run_cli())
    except Exception:  # noqa: BLE001 - the one place that meets our own bugs
        import traceback

        traceback.print_exc()
        click.echo("hcio: this is a bug of ours; please report it with the lines above", err=True)
        sys.exit(EXIT_BUG)

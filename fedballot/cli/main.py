"""The `fedballot` command.

Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 the run failed, 2 wrong settings, 130
stopped by Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import dataclasses
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fedballot import __version__
from fedballot.cli import deploy as deployed
from fedballot.cli import ledger as ledger_commands
from fedballot.cli import model as model_commands
from fedballot.cli import privacy as privacy_commands
from fedballot.cli import terminal
from fedballot.cli.attack import attack
from fedballot.cli.data import data_app
from fedballot.cli.federation import try_federation
from fedballot.cli.first import first
from fedballot.cli.frontier import frontier_command
from fedballot.cli.options import Json
from fedballot.cli.pack import pack_app
from fedballot.cli.poll import poll
from fedballot.cli.reproduce import reproduce_command
from fedballot.cli.run import run
from fedballot.cli.server import server_app
from fedballot.cli.sweep import sweep_command
from fedballot.core.errors import FedballotError, RunError, SettingsError
from fedballot.core.setting import declaration, meaning, words_of
from fedballot.settings import layers

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Federated learning by sharing predictions on public data, under differential privacy.",
)


FIRST, RESULTS, STUDIES, MACHINES = "First steps", "Results", "Before and beyond one run", "Between machines"


def command(panel: str, example: str, name: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command of the app, in a panel of its help, with an example in its own."""
    return app.command(name, rich_help_panel=panel, epilog=f"Example: {example}")


command(FIRST, "fedballot try table.csv", "try")(first)
command(FIRST, "fedballot run pate-fl --preset demo --set epsilon=1 --out runs/eps1")(run)
app.add_typer(data_app, name="data", rich_help_panel=FIRST)
command(RESULTS, "fedballot predict runs/eps1 new.csv --out predicted.csv")(model_commands.predict)
command(RESULTS, "fedballot export runs/eps1 --format skops --out model.skops")(model_commands.export)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(__version__)
        raise typer.Exit


@command(FIRST, "fedballot methods --settings pate-fl")
def methods(
    settings_of: Annotated[
        str | None, typer.Option("--settings", metavar="METHOD", help="List the settings of a method.")
    ] = None,
    json: Json = False,
) -> None:
    """The methods, what each protects and from whom; or the settings of one."""
    from fedballot.methods.registry import all_methods, get_method

    if settings_of is not None:
        kind = get_method(settings_of).settings
        fields = dataclasses.fields(kind)
        rows = [[field.name, *words_of(kind, field), meaning(declaration(field))] for field in fields]
        if json:
            terminal.print_json([dict(zip(("name", "default", "allowed", "help"), row, strict=True)) for row in rows])
        else:
            terminal.print_table(f"settings of {settings_of}", ("setting", "default", "allowed", "meaning"), rows)
        return
    keys = ("name", "summary", "sends", "protects", "from_whom", "source")
    table = [[getattr(method, key) for key in keys] for method in all_methods().values()]
    if json:
        terminal.print_json([dict(zip(keys, row, strict=True)) for row in table])
    else:
        terminal.print_table("", ("method", "what it does", "sends", "protects", "from whom", "source"), table)


@command(FIRST, "fedballot presets")
def presets(json: Json = False) -> None:
    """The settings files that come with fedballot."""
    found = [layers.load_preset(name) for name in layers.preset_names()]
    if json:
        terminal.print_json(
            [{"name": p.name, "about": p.about, "settings": p.common, "methods": p.by_method} for p in found]
        )
        return
    rows = [[preset.name, preset.about, ", ".join(preset.by_method)] for preset in found]
    terminal.print_table("", ("preset", "what it is", "sets more for"), rows)


@command(RESULTS, "fedballot report runs/eps1")
def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run.")],
    beside: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="A run on the same data to stand beside it, such as standalone; repeatable."),
    ] = None,
) -> None:
    """Write DIR/report.html anew from DIR/result.json, its figures as PDF too."""
    from fedballot.report.build import write_report

    print(write_report(directory, pdf=True, beside=beside or ()))


@command(RESULTS, "fedballot compare runs/eps1 runs/alone --out compare.html")
def compare(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of runs.")],
    out: Annotated[
        Path, typer.Option(help="A page (.html), a table (.csv, .tex, .md) or a picture (.png, .svg, .pdf).")
    ] = Path("compare.html"),
    attacks: Annotated[
        list[Path] | None,
        typer.Option(help="A folder of `fedballot attack`, or one that holds such: what leaks, measured; repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """Runs side by side: a table and a plot."""
    from fedballot.report.compare import compare as side_by_side
    from fedballot.report.compare_page import compare_table, write_compare

    found = side_by_side(directories, attacks or ())
    page = write_compare(directories, out, attacks or ())
    if json:
        terminal.print_json(found.to_dict())
        return
    table = compare_table(found)
    terminal.print_table("", table.head, table.rows)
    for note in found.notes:
        terminal.out.print(escape(note))
    print(page)


command(STUDIES, "fedballot poll --set dataset=table.csv")(poll)
command(STUDIES, "fedballot sweep pate-fl --preset demo --set epsilon=0.5,1,2,4 --out sweeps/epsilon", "sweep")(
    sweep_command
)
command(STUDIES, "fedballot frontier --methods pate-fl,dp-fedavg --preset demo --epsilon 1,4", "frontier")(
    frontier_command
)
command(STUDIES, "fedballot reproduce digits --out rows/digits", "reproduce")(reproduce_command)
command(STUDIES, "fedballot budget pate-fl --preset demo --budget 10")(privacy_commands.budget)
command(STUDIES, "fedballot audit pate-fl")(privacy_commands.audit)
command(STUDIES, "fedballot attack fedkd --preset demo --quick", "attack")(attack)
command(MACHINES, "fedballot try-federation federation --sites 3", "try-federation")(try_federation)
app.add_typer(deployed.site_app, name="site", rich_help_panel=MACHINES)
app.add_typer(server_app, name="server", rich_help_panel=MACHINES)
command(MACHINES, "fedballot submit pate-fl --server server --preset demo --out runs/first")(deployed.submit)
app.add_typer(ledger_commands.ledger_app, name="ledger", rich_help_panel=MACHINES)
app.add_typer(pack_app, name="pack", rich_help_panel=MACHINES)


def main() -> None:
    """Entry point: errors meant for the user are one sentence on stderr and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal of Latin letters shows ? for what it lacks
            stream.reconfigure(errors="replace")
    try:
        app(standalone_mode=True)
    except FedballotError as error:
        terminal.err.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        terminal.end(2 if isinstance(error, SettingsError) else 1)
    except OSError as error:  # a folder that may not be written, a full disk: the system's words say it
        terminal.err.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        terminal.end(1)
    except KeyboardInterrupt:
        terminal.stop()
    except SystemExit as ending:  # typer makes one of Ctrl-C
        if ending.code == terminal.STOPPED:
            terminal.stop()
        raise


__all__ = ["RunError", "app", "main"]


if __name__ == "__main__":
    main()

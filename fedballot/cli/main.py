"""The `fedballot` command.

Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 the run failed, 2 wrong settings.
"""

from __future__ import annotations

import dataclasses
import glob
import os
import re
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from fedballot import __version__
from fedballot.cli import deploy as deployed
from fedballot.cli import ledger as ledger_commands
from fedballot.cli import privacy as privacy_commands
from fedballot.cli import terminal
from fedballot.cli.frontier import frontier_command
from fedballot.cli.sweep import sweep_command
from fedballot.core import numbers
from fedballot.core.errors import FedballotError, RunError, SettingsError
from fedballot.core.files import write_atomic
from fedballot.core.setting import choices_of, declaration
from fedballot.privacy.guarantee import adjacency_note
from fedballot.settings import layers
from fedballot.settings.parts import CommonSettings

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Federated learning by sharing predictions on public data, under differential privacy.",
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Assignments = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one setting.")]


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def resolve(
    method_name: str,
    preset: str | None,
    config: Path | None,
    assignments: list[str],
    out: Path | None,
    resume: bool,
    *,
    deployed: bool = False,
) -> CommonSettings:
    """The settings of a run: those of the run to resume, or defaults < preset < file < assignments.

    In a deployed run secure aggregation is on by default, for methods that have it.
    """
    from fedballot.core.folders import RunFolder
    from fedballot.methods.registry import get_method, settings_types

    method = get_method(method_name)
    recorded: Mapping[str, Any] = {}
    if resume and out is not None and (out / "run.json").exists() and not (preset or config):
        run = RunFolder.read(out)
        recorded = run.settings if run.method == method_name else {}
    return layers.resolve(
        method.name,
        settings_types(method),
        defaults={"secure_aggregation": True} if deployed else {},
        recorded=recorded,
        preset=preset,
        config=config,
        values=layers.parse_assignments(assignments),
    )


@app.command()
def run(
    method: Annotated[str, typer.Argument(help="A name from `fedballot methods`.")],
    preset: Annotated[str | None, typer.Option(help="A name from `fedballot presets`.")] = None,
    config: Annotated[Path | None, typer.Option(help="A settings file (TOML) in the form of a preset.")] = None,
    set_: Assignments = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; default: runs/METHOD-TIME.")] = None,
    resume: Annotated[bool, typer.Option(help="Take up the run that is in --out.")] = False,
    quiet: Annotated[bool, typer.Option(help="No progress.")] = False,
    json: Json = False,
) -> None:
    """Run one experiment in a simulation on this machine."""
    if resume and (out is None or not (out / "run.json").exists()):
        raise SettingsError("--resume needs --out FOLDER with the run to take up")
    resolved = resolve(method, preset, config, set_ or [], out, resume)
    from fedballot.report.build import write_report
    from fedballot.sim import simulate

    folder = out or Path("runs") / f"{method}-{datetime.now():%Y%m%d-%H%M%S}"
    try:
        result = simulate(method, resolved, folder, resume=resume, progress=terminal.watcher(quiet=quiet))
    except KeyboardInterrupt:
        terminal.err.print(f"stopped; go on with: fedballot run {method} --out {folder} --resume", soft_wrap=True)
        _leave(1)
    except RunError:
        if (folder / "result.json").exists():  # else it failed before it began
            write_report(folder)
        if errors := sorted(folder.glob("clients/*/errors.txt")):
            terminal.err.print(f"what went wrong at a client stands in {escape(str(errors[0]))}", soft_wrap=True)
        raise
    page = write_report(folder)
    if json:
        terminal.print_json(result)
    else:
        print_result(result, folder, page)


def print_result(result: dict[str, Any], folder: Path, page: Path) -> None:
    """The table at the end of a run."""
    metrics, sent = result["metrics"], result["communication"]
    rows = []
    if metrics.get("server_accuracy") is not None:
        rows.append(("server accuracy", numbers.percent(metrics["server_accuracy"])))
    if metrics.get("server_auc") is not None:
        rows.append(("server's mean AUC", f"{metrics['server_auc']:.3f}"))
    if metrics.get("label_accuracy") is not None:
        rows.append(("accuracy of released labels", numbers.percent(metrics["label_accuracy"])))
    if clients := metrics.get("client_accuracy"):
        rows.append(("clients' own accuracy", f"{numbers.percent(clients['mean'])} ± {100 * clients['std']:.1f}"))
    if words := result["aggregation"].get("words"):
        rows.append(("ballots", words))
    guarantees = result["guarantees"]
    rows += [(terminal.toned("guarantee", first), escape(first["sentence"])) for first in guarantees[:1]]
    rows.append(
        (
            "sent",
            f"{numbers.size(sent['bytes_up'])} up, {numbers.size(sent['bytes_down'])} down, "
            f"{sent['messages']} messages",
        )
    )
    clients = result["clients"]
    rejected = "".join(f", {count} {reason}" for reason, count in clients["rejected"].items())
    rows.append(("clients", f"{clients['answered']} of {clients['asked']} gave a good answer{rejected}"))
    timing = result["timing"]
    rows.append(
        (
            "time",
            f"{timing['wall_s']:.1f} s: start {timing['startup_s']:.1f}, clients {timing['train_s']:.1f}, "
            f"server {timing['distill_s']:.1f}",
        )
    )
    rows += [("result", str(folder / "result.json")), ("report", str(page))]
    terminal.print_table(f"{result['method']} on {result['data']['dataset']}", ("", ""), [list(row) for row in rows])
    for warning in result["warnings"]:
        terminal.err.print(f"[yellow]warning:[/yellow] {escape(warning)}", soft_wrap=True)
    for warning in (words for first in guarantees[:1] for words in first["warnings"]):
        terminal.err.print(f"[yellow]warning:[/yellow] {escape(warning)}", soft_wrap=True)
    if len(guarantees) > 1:
        terminal.print_guarantees("all guarantees", guarantees)
        if note := adjacency_note(guarantees):
            terminal.out.print(escape(note))


@app.command()
def methods(
    settings_of: Annotated[
        str | None, typer.Option("--settings", metavar="METHOD", help="List the settings of a method.")
    ] = None,
    json: Json = False,
) -> None:
    """The methods, what each protects and from whom; or the settings of one."""
    from fedballot.methods.registry import METHODS, get_method

    if settings_of is not None:
        kind = get_method(settings_of).settings
        choices = choices_of(kind)
        rows = [_setting_row(field, choices.get(field.name, ())) for field in dataclasses.fields(kind)]
        if json:
            terminal.print_json([dict(zip(("name", "default", "allowed", "help"), row, strict=True)) for row in rows])
        else:
            terminal.print_table(f"settings of {settings_of}", ("setting", "default", "allowed", "meaning"), rows)
        return
    keys = ("name", "summary", "sends", "protects", "from_whom", "source")
    table = [[getattr(method, key) for key in keys] for method in METHODS.values()]
    if json:
        terminal.print_json([dict(zip(keys, row, strict=True)) for row in table])
    else:
        terminal.print_table("", ("method", "what it does", "sends", "protects", "from whom", "source"), table)


def _setting_row(field: dataclasses.Field[Any], choices: tuple[str, ...]) -> list[str]:
    declared = declaration(field)
    allowed = ", ".join(f"{words} {bound:g}" for _, words, bound in declared.bounds()) or ", ".join(choices)
    default = ",".join(field.default) if isinstance(field.default, tuple) else str(field.default)
    return [field.name, default, allowed, declared.help]


@app.command()
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


@app.command()
def data(
    name: Annotated[str | None, typer.Argument(help="A built-in name, a file, a folder or a glob.")] = None,
    preset: Annotated[str | None, typer.Option(help="Show the partition of this preset.")] = None,
    set_: Assignments = None,
    out: Annotated[Path | None, typer.Option(help="Where to write the picture (PNG).")] = None,
    json: Json = False,
) -> None:
    """What a data set holds, and how a partition of it looks, as a table and a picture."""
    from fedballot.datasets import describe as about
    from fedballot.datasets import sources

    if out is not None and (out.suffix.lower() != ".png" or not out.parent.is_dir()):
        raise SettingsError(f"--out {out}: must be a .png file in a folder that exists")
    if name is None and preset is None and not set_:
        rows = [[known, text] for known, text in sources.names().items()]
        if json:
            terminal.print_json([{"name": known, "about": text} for known, text in rows])
        else:
            terminal.print_table("", ("data set", "what it is"), rows)
        return
    title = name or preset
    if preset or set_:
        from fedballot.methods.registry import settings_types
        from fedballot.runs.engine import federation_spec

        values = {**({"dataset": name} if name else {}), **layers.parse_assignments(set_ or [])}
        kinds: dict[str, type[CommonSettings]] = {**settings_types(), "data": CommonSettings}
        resolved = layers.resolve("data", kinds, preset=preset, values=values)
        title = title or resolved.dataset
        found = about.describe(federation_spec(resolved))
    else:
        found = about.describe(sources.load(str(name)))
    if json:
        terminal.print_json(found)
    else:
        terminal.print_table(str(title), ("", ""), _data_rows(found))
    if json and out is None:
        return
    from fedballot.report.plots import class_figure, partition_figure

    # of a pattern such as 'sites/*.csv' the folder's name: a file called *.png is dangerous to delete
    parts = [part for part in Path(str(title)).parts if re.search(r"\w", part) and not glob.has_magic(part)]
    picture = out or Path(f"{Path(parts[-1]).stem if parts else 'data'}.png")
    if "partition" in found:
        figure = partition_figure(np.array(found["partition"]["counts"]), found["classes"])
    else:
        figure = class_figure(np.array(found["train"]["per_class"]), found["classes"])
    write_atomic(picture, lambda stream: figure.savefig(stream, format="png", dpi=150))
    if not json:
        terminal.out.print(f"picture: {escape(str(picture))}")


def _data_rows(found: dict[str, Any], prefix: str = "") -> list[list[str]]:
    """The description of a data set as rows, nested keys joined; long lists are cut with their length told."""
    rows: list[list[str]] = []
    for key, value in found.items():
        if key == "counts" or value in (None, {}, []):
            continue
        if isinstance(value, dict):
            rows += _data_rows(value, f"{prefix}{key} ")
        elif isinstance(value, list):
            more = f", … ({len(value)} in all)" if len(value) > 20 else ""
            rows.append([f"{prefix}{key}", ", ".join(map(str, value[:20])) + more])
        else:
            rows.append([f"{prefix}{key}", str(value)])
    return rows


@app.command()
def report(directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run.")]) -> None:
    """Write DIR/report.html anew from DIR/result.json."""
    from fedballot.report.build import write_report

    print(write_report(directory))


@app.command()
def compare(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of runs.")],
    out: Annotated[Path, typer.Option(help="Where to write the page with the plots.")] = Path("compare.html"),
    json: Json = False,
) -> None:
    """Runs side by side: a table and a plot."""
    from fedballot.report import compare as side_by_side

    found = side_by_side.compare(directories)
    page = side_by_side.write_compare(directories, out)
    if json:
        terminal.print_json(found.to_dict())
        return
    rows = [
        [
            row.name,
            row.method,
            row.status,
            numbers.percent(row.accuracy),
            numbers.percent(row.label_accuracy),
            numbers.epsilon(row.epsilon) if row.guarantee_status else "–",
            numbers.delta(row.delta) if row.guarantee_status else "–",
            row.meaning or "–",
            numbers.size(row.bytes_up),
            numbers.seconds(row.wall_s),
        ]
        for row in found.rows
    ]
    columns = ("run", "method", "status", "accuracy", "labels", "ε", "δ", "what ε speaks of", "bytes up", "time")
    terminal.print_table("", columns, rows)
    for note in found.notes:
        terminal.out.print(escape(note))
    print(page)


app.command("sweep")(sweep_command)
app.command("frontier")(frontier_command)
app.add_typer(deployed.site_app, name="site")
app.add_typer(deployed.server_app, name="server")
app.command()(deployed.submit)
app.command()(privacy_commands.budget)
app.command()(privacy_commands.audit)
app.add_typer(ledger_commands.ledger_app, name="ledger")


def _leave(code: int) -> None:
    """End at once: after an interrupt, Flower's server thread still waits for answers that will not come."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    """Entry point: errors meant for the user are one sentence on stderr and an exit code."""
    try:
        app(standalone_mode=True)
    except FedballotError as error:
        terminal.err.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        sys.exit(2 if isinstance(error, SettingsError) else 1)
    except OSError as error:  # a folder that may not be written, a full disk: the system's words say it
        terminal.err.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        terminal.err.print("stopped")
        _leave(1)


__all__ = ["RunError", "app", "main"]


if __name__ == "__main__":
    main()

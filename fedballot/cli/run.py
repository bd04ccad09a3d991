"""``fedballot run``: one experiment in a simulation, its settings and what is printed at its end."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from fedballot.cli import terminal
from fedballot.cli.options import Assignments, Config, Json, Preset, Quiet, Resume, Track
from fedballot.core import numbers
from fedballot.core.callbacks import Callbacks
from fedballot.core.errors import RunError, SettingsError
from fedballot.privacy.words import adjacency_note
from fedballot.settings import layers


def run(
    method: Annotated[str, typer.Argument(help="A name from `fedballot methods`.")],
    preset: Preset = None,
    config: Config = None,
    set_: Assignments = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; default: runs/METHOD-TIME.")] = None,
    resume: Resume = False,
    quiet: Quiet = False,
    track: Track = "",
    json: Json = False,
) -> None:
    """Run one experiment in a simulation on this machine."""
    from fedballot.api.experiment import carry_out, new_folder, resolve, without_effect
    from fedballot.api.trackers import trackers
    from fedballot.core.folders import holds_run

    if resume and (out is None or not holds_run(out)):
        raise SettingsError("--resume needs --out FOLDER with the run to take up")
    values = layers.parse_assignments(set_ or [])
    resolved = resolve(method, values, preset, config, out, resume)
    terminal.warn(*without_effect(resolved, values))
    folder, told = out or new_folder(method), Callbacks(trackers(track), terminal.warn)
    watcher = terminal.watcher(quiet=quiet)
    try:
        result = carry_out(method, resolved, folder, resume=resume, progress=watcher, callbacks=told, preset=preset)
    except KeyboardInterrupt:
        begun = holds_run(folder)
        terminal.stop(f"fedballot run {method} --out {shlex.quote(str(folder))}" if begun else "", folder)
    except RunError:
        if errors := sorted(folder.glob("clients/*/errors.txt")):
            terminal.err.print(f"what went wrong at a client stands in {escape(str(errors[0]))}", soft_wrap=True)
        raise
    if json:
        terminal.print_json(result)
    else:
        print_result(result, folder)


def print_result(result: dict[str, Any], folder: Path) -> None:
    """The table at the end of a run."""
    from fedballot.report.view import answers

    metrics, sent = result["metrics"], result["communication"]
    rows = []
    if metrics.get("server_accuracy") is not None:
        rows.append(("server accuracy", numbers.percent(metrics["server_accuracy"])))
    if (balanced := (metrics.get("server_measures") or {}).get("balanced_accuracy")) is not None:
        rows.append(("balanced accuracy", numbers.percent(balanced)))
    if metrics.get("server_auc") is not None:
        rows.append(("server's mean AUC", f"{metrics['server_auc']:.3f}"))
    if pool := metrics.get("poll"):
        rows.append(("the public pool", pool["verdict"]))
        rows += [("", escape(f"{words}.")) for words in pool["advice"]]
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
    rejected = "".join(f", {count} {reason}" for reason, count in result["clients"]["rejected"].items())
    rows.append(("answers", f"{answers(result)}{rejected}"))
    timing = result["timing"]
    rows.append(
        (
            "time",
            f"{timing['wall_s']:.1f} s: start {timing['startup_s']:.1f}, clients {timing['train_s']:.1f}, "
            f"server {timing['distill_s']:.1f}",
        )
    )
    rows += [("result", str(folder / "result.json")), ("report", str(folder / "report.html"))]
    terminal.print_table(f"{result['method']} on {result['data']['dataset']}", ("", ""), [list(row) for row in rows])
    for warning in result["warnings"]:
        terminal.warn(warning)
    for warning in (words for first in guarantees[:1] for words in first["warnings"]):
        terminal.warn(warning)
    if len(guarantees) > 1:
        terminal.print_guarantees("all guarantees", guarantees)
        if note := adjacency_note(guarantees):
            terminal.out.print(escape(note))

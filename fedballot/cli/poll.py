"""``fedballot poll``: a run of the method poll, under a name of its own, for it is asked before a method is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedballot.cli.options import Assignments, Json
from fedballot.cli.run import run


def poll(
    preset: Annotated[str | None, typer.Option(help="A name from `fedballot presets`.")] = None,
    config: Annotated[Path | None, typer.Option(help="A settings file (TOML) in the form of a preset.")] = None,
    set_: Assignments = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; default: runs/poll-TIME.")] = None,
    resume: Annotated[bool, typer.Option(help="Take up the run that is in --out.")] = False,
    quiet: Annotated[bool, typer.Option(help="No progress.")] = False,
    json: Json = False,
) -> None:
    """Ask clients, under differential privacy, whether the public pool fits their records: `run poll`."""
    run("poll", preset, config, set_, out, resume, quiet, json)

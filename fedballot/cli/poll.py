"""``fedballot poll``: a run of the method poll, under a name of its own, for it is asked before a method is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedballot.cli.options import Assignments, Config, Json, Preset, Quiet, Resume, Track
from fedballot.cli.run import run


def poll(
    preset: Preset = None,
    config: Config = None,
    set_: Assignments = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; default: runs/poll-TIME.")] = None,
    resume: Resume = False,
    quiet: Quiet = False,
    track: Track = "",
    json: Json = False,
) -> None:
    """Ask clients, under differential privacy, whether the public pool fits their records: `run poll`."""
    run("poll", preset, config, set_, out, resume, quiet, track, json)

"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Assignments = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one setting.")]
Preset = Annotated[str | None, typer.Option(help="A name from `fedballot presets`.")]
Config = Annotated[Path | None, typer.Option(help="A settings file (TOML) in the form of a preset.")]
Resume = Annotated[bool, typer.Option(help="Take up the run that is in --out.")]
Quiet = Annotated[bool, typer.Option(help="No progress.")]
Jobs = Annotated[int, typer.Option(min=1, help="Runs at a time; then give each few workers.")]
Track = Annotated[
    str,
    typer.Option(metavar="NAMES", help="Log runs to trackers: csv, tensorboard, mlflow, wandb; commas between."),
]

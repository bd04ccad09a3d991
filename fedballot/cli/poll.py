"""``fedballot poll``: a run of the method poll, under a name of its own, for it is asked before a method is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fedballot.cli.options import Assignments, Config, Json, Preset, Quiet, Resume, Track
from fedballot.cli.run import run
from fedballot.settings import layers

CHOSEN = ("private_size", "public_size", "test_size", "clients", "partition")


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
    values = layers.parse_assignments(set_ or [])
    chosen = {} if resume else _fitting(preset, config, values)
    run(
        "poll",
        preset,
        config,
        [*(set_ or []), *(f"{key}={value}" for key, value in chosen.items())],
        out,
        resume,
        quiet,
        track,
        json,
    )


def _fitting(preset: str | None, config: Path | None, values: Mapping[str, str]) -> dict[str, Any]:
    """Of a user's own data, where the pool's size is not set: sizes and clients as ``fedballot try`` has them."""
    from fedballot.datasets.own import SITES
    from fedballot.datasets.readers.places import looks_like_path
    from fedballot.methods.registry import settings_types
    from fedballot.runs.engine import federation_spec
    from fedballot.settings.plan import first_settings, own_sources

    kinds = settings_types()
    settings = layers.resolve("poll", kinds, preset=preset, config=config, values=values)
    experiment = layers.load_preset(preset) if preset else layers.load_file(config, list(kinds)) if config else None
    tables = [values, *([experiment.common, experiment.by_method.get("poll", {})] if experiment else [])]
    given = {key.replace("-", "_") for table in tables for key in table}
    if "public_size" in given or settings.dataset == SITES or not looks_like_path(settings.dataset):
        return {}
    private, public, more = own_sources(federation_spec(settings))
    tests = {"test_source": settings.test_source, **more}["test_source"] == "private"
    wanted = {**first_settings(private, public, kinds["poll"], torch=False, private_tests=tests), **more}
    return {key: wanted[key] for key in (*CHOSEN, *more) if key not in given}

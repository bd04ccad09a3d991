"""The `fedballot sweep` command."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedballot.cli import terminal
from fedballot.cli.options import Config, Jobs, Json, Preset, Track
from fedballot.core import numbers
from fedballot.core.errors import RunError

if TYPE_CHECKING:
    from fedballot.studies import sweep


def sweep_command(
    method: Annotated[str, typer.Argument(help="A name from `fedballot methods`.")],
    preset: Preset = None,
    config: Config = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=V1,V2,...", help="Settings; several values are run each (lists: a,b;c,d)."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of all runs; default: sweeps/METHOD-PRESET.")] = None,
    jobs: Jobs = 1,
    track: Track = "",
    json: Json = False,
) -> None:
    """Run a grid of settings and print one table; call it again to go on where it stopped."""
    with terminal.watching("reading settings") as progress:
        from fedballot.api.sweeping import run_sweep
        from fedballot.methods.registry import get_method
        from fedballot.studies import sweep as grids

        name = preset or (config.stem if config else "")
        folder = out or Path("sweeps") / "-".join(part for part in (method, name) if part)
        fixed, points = grids.grid(get_method(method).settings, set_ or [], folder)
        swept = run_sweep(grids.Shared(method, preset, config, fixed, track), points, folder, jobs, progress)
    found = swept.rows
    if json:
        terminal.print_json([dataclasses.asdict(row) for row in found])
    else:
        columns = (*found[0].values, "runs", "ε", "ε, paper's", "δ", "what ε speaks of", "accuracy", "bytes per query")
        terminal.print_table(f"{method} {name}".strip(), columns, [_written(row) for row in found])
        terminal.out.print(f"page: {folder / 'sweep.html'}   table: {folder / 'sweep.json'}", soft_wrap=True)
    if failed := swept.failed:
        raise RunError(f"{len(failed)} of {len(points)} runs failed (the first: {failed[0]}); call again to retry them")


def _written(row: sweep.Row) -> list[str]:
    spread = "" if row.spread is None else f" ± {100 * row.spread:.1f}"
    measured = bool(row.seeds)
    return [
        *row.values.values(),
        str(row.seeds),
        numbers.epsilon(row.epsilon) if measured else "–",
        "–" if row.claimed_epsilon is None else numbers.epsilon(row.claimed_epsilon),
        "–" if row.delta is None else numbers.delta(row.delta),
        row.meaning,
        numbers.percent(row.accuracy) + spread,
        "–" if row.bytes_per_query is None else f"{row.bytes_per_query:.2f}",
    ]

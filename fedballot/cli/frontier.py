"""The `fedballot frontier` command."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from fedballot.cli import terminal
from fedballot.cli.options import Config, Jobs, Json, Preset, Track
from fedballot.core.errors import RunError
from fedballot.settings.layers import parse_assignments


def frontier_command(
    methods: Annotated[str, typer.Option(help="Private methods to compare, comma-separated.")],
    epsilon: Annotated[str, typer.Option(help="Budgets, comma-separated.")] = "0.5,1,2,4,8",
    preset: Preset = None,
    config: Config = None,
    ceiling: Annotated[
        str, typer.Option(help="Methods without privacy, for lines across; empty: none.")
    ] = "centralized",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Settings of every method that has them."),
    ] = None,
    trials: Annotated[
        int, typer.Option(min=1, help="Runs in which each method's hyper-parameters are searched, at each epsilon.")
    ] = 4,
    seeds: Annotated[int, typer.Option(min=1, help="Runs that measure what the search chose.")] = 3,
    out: Annotated[Path | None, typer.Option(help="Folder of all runs; default: frontiers/PRESET.")] = None,
    jobs: Jobs = 1,
    track: Track = "",
    json: Json = False,
) -> None:
    """Draw accuracy against epsilon, each method searched with the same number of trials; goes on where it stopped."""
    with terminal.watching("reading settings") as progress:
        from fedballot.api.frontiers import Asked, default_folder, run_frontier
        from fedballot.studies.sweep import values_of

        budgets = tuple(values_of(epsilon, is_tuple=False))
        settings = parse_assignments(set_ or [])
        asked = Asked(_names(methods), _names(ceiling), budgets, settings, trials, seeds, preset, config)
        folder = out or default_folder(preset, config)
        done = run_frontier(asked, folder, jobs, progress, track)
    if json:
        terminal.print_json([dataclasses.asdict(spot) for spot in done.spots])
    else:
        from fedballot.report.frontier_page import frontier_table

        table = frontier_table(done.spots)
        terminal.print_table(f"frontier, {trials} trials each", table.head, table.rows)
        terminal.out.print(f"page: {folder / 'frontier.html'}   table: {folder / 'frontier.json'}", soft_wrap=True)
    if done.failed:
        raise RunError(f"{len(done.failed)} runs failed (the first: {done.failed[0]}); call again to retry them")


def _names(word: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in word.split(",") if name.strip())

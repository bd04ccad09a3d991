"""The `fedballot frontier` command."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedballot.cli import terminal
from fedballot.core import numbers
from fedballot.core.errors import RunError, SettingsError
from fedballot.core.setting import names_of
from fedballot.privacy.words import meaning
from fedballot.settings.layers import parse_assignments, resolve

if TYPE_CHECKING:
    from fedballot.methods.api import Method
    from fedballot.studies import frontier, sweep


def frontier_command(
    methods: Annotated[str, typer.Option(help="Private methods to compare, comma-separated.")],
    epsilon: Annotated[str, typer.Option(help="Budgets, comma-separated.")] = "0.5,1,2,4,8",
    preset: Annotated[str | None, typer.Option(help="A name from `fedballot presets`.")] = None,
    config: Annotated[Path | None, typer.Option(help="A settings file (TOML) in the form of a preset.")] = None,
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
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time; then give each few workers.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Draw accuracy against epsilon, each method searched with the same number of trials; goes on where it stopped."""
    from fedballot.core.files import write_json
    from fedballot.methods.registry import get_method, settings_types
    from fedballot.report.canvas import write_picture
    from fedballot.report.frontier_plot import frontier_figure
    from fedballot.studies import frontier, sweep

    budgets, given = sweep.values_of(epsilon, is_tuple=False), parse_assignments(set_ or [])
    private = [get_method(name) for name in _names(methods)]
    ceilings = [get_method(name) for name in _names(ceiling)]
    fixed = {method.name: _known(method, given) for method in (*private, *ceilings)}
    if unknown := set(given) - {sweep.SEED, *(key for values in fixed.values() for key in values)}:
        raise SettingsError(f"--set {min(unknown)}: none of the methods has such a setting")
    folder = out or Path("frontiers") / (preset or (config.stem if config else "own"))
    every = [int(given.get("seed", "0")) + number for number in range(seeds + 1)]

    for method in private:  # what cannot work is told before the first run
        if "epsilon" not in names_of(method.settings):
            raise SettingsError(f"--methods {method.name}: it has no epsilon; name it under --ceiling")
        for values in frontier.draw_trials(method.search, trials, every[0]):
            for budget in budgets:
                words = {**fixed[method.name], **values, "epsilon": budget}
                resolve(method.name, settings_types(method), preset=preset, config=config, values=words)

    def run(name: str, points: Sequence[sweep.Point]) -> None:
        progress.start(f"runs of {name}", len(points))
        sweep.run_all(points, sweep.Shared(name, preset, config, fixed[name]), jobs=jobs, report=report)

    def report(point: sweep.Point, outcome: str) -> None:
        terminal.err.print(f"{point.folder.parent.name} {point.folder.name}: {outcome}", soft_wrap=True, markup=False)
        progress.advance()

    progress = terminal.watcher(quiet=False)
    spots: list[frontier.Spot] = []
    asked: list[tuple[Method, str | None]] = [(one, None) for one in ceilings]
    asked += [(one, budget) for budget in budgets for one in private]
    try:
        for method, aim in asked:
            drawn = frontier.draw_trials(method.search if aim else {}, trials, every[0])
            spots.append(frontier.explore(method.name, aim, drawn, every, folder / method.name, run))
            write_json(
                folder / "frontier.json", {"trials": trials, "spots": [dataclasses.asdict(spot) for spot in spots]}
            )
    finally:
        progress.stop()
    figure = frontier_figure(spots, {method.name: _unit(folder / method.name) for method in private})
    if figure is not None:
        write_picture(figure, folder / "frontier.png")
    if json:
        terminal.print_json([dataclasses.asdict(spot) for spot in spots])
    else:
        columns = ("method", "ε", "accuracy", "runs", "chosen")
        terminal.print_table(f"frontier, {trials} trials each", columns, [_written(spot) for spot in spots])
        terminal.out.print(f"table: {folder / 'frontier.json'}   plot: {folder / 'frontier.png'}", soft_wrap=True)
    if failed := [reason for spot in spots for reason in spot.measured.failed]:
        raise RunError(f"{len(failed)} runs failed (the first: {failed[0]}); call again to retry them")


def _names(word: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in word.split(",") if name.strip()))


def _known(method: Method, given: Mapping[str, str]) -> dict[str, str]:
    """The settings that the method has, without the seed, which each run gets anew."""
    from fedballot.studies.sweep import SEED

    names = {*names_of(method.settings)} - {SEED}
    return {key: value for key, value in given.items() if key.replace("-", "_") in names}


def _unit(folder: Path) -> str:
    """What the method's first guarantee protects, as a finished run says it."""
    from fedballot.runs.results import load_result
    from fedballot.studies.sweep import is_done

    for path in sorted(folder.glob("*/result.json")):
        if is_done(path.parent):
            return meaning(load_result(path.parent)["guarantees"][0])
    return "not run"


def _written(spot: frontier.Spot) -> list[str]:
    row = spot.measured
    spread = "" if row.spread is None else f" ± {100 * row.spread:.1f}"
    chosen = ", ".join(f"{key}={value}" for key, value in spot.chosen.items()) or "the preset's"
    return [
        spot.method,
        "–" if spot.epsilon is None else f"{spot.epsilon:g}",
        numbers.percent(row.accuracy) + spread,
        str(row.seeds),
        chosen,
    ]

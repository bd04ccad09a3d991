"""Accuracy against epsilon: methods side by side, each searched with the same number of trials."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedballot.api.experiment import resolve
from fedballot.api.objects import as_settings, values_in
from fedballot.api.sweeping import check_point, check_there
from fedballot.api.trackers import tracker_names, trackers
from fedballot.api.watch import listener
from fedballot.core.errors import RunError, SettingsError
from fedballot.core.files import check_ours, write_json
from fedballot.core.folders import check_no_run, held, holds_run
from fedballot.core.progress import Progress
from fedballot.core.setting import names_of
from fedballot.privacy.words import meaning

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedballot.methods.api import Method
    from fedballot.settings.parts import CommonSettings
    from fedballot.studies.frontier import Spot
    from fedballot.studies.sweep import Point


@dataclass(frozen=True)
class Frontier:
    """Methods at several epsilons.

    Attributes
    ----------
    folder : Path
    spots : tuple of Spot
        Each method at each epsilon: what was tried, what was best, how well it does.
    trials : int
        Runs of each search.
    units : mapping
        Of each private method, what its epsilon speaks of.
    command : str
        What does it again.
    """

    folder: Path
    spots: tuple[Spot, ...]
    trials: int
    units: Mapping[str, str]
    command: str = ""

    @property
    def failed(self) -> list[str]:
        """Why runs failed."""
        return [reason for spot in self.spots for reason in spot.measured.failed]

    def to_frame(self) -> pd.DataFrame:
        """A row for each method and epsilon: what was asked and given, accuracy, and what the search chose."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "method": spot.method,
                    "asked_epsilon": spot.epsilon,
                    **{name: getattr(spot.measured, name) for name in ("epsilon", "delta", "meaning")},
                    **{name: getattr(spot.measured, name) for name in ("accuracy", "spread", "seeds")},
                    "chosen": ", ".join(f"{key}={value}" for key, value in spot.chosen.items()),
                }
                for spot in self.spots
            ]
        )

    def figure(self) -> Figure | None:
        """Accuracy against epsilon; None where nothing was measured."""
        from fedballot.report.frontier_plot import frontier_figure

        return frontier_figure(self.spots, dict(self.units))

    def _repr_html_(self) -> str:
        from fedballot.report.shown import shown

        return shown("Accuracy against ε", self.to_frame(), self.figure(), self.failed)

    def write(self) -> None:
        """Write ``frontier.json``, ``frontier.html`` and ``frontier.png`` into the folder."""
        from fedballot.report.frontier_page import frontier_page
        from fedballot.report.study import write_study

        plain = {"trials": self.trials, "spots": [dataclasses.asdict(spot) for spot in self.spots]}
        write_json(self.folder / "frontier.json", plain)
        if (figure := self.figure()) is not None:
            from fedballot.report.canvas import write_picture

            write_picture(figure, self.folder / "frontier.png")
        page = frontier_page(self.spots, self.units, self.trials, self.command)
        write_study(page, self.folder / "frontier.html")


def frontier(
    methods: Sequence[str],
    *,
    epsilon: Sequence[float | str],
    out: str | Path | None = None,
    ceiling: Sequence[str] = ("centralized",),
    trials: int = 4,
    seeds: int = 3,
    preset: str | None = None,
    config: str | Path | None = None,
    jobs: int = 1,
    progress: bool | Progress = True,
    track: str | Sequence[str] = "",
    **settings: Any,
) -> Frontier:
    """Accuracy against epsilon, each method searched with the same number of trials; call it again to go on.

    Parameters
    ----------
    methods : sequence of str
        Private ones.
    epsilon : sequence of float
        What is asked of each; `inf` is the method without noise, drawn as a line across.
    out : path, optional
        Folder of all runs; by default ``frontiers/PRESET``, without a preset ``frontiers/own``.
    ceiling : sequence of str
        Methods without privacy, for lines across.
    trials, seeds : int
        Runs that search hyper-parameters at each epsilon, and runs that measure what the search chose.
    **settings
        As for `run`, of every method that has them.

    Raises
    ------
    SettingsError
        If a setting cannot work: before the first run.
    RunError
        If runs failed; what was measured is written.
    """
    given = {name: str(_plain(value)) for name, value in as_settings(settings).items()}
    aims = [f"{one:g}" if isinstance(one, float) else str(one) for one in values_in("epsilon", epsilon)]
    names, ceilings = values_in("methods", methods), values_in("ceiling", ceiling) if ceiling else ()
    place = None if config is None else Path(config)
    asked = Asked(names, ceilings, tuple(aims), given, trials, seeds, preset, place)
    folder = default_folder(preset, place) if out is None else Path(out)
    done = run_frontier(asked, folder, jobs, listener(progress), tracker_names(track))
    if done.failed:
        raise RunError(f"{len(done.failed)} runs failed (the first: {done.failed[0]}); call again to retry them")
    return done


@dataclass(frozen=True)
class Asked:
    """What a frontier is made of; settings and epsilons as texts."""

    methods: tuple[str, ...]
    ceilings: tuple[str, ...]
    epsilons: tuple[str, ...]
    settings: Mapping[str, str]
    trials: int
    seeds: int
    preset: str | None
    config: Path | None

    def command(self, folder: Path) -> str:
        """What asks for the same on the command line."""
        from fedballot.report.again import study_command

        options = {
            "methods": ",".join(self.methods),
            "epsilon": ",".join(self.epsilons),
            "ceiling": ",".join(self.ceilings),
            "trials": str(self.trials),
            "seeds": str(self.seeds),
        }
        return study_command(["frontier"], options, self.preset, self.config, self.settings, folder)


def default_folder(preset: str | None, config: Path | None) -> Path:
    """Where a frontier goes that was given no folder."""
    return Path("frontiers") / (preset or (config.stem if config else "own"))


def run_frontier(asked: Asked, folder: Path, jobs: int, progress: Progress, track: str = "") -> Frontier:
    """Check all that is asked, run what is not done, write tables and pictures."""
    progress.start("checking what is asked", 1)
    from fedballot.methods.registry import get_method
    from fedballot.studies import frontier as studies
    from fedballot.studies import sweep
    from fedballot.studies.watching import Watch

    for option, given in {"methods": asked.methods, "epsilon": asked.epsilons}.items():
        if not given or len({*given}) < len(given):
            raise SettingsError(f"--{option} {','.join(given)!r}: names a value twice, or none")
    if "epsilon" in asked.settings:
        raise SettingsError(f"--set epsilon={asked.settings['epsilon']}: a frontier's budgets are those of --epsilon")
    private = [get_method(name) for name in asked.methods]
    ceilings = [get_method(name) for name in dict.fromkeys(asked.ceilings)]
    fixed = {method.name: _of(method, asked.settings) for method in (*private, *ceilings)}
    first = int(asked.settings.get(sweep.SEED, "0"))
    every = range(first, first + asked.seeds + 1)
    try:
        if unknown := {*asked.settings} - {sweep.SEED, *(key for values in fixed.values() for key in values)}:
            raise SettingsError(f"--set {min(unknown)}: none of the methods has such a setting")
        trackers(track)
        check_no_run(folder)
        check_ours(folder / "frontier.json", '"spots"')
        trials: dict[str, list[dict[str, str]]] = {}
        for method in private:  # what cannot work is told before the first run
            if "epsilon" not in names_of(method.settings):
                raise SettingsError(f"--methods {method.name}: it has no epsilon; name it under --ceiling")
            trials[method.name] = studies.draw_trials(searched(method, fixed[method.name]), asked.trials, first)
            for values in trials[method.name]:
                for word in asked.epsilons:
                    words = {**fixed[method.name], **values, "epsilon": word}
                    resolve(method.name, words, asked.preset, asked.config)
        aims: list[tuple[Method, str | None, list[dict[str, str]]]] = [(one, None, [{}]) for one in ceilings]
        aims += [(one, aim, trials[one.name]) for aim in asked.epsilons for one in private]
        runs: dict[Path, CommonSettings] = {}
        for method, aim, own in aims:
            shared = sweep.Shared(method.name, asked.preset, asked.config, fixed[method.name])
            wanted = {"epsilon": aim} if aim else {}
            begins = every[0] if len(own) > 1 else every[1]
            for values, seed in itertools.product(own, every):
                one = studies.point(folder / method.name, {**wanted, **values, sweep.SEED: str(seed)})
                if holds_run(one.folder):
                    check_point(shared, one)
                elif seed == begins:
                    runs[one.folder] = check_point(shared, one)
        check_there(runs)
        total = sum(asked.seeds + (len(own) if len(own) > 1 else 0) for _, _, own in aims)
        watch = Watch(progress, total, jobs)

        def run(name: str, points: Sequence[Point]) -> dict[Path, str]:
            shared = sweep.Shared(name, asked.preset, asked.config, fixed[name], track)
            return sweep.run_all(points, shared, jobs=jobs, report=watch.end, begin=watch.begin)

        spots: list[Spot] = []
        with held(folder, "frontier"):
            for method, aim, own in aims:
                spots.append(studies.explore(method.name, aim, own, every, folder / method.name, run))
                plain = [dataclasses.asdict(spot) for spot in spots]
                write_json(folder / "frontier.json", {"trials": asked.trials, "spots": plain})
            units = {method.name: _unit(folder / method.name) for method in private}
            done = Frontier(folder, tuple(spots), asked.trials, units, asked.command(folder))
            done.write()
    finally:
        progress.stop()
    return done


def _of(method: Method, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that the method has, without the seed, which each run gets anew."""
    from fedballot.studies.sweep import SEED

    names = {*names_of(method.settings)} - {SEED}
    return {key: value for key, value in settings.items() if key.replace("-", "_") in names}


def searched(method: Method, fixed: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """What is searched: the method's own values, but for settings that were given."""
    given = {key.replace("-", "_") for key in fixed}
    return {name: values for name, values in method.search.items() if name not in given}


def _unit(folder: Path) -> str:
    """What the method's first guarantee protects, as a finished run says it."""
    from fedballot.runs.results import load_result
    from fedballot.studies.sweep import is_done

    for path in sorted(folder.glob("*/result.json")):
        if is_done(path.parent):
            return meaning(load_result(path.parent)["guarantees"][0])
    return "not run"


def _plain(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value

"""Accuracy against epsilon, method by method, each with the same number of trials to find its hyper-parameters.

The paper's Figure 2: "Voting-based approaches for differentially private federated learning". Trials run with one seed
and the best of them is measured with others, so that the luck of the search is not in the figure.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedballot.core.errors import SettingsError
from fedballot.core.seeds import Stream, generator
from fedballot.studies import sweep
from fedballot.studies.sweep import Point, Row

Values = Mapping[str, str]
Run = Callable[[str, Sequence[Point]], Mapping[Path, str]]  # runs points of a method that are not done; who failed, why


@dataclass(frozen=True)
class Spot:
    """One method at one epsilon (None: no privacy, also where `inf` was asked): what was tried, and the best of it.

    ``tried`` holds the accuracy of each trial, None where the run failed; it is empty where there was only one choice.
    """

    method: str
    epsilon: float | None
    chosen: Values
    tried: tuple[tuple[Values, float | None], ...]
    measured: Row


def draw_trials(space: Mapping[str, Sequence[str]], count: int, seed: int) -> list[dict[str, str]]:
    """The preset as it is, then random different points of the grid of values, ``count`` in all where it holds so many.

    The same seed draws the same points, whatever the epsilon.
    """
    points = [dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())] if space else []
    order = generator(seed, Stream.SEARCH).permutation(len(points))
    return [{}, *(points[index] for index in order[: count - 1])]


def best_of(tried: Sequence[tuple[Values, float | None]], failures: Sequence[str] = ()) -> Values:
    """The values of the most accurate trial, of equals the first; ``failures`` say why trials failed.

    Raises
    ------
    SettingsError
        If every trial failed.
    """
    known = [(accuracy, values) for values, accuracy in tried if accuracy is not None]
    if not known:
        first = failures[0] if failures else "the runs' folders say why"
        raise SettingsError(f"every trial of the search failed: {first}")
    return max(known, key=lambda pair: pair[0])[1]


def point(folder: Path, values: Values) -> Point:
    """The run of these values under ``folder``."""
    return Point(values, folder / sweep.folder_name(values))


def explore(
    method: str,
    epsilon: str | None,
    trials: Sequence[Values],
    seeds: Sequence[int],
    folder: Path,
    run: Run,
) -> Spot:
    """Try, choose, measure; runs that are done are not run again.

    Parameters
    ----------
    seeds
        The first is the search's, the others measure what it chose.
    """
    aim = {} if epsilon is None else {"epsilon": epsilon}
    tried: list[tuple[Values, float | None]] = []
    chosen = trials[0]
    if len(trials) > 1:
        points = [point(folder, {**aim, **values, sweep.SEED: str(seeds[0])}) for values in trials]
        failures = run(method, points)
        tried = [(values, sweep.rows([one])[0].accuracy) for values, one in zip(trials, points, strict=True)]
        chosen = best_of(tried, [*failures.values()])
    points = [point(folder, {**aim, **chosen, sweep.SEED: str(seed)}) for seed in seeds[1:]]
    failures = run(method, points)
    asked = math.inf if epsilon is None else float(epsilon)
    return Spot(method, asked if math.isfinite(asked) else None, chosen, tuple(tried), sweep.rows(points, failures)[0])

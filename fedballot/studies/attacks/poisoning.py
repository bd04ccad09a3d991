"""Poisoning: how far some malicious clients move what is released and what the server learns."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from scipy import stats

from fedballot.core.errors import SettingsError
from fedballot.core.progress import Progress
from fedballot.methods.api import Method
from fedballot.settings.parts import CommonSettings
from fedballot.studies.attacks.crafting import Strength, checks, strengths
from fedballot.studies.attacks.infiltrated import Federation, Outcome
from fedballot.studies.attacks.measure import CONFIDENCE
from fedballot.studies.attacks.membership import check_method
from fedballot.studies.attacks.playing import FEWEST, Kept, claimed, play
from fedballot.studies.attacks.poison import Aim

AIMS: tuple[Aim, ...] = get_args(Aim)
COUNTS = 6  # numbers of malicious clients, 0 among them
FEWEST_RUNS = 2
KEPT = ("changed", "accuracy", "mistaken", "refused")


@dataclass(frozen=True)
class Infiltration:
    """What is asked; what is kept in a folder belongs to one of these.

    Parameters
    ----------
    poisoned : float
        Largest share of clients that are malicious.
    """

    poisoned: float = 0.3
    adversary: str = "active-client"


@dataclass(frozen=True)
class Mean:
    """A mean over runs, with Student's interval at 95 %."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Cell:
    """What came of one number of malicious clients with one aim and one kind of message.

    Parameters
    ----------
    malicious : int
    aim : {"untargeted", "targeted"}
    strength : {"flipped", "permitted", "passing"}
    changed : Mean
        Share of the released labels that are others than without them; of 0 malicious clients what noise changes.
    accuracy : Mean
        Of the server's model, or of the honest clients' where it has none.
    mistaken : Mean
        Share of the test records of one class that are labelled as another, drawn in each run.
    refused : float
        Share of the malicious clients' messages that the server refused.
    """

    malicious: int
    aim: Aim
    strength: Strength
    changed: Mean
    accuracy: Mean
    mistaken: Mean
    refused: float


@dataclass(frozen=True)
class Poisoned:
    """What malicious clients reached.

    Parameters
    ----------
    method : str
    asked : Infiltration
    clients, runs : int
    masked : bool
        Whether the server sees only a sum.
    checks : tuple of str
        What bounds a malicious client, in words.
    cells : tuple of Cell
        Each aim and kind of message with 0 malicious clients, and more.
    run_s : float
        Seconds of a run, which plays all cells.
    """

    method: str
    asked: Infiltration
    clients: int
    runs: int
    masked: bool
    checks: tuple[str, ...]
    cells: tuple[Cell, ...]
    run_s: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    def series(self, aim: Aim, strength: Strength) -> tuple[Cell, ...]:
        """The cells of an aim and a kind of message, by the number of malicious clients."""
        return tuple(one for one in self.cells if one.aim == aim and one.strength == strength)

    @property
    def strengths(self) -> tuple[Strength, ...]:
        """The kinds of message that were played."""
        return tuple(dict.fromkeys(cell.strength for cell in self.cells))


def counts(clients: int, poisoned: float) -> tuple[int, ...]:
    """Numbers of malicious clients: from 0 to a share of all, `COUNTS` at most.

    Raises
    ------
    SettingsError
        If the share lets in none, or leaves none that is honest.

    Examples
    --------
    >>> counts(10, 0.3), counts(100, 0.5)
    ((0, 1, 2, 3), (0, 10, 20, 30, 40, 50))
    """
    most = math.floor(poisoned * clients + 1e-9)
    if not 1 <= most < clients:
        raise SettingsError(
            f"poisoned={poisoned:g}: of {clients} clients that makes {most} malicious; give a share for at least 1, "
            "and fewer than all"
        )
    return tuple(int(count) for count in np.unique(np.linspace(0, most, min(COUNTS, most + 1)).round()))


def attack_poison(
    method: Method,
    settings: CommonSettings,
    asked: Infiltration,
    folder: Path,
    progress: Progress,
    *,
    runs: int,
    quick: bool,
) -> Poisoned:
    """Play federations with more and more malicious clients, each of another seed, and say how far they got.

    See `attack_members`, but for ``runs``: at least 2.
    """
    if runs < FEWEST_RUNS:
        raise SettingsError(f"runs={runs}: an interval takes {FEWEST_RUNS} or more")
    check_method(method, settings, FEWEST)
    malicious = counts(settings.clients, asked.poisoned)
    first = Federation(method, settings, folder / "work")
    strategy = first.strategy()
    able, known = strengths(strategy, masked=first.masked), checks(strategy, masked=first.masked)
    one = partial(_run, method, settings, folder / "work", malicious, able)
    with claimed(folder, method, settings, asked, first.data):
        kept, run_s = play(one, folder, progress, runs, quick=quick, fewest=FEWEST_RUNS, multiple=1)
    cells = []
    for place, (count, aim, strength) in enumerate(_grid(malicious, able)):
        moved, accuracy, mistaken = (mean([float(run[name][place]) for run in kept]) for name in KEPT[:3])
        refused = float(np.mean([run["refused"][place] for run in kept]))
        cells.append(Cell(count, aim, strength, moved, accuracy, mistaken, refused))
    return Poisoned(method.name, asked, settings.clients, len(kept), first.masked, known, tuple(cells), run_s)


def _grid(malicious: Sequence[int], able: Sequence[Strength]) -> list[tuple[int, Aim, Strength]]:
    return [(count, aim, strength) for aim in AIMS for strength in able for count in malicious]


def _run(
    method: Method,
    settings: CommonSettings,
    work: Path,
    malicious: Sequence[int],
    able: Sequence[Strength],
    number: int,
) -> Kept:
    """Every cell in the federation of one seed."""
    there = Federation(method, replace(settings, seed=settings.seed + number), work / str(number))
    honest, again = there.play(0), there.play(0)
    found: list[tuple[float, ...]] = []
    for count, aim, strength in _grid(malicious, able):
        came = there.play(count, aim, strength) if count else again
        found.append((changed(honest, came), came.accuracy, came.mistaken(there.pair), came.refused))
    shutil.rmtree(work / str(number), ignore_errors=True)
    values = np.array(found, dtype=np.float64)
    kept: dict[str, npt.NDArray[Any]] = {name: values[:, place] for place, name in enumerate(KEPT)}
    return {**kept, "pair": np.array(there.pair)}


def changed(honest: Outcome, came: Outcome) -> float:
    """Share of the released labels that differ."""
    if came.labels.shape != honest.labels.shape:
        return 1.0
    return float(np.mean(came.labels != honest.labels))


def mean(values: Sequence[float]) -> Mean:
    """Mean of runs with Student's interval; runs are federations of their own.

    Examples
    --------
    >>> mean([0.5, 0.5])
    Mean(value=0.5, low=0.5, high=0.5)
    """
    middle, spread = float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * spread
    return Mean(middle, max(0.0, middle - reach), min(1.0, middle + reach))


def poisoned_of(plain: Mapping[str, Any]) -> Poisoned:
    """What was reached, from its plain JSON values."""
    cells = tuple(
        Cell(**{**cell, **{name: Mean(**cell[name]) for name in KEPT[:3]}})  # each a mean with its interval
        for cell in plain["cells"]
    )
    return Poisoned(
        **{**plain, "asked": Infiltration(**plain["asked"]), "checks": tuple(plain["checks"]), "cells": cells}
    )

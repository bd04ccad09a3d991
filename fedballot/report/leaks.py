"""What attacks found, beside the runs of the same method and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedballot.core.errors import DataError, SettingsError
from fedballot.core.files import read_json
from fedballot.core.numbers import percent
from fedballot.report.groups import SEED
from fedballot.studies.attacks.membership import Leak, leak_of

AT = 0.01  # false alarms at which what is found is told
FREE = {SEED, "evaluate_clients"}  # settings in which a run and an attack on it may differ


@dataclass(frozen=True)
class Shown:
    """What membership inference found of a method at some settings.

    Parameters
    ----------
    found, low, high : float
        Share of the members found at 1 % false alarms, and its interval at 95 %.
    epsilon : float
        The least ε that the attacks prove, at 95 % confidence.
    adversary, seen : str
        Of the attack.
    path : str
        Its folder.
    """

    found: float
    low: float
    high: float
    epsilon: float
    adversary: str
    seen: str
    path: str

    @property
    def words(self) -> str:
        """What was found, with its interval."""
        return f"{percent(self.found)} ({100 * self.low:.1f}–{100 * self.high:.1f})"


@dataclass(frozen=True)
class Attacked:
    """A method at some settings, and what an attack found of it."""

    method: str
    settings: Mapping[str, Any]
    shown: Shown


def attacks_at(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Folders of attacks: those that were named, and those that lie in a folder that was named.

    Raises
    ------
    DataError
        If a folder neither is one nor holds any.
    """
    named, held = [], []
    for path in paths:
        if (path / "attack.json").exists():
            named.append(path)
        elif inside := sorted(one.parent for one in path.glob("*/attack.json")):
            held += inside
        else:
            raise DataError(
                f"{path}: holds no attack.json; name a folder that 'fedballot attack' wrote, or one of such"
            )
    return named, held


def attacked(path: Path) -> Attacked:
    """What an attack found, and of what.

    Raises
    ------
    SettingsError
        If it is no membership inference about a client of the experiment's own size.
    """
    leaks = [leak_of(one) for one in read_json(path / "attack.json").get("leaks", ())]
    fit = [leak for leak in leaks if leak.asked.records == 0]
    if not leaks:
        raise SettingsError(f"{path}: is no membership inference, so it has nothing to set beside a run")
    if not fit:
        raise SettingsError(f"{path}: attacks a client of another size than the run's (--records): leave that out")
    place = path / ("played" if len(leaks) == 1 else "records-0")
    asked = read_json(place / "asked.json")
    return Attacked(asked["method"], asked["settings"], _shown(fit[0], path))


def _shown(leak: Leak, path: Path) -> Shown:
    rate = next(rate for rate in leak.best.rates if rate.at == AT)
    return Shown(rate.value, rate.low, rate.high, leak.epsilon, leak.asked.adversary, leak.seen, str(path))


def beside(
    runs: Sequence[tuple[str, Mapping[str, Any]]], paths: Sequence[Path]
) -> tuple[list[Shown | None], list[str]]:
    """For each run, given by method and settings, the attack that found most; and what fits none, in words.

    A run and an attack belong together where method and settings are the same, but for the seed.

    Raises
    ------
    SettingsError
        If an attack that was named fits no run.
    """
    out: list[Shown | None] = [None] * len(runs)
    named, held = attacks_at(paths)
    left = []
    for path in (*named, *held):
        try:
            one = attacked(path)
            places = [place for place, (method, own) in enumerate(runs) if not _differing(one, method, own)]
            if not places:
                raise SettingsError(f"{path}: {_nearest(one, runs)}")
        except SettingsError as error:
            if path in named:
                raise
            left.append(str(error))
            continue
        for place in places:
            known = out[place]
            if known is None or known.found < one.shown.found:
                out[place] = one.shown
    return out, left


def _differing(one: Attacked, method: str, settings: Mapping[str, Any]) -> list[str]:
    if one.method != method:
        return ["method"]
    return [name for name, value in one.settings.items() if name not in FREE and settings.get(name) != value]


def _nearest(one: Attacked, runs: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Why an attack fits no run, by the run that comes nearest."""
    same = [settings for method, settings in runs if method == one.method]
    if not same:
        return f"attacks {one.method}, and no run is of that method"
    settings = min(same, key=lambda own: len(_differing(one, one.method, own)))
    names = _differing(one, one.method, settings)
    words = ", ".join(f"{name} ({one.settings[name]!r} there, {settings.get(name)!r} in the run)" for name in names)
    return f"attacks {one.method} at other settings than any run has: {words}"

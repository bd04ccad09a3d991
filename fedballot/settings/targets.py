"""Noise that follows from a setting, and what that setting may be where there is none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from fedballot.core.errors import SettingsError

M = TypeVar("M")

PROBES = (1.0, 10.0, 0.1, 100.0, 0.01, 1e3, 1e-3)  # one of which works wherever anything sensible does
NEAR = 1.02  # how close the bound that an error names is to the true one, as a ratio


def solved(name: str, value: float, solve: Callable[[float], M]) -> M:
    """The mechanism that ``solve`` makes of a setting's value.

    Parameters
    ----------
    name
        Of the setting.
    solve
        Raises SettingsError for values that are too small, too large, or both; what works lies between.

    Raises
    ------
    SettingsError
        Naming the setting, its value, and the least or the most that it may be; as ``solve`` says it where nothing
        works, since another setting is to blame then.
    """
    try:
        return solve(value)
    except SettingsError as error:
        bound = _bound(value, solve)
        if bound is None:
            raise
        which, mend = ("most", "lower") if value > bound else ("least", "raise")
        raise SettingsError(
            f"{name}={value:g} asks for noise that cannot be drawn or accounted for; with the other settings as they "
            f"are it must be at {which} {bound:g}: {mend} {name}"
        ) from error


def _bound(value: float, solve: Callable[[float], object]) -> float | None:
    """Of the values that work the nearest one, of two digits; None: none does."""

    def works(probe: float) -> bool:
        try:
            solve(probe)
        except SettingsError:
            return False
        return True

    good = next(filter(works, PROBES), None)
    if good is None:
        return None
    bad = value
    while max(good, bad) > NEAR * min(good, bad):
        middle = math.exp((math.log(good) + math.log(bad)) / 2)
        good, bad = (middle, bad) if works(middle) else (good, middle)
    digit = 10.0 ** (math.floor(math.log10(good)) - 1)
    inward = math.floor if value > good else math.ceil
    return float(f"{inward(good / digit * (1 - 1e-12 if value < good else 1 + 1e-12)) * digit:.1e}")

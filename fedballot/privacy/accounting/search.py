"""Searches: the noise that reaches a target, the number of releases that a budget takes."""

import math
from collections.abc import Callable

from fedballot.core.errors import SettingsError


def smallest(fits: Callable[[float], bool], low: float, high: float, rel: float = 1e-9) -> float:
    """Return the smallest x in [low, high] with fits(x), for a predicate that stays true once true.

    Parameters
    ----------
    fits : callable
    low, high : float
        0 < low < high.
    rel : float
        How far above the smallest x may lie, relative.

    Raises
    ------
    SettingsError
        If even `high` does not fit.

    Examples
    --------
    The noise for a target:

    >>> from fedballot.privacy.accounting import GaussianCost, epsilon
    >>> f"{smallest(lambda sigma: epsilon([GaussianCost(1 / sigma)], 1e-5) <= 1, 1e-3, 1e6):.4g}"
    '3.731'
    """
    _check_search(low, high, fits)
    if fits(low):
        return low
    while high > low * (1 + rel):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def smallest_from(fits: Callable[[float], bool], low: float, rel: float = 1e-9) -> float:
    """Return the smallest x >= low with fits(x), for a predicate that stays true once true, where low is nearly right.

    Examples
    --------
    >>> f"{smallest_from(lambda x: x * x >= 2, 1.41):.6f}"
    '1.414214'
    """
    if fits(low):
        return low
    step = 1e-7
    while not fits(low * (1 + step)):
        step *= 4
    high, low = low * (1 + step), low * (1 + step / 4) if step > 1e-7 else low
    while high > low * (1 + rel):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def crossing(
    value: Callable[[float], float],
    target: float,
    low: float,
    high: float,
    rel: float = 1e-3,
    rough: Callable[[float], float] | None = None,
) -> float:
    """Return x in [low, high] with target * (1 - rel) <= value(x) <= target, for a `value` that falls with x.

    For costly values: few are asked for, as epsilon is nearly a power of the noise. Where `value` jumps over the
    target, or is below it everywhere, x is within `rel` of the smallest that fits, and fits.

    Parameters
    ----------
    value : callable
    target : float
    low, high : float
        0 < low < high.
    rel : float
    rough : callable, optional
        A cheap value that is nearly right. It says where to look; only what `value` itself says is believed.

    Raises
    ------
    SettingsError
        If even `high` does not fit.
    """
    if rough is not None:
        x = _guided(value, rough, target, low, high, rel)
        if x is not None:
            return x
    at_high = value(high)
    _check_search(low, high, lambda _: at_high <= target)
    before, x, step = (math.log(high), _log(at_high)), math.sqrt(low * high), 0
    while high > low * (1 + rel):
        here, step = value(x), step + 1
        if target * (1 - rel) <= here <= target:
            return x
        low, high = (low, x) if here <= target else (x, high)
        now = (math.log(x), _log(here))
        slope = (now[1] - before[1]) / (now[0] - before[0])
        wanted = now[0] + (_log(target * (1 - rel / 2)) - now[1]) / slope if slope < 0 else math.inf
        # a jump would hold the power law back for ever, hence the middle at every fourth step
        usable = step % 4 and math.log(low) < wanted < math.log(high)
        before, x = now, math.exp(wanted) if usable else math.sqrt(low * high)
    return high


def _guided(
    value: Callable[[float], float],
    rough: Callable[[float], float],
    target: float,
    low: float,
    high: float,
    rel: float,
) -> float | None:
    """What `crossing` returns, found by the rough value; None where that leads nowhere."""
    aim = target * (1 - rel / 16)
    for _ in range(2):
        if not 0 < low < high or rough(high) > aim:
            return None
        x = crossing(rough, aim, low, high, rel / 4)
        here = value(x)
        if here < target * (1 - rel) and x > low * (1 + rel):
            nearer = value(x / (1 + rel))
            if nearer > target:  # it jumps
                return x
            x, here = x / (1 + rel), nearer
        if here <= target and (here >= target * (1 - rel) or x <= low * (1 + rel)):
            return x
        aim *= target * (1 - rel / 4) / here
    return None


def largest_count(fits: Callable[[int], bool], limit: int = 10**9) -> int:
    """Return the largest n <= limit with fits(n), for a predicate that stays false once false; 0 if even 1 fails.

    Examples
    --------
    The number of queries for a given noise:

    >>> from fedballot.privacy.accounting import GaussianCost, epsilon
    >>> largest_count(lambda n: epsilon([GaussianCost(1 / 25, n)], 1e-5) <= 4)
    534
    """
    low, high = 0, 1
    while high <= limit and fits(high):
        low, high = high, 2 * high
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _check_search(low: float, high: float, fits: Callable[[float], bool]) -> None:
    if not 0 < low < high:
        raise SettingsError(f"search from {low} to {high}: needs 0 < low < high.")
    if not fits(high):
        raise SettingsError(f"no value up to {high:g} reaches the target: raise epsilon or delta, or release less.")


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -1e3

"""Exact discrete Gaussian and discrete Laplace noise, vectorised, and the grid that real values are rounded to.

Source: Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (2020), Algorithms 2 and 3. Only
integer arithmetic decides an outcome, so no probability is rounded; the running time is not constant.
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError, SettingsError
from fedballot.privacy.noise.randomness import (
    SMALL,
    AnyInts,
    Ints,
    NoiseSource,
    bernoulli_exp,
    geometric,
    uniform_below,
)

_GRAIN = 20_000_000  # variance p/q: while q (sigma + 2)^2 stays below this, 64-bit integers suffice
_LARGEST_SIGMA = float(1 << 30)


@lru_cache(maxsize=1024)  # asked for at each release, and solved for before
def representable_variance(sigma: float) -> Fraction:
    """Return the smallest variance >= sigma^2 with a small power of two as denominator, fit for `discrete_gaussian`.

    It exceeds sigma^2 by at most 1e-6, or 3e-7 of sigma^2 where that is more.

    Raises
    ------
    SettingsError
        If sigma is not in (0, 2^30].
    """
    if not (math.isfinite(sigma) and 0 < sigma <= _LARGEST_SIGMA):
        raise SettingsError(f"sigma = {sigma}: discrete noise needs 0 < sigma <= 2^30 grid steps; use a coarser grid.")
    exact = Fraction(sigma) ** 2
    room = _GRAIN // (math.isqrt(math.ceil(exact)) + 2) ** 2
    denominator = 1 << max(room.bit_length() - 1, 0)
    return Fraction(math.ceil(exact * denominator), denominator)


def discrete_gaussian(variance: Fraction, size: int, source: NoiseSource) -> Ints:
    """Draw integers x with probability proportional to exp(-x^2 / (2 variance)).

    Parameters
    ----------
    variance : Fraction
        The parameter, which is the variance but for less than 1e-6 when it is above 1; from `representable_variance`.
    size : int
    source : NoiseSource

    Returns
    -------
    ndarray of int64, shape (size,)

    Raises
    ------
    SettingsError
        If the variance is not in (0, 2^60].
    """
    p, q = variance.numerator, variance.denominator
    if not 0 < variance <= _LARGEST_SIGMA**2:
        raise SettingsError(f"variance = {variance}: must lie in (0, 2^60].")
    t = math.isqrt(p // q) + 1
    denominator = 2 * p * q * t * t
    draws = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        y = discrete_laplace(t, int((size - filled) * 1.4) + 16, source)
        y = y[np.abs(y) <= 45 * t]  # a draw out there would be accepted with probability below exp(-900)
        distance: AnyInts = np.abs(y)
        if denominator >= SMALL:  # beyond 64 bits: Python's integers
            distance = distance.astype(object)
        distance = distance * (q * t) - p
        y = y[bernoulli_exp(distance * distance, np.full(len(y), denominator), source)][: size - filled]
        draws[filled : filled + len(y)] = y
        filled += len(y)
    return draws


def largest_draw(variance: Fraction) -> int:
    """Return a magnitude that a draw of `discrete_gaussian` exceeds with probability at most 2 exp(-72), below 1e-30.

    Twelve standard deviations: E exp(t X) <= exp(t^2 variance / 2), as the sum of exp(-(x - c)^2 / (2 variance)) over
    the integers x is largest for an integer c.
    """
    return math.ceil(12 * math.sqrt(variance))


def discrete_laplace(scale: int, size: int, source: NoiseSource) -> Ints:
    """Draw integers x with probability proportional to exp(-|x| / scale), for an integer scale from 1 to 2^31.

    Raises
    ------
    SettingsError
        If the scale is out of range.
    """
    if not 1 <= scale <= 1 << 31:
        raise SettingsError(f"scale = {scale}: exact sampling needs an integer from 1 to 2^31.")
    draws = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        scales = np.full(int((size - filled) * 1.75) + 16, scale, dtype=np.int64)
        low = uniform_below(scales, source)
        low = low[bernoulli_exp(low, scales, source)]
        x = low + scale * geometric(len(low), source)
        negative = source.words(len(x)) % np.uint64(2) == 1
        x = np.where(negative, -x, x)[~(negative & (x == 0))][: size - filled]  # zero must not count twice
        draws[filled : filled + len(x)] = x
        filled += len(x)
    return draws


def round_to_grid(values: NDArray[np.floating], grid: float) -> Ints:
    """Return the nearest integer multiples of `grid`, as int64 counts of grid steps, same shape as `values`.

    Raises
    ------
    DataError
        If a value is not finite or more than 2^52 steps from zero.
    """
    if not (math.isfinite(grid) and grid > 0):
        raise SettingsError(f"grid = {grid}: must be a finite number > 0.")
    steps = np.asarray(values, dtype=np.float64) / grid
    if not np.all(np.abs(steps) <= 2.0**52):
        raise DataError("values: not finite, or too large for the grid; clip them to their public bound first.")
    return np.rint(steps).astype(np.int64)


def grid_sensitivity(sensitivity: float, grid: float, coordinates: int) -> float:
    """Return an L2 sensitivity, in grid steps, after rounding `coordinates` values: Delta/grid + sqrt(coordinates).

    Each rounded value moves by at most half a step in each of the two worlds.
    """
    return sensitivity / grid * (1 + 1e-12) + math.sqrt(coordinates)

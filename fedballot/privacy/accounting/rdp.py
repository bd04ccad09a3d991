"""Accounting by Renyi divergences at many orders, the best of them."""

import math
from collections.abc import Sequence

import numpy as np

from fedballot.privacy.accounting.cost import Cost, Floats
from fedballot.privacy.accounting.merge import concentrated, require

_ORDERS = 1 + np.logspace(-7, 6, 2601)
_FEW_ORDERS = np.array([*(1 + x / 10 for x in range(1, 100)), *range(12, 64), 128, 256, 512, 1024])


def epsilon(costs: Sequence[Cost], delta: float) -> float:
    """Return epsilon of merged costs together.

    Raises
    ------
    SettingsError
        If one of them has no Renyi divergences, or they speak of different worlds.
    """
    require(costs, "rdp")
    counted, off = concentrated(costs)
    grid = orders(counted)
    return convert(grid, divergences(counted, grid), delta * math.exp(-off)) + 2 * off


def orders(costs: Sequence[Cost]) -> Floats:
    """Return the orders that are tried: fewer where a cost takes long."""
    return _FEW_ORDERS if any(cost.costly for cost in costs) else _ORDERS


def divergences(costs: Sequence[Cost], grid: Floats) -> Floats:
    """Return the Renyi divergences of all costs together, at each order of the grid."""
    total = np.zeros_like(grid)
    for cost in costs:
        total += cost.rdp(grid)
    return total


def convert(grid: Floats, rdp: Floats, delta: float) -> float:
    """Return the best epsilon of all orders, by the improved conversion (see `gaussian.epsilon_rdp`).

    Where even the total variation, at most sqrt(1 - exp(-divergence)), is below delta, epsilon is 0.
    """
    if -math.expm1(-float(rdp.min())) < delta * delta:
        return 0.0
    gap = grid - 1
    bounds = rdp + np.log(gap / grid) - (math.log(delta) + np.log(grid)) / gap
    return max(0.0, float(bounds.min()))

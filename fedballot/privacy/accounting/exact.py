"""Exact accounting: Gaussian noise, continuous or integer, composes to one Gaussian."""

import math
from collections.abc import Sequence

from fedballot.privacy.accounting import gaussian
from fedballot.privacy.accounting.cost import Cost, NearGaussian
from fedballot.privacy.accounting.merge import dominated, require


def epsilon(costs: Sequence[Cost], delta: float) -> float:
    """Return epsilon of merged costs together.

    Raises
    ------
    SettingsError
        If one of them is not Gaussian noise.
    """
    require(costs, "exact")
    if len(costs) == 1 and isinstance(costs[0], NearGaussian):
        return costs[0].epsilon(delta)
    mu, off = one_gaussian(costs)
    return gaussian.epsilon(mu, delta * math.exp(-off)) + 2 * off


def one_gaussian(costs: Sequence[Cost]) -> tuple[float, float]:
    """Return (mu, off) of the Gaussian that all of these costs together are no worse than."""
    require(costs, "exact")
    (only,), off = dominated(costs)
    assert isinstance(only, NearGaussian)
    return only.dominating()[0], off

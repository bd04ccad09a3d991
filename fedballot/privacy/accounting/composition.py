"""One epsilon for everything that was released about the same data, if all of it was fixed before the first release.

Gaussian noise alone is added exactly; anything else by an accountant that is named, so that nobody mixes the figures of
two by accident. For costs that may depend on earlier releases see `Filter`.
"""

import math
from collections.abc import Callable, Sequence
from typing import get_args

from fedballot.core.errors import SettingsError
from fedballot.privacy.accounting import exact, gaussian, pld, rdp
from fedballot.privacy.accounting.cost import Accountant, Cost
from fedballot.privacy.accounting.merge import merge

_ADD: dict[Accountant, Callable[[Sequence[Cost], float], float]] = {
    "exact": exact.epsilon,
    "pld": pld.epsilon,
    "rdp": rdp.epsilon,
}


def epsilon(costs: Sequence[Cost], delta: float, accountant: Accountant = "exact") -> float:
    """Return epsilon at delta of all costs together; infinite where sampling alone needs the whole delta.

    The costs must be fixed before the first release. What (0, d)-DP sampling takes of delta is composed apart and
    leaves (delta - d)/(1 - d) to the rest. "pld" is never above "rdp".

    Parameters
    ----------
    costs : sequence of Cost
        Releases about the same data, under the same unit and adjacency.
    delta : float
    accountant : {"exact", "pld", "rdp"}
        "exact" takes Gaussian noise (continuous or integer) and sampling masses only; "pld" adds up privacy loss
        distributions, "rdp" Renyi divergences.

    Raises
    ------
    SettingsError
        If the accountant cannot add these costs.

    Examples
    --------
    >>> from fedballot.privacy.accounting import GaussianCost, LaplaceCost
    >>> f"{epsilon([GaussianCost(0.25)] * 4, 1e-5):.4g}"
    '1.993'
    >>> f"{epsilon([GaussianCost(0.25), LaplaceCost(0.1)], 1e-5, 'pld'):.4g}"
    '0.9863'
    """
    gaussian.check_delta(delta)
    if accountant not in _ADD:
        allowed = ", ".join(f'"{name}"' for name in get_args(Accountant))
        raise SettingsError(f"accountant = {accountant!r}: allowed are {allowed}.")
    left = delta_left(costs, delta)
    noise = merge([cost for cost in costs if cost.noisy])
    if not noise:
        return 0.0 if left >= 0 else math.inf
    return _ADD[accountant](noise, left) if left > 0 else math.inf


def total_mass(costs: Sequence[Cost]) -> float:
    """Return the delta of all sampling together, 1 - prod(1 - delta_i); it holds at epsilon = 0."""
    deltas = [cost.mass for cost in costs if cost.mass]
    if len(deltas) < 2 or 1 in deltas:
        return max(deltas, default=0.0)  # not through the logarithm, which may come back a last digit larger
    return -math.expm1(math.fsum(math.log1p(-d) for d in deltas))


def delta_left(costs: Sequence[Cost], delta: float) -> float:
    """Return the delta that sampling leaves, never too much of it; negative where it needs more than all."""
    mass = total_mass(costs)
    if mass > delta:
        return -math.inf
    return max(0.0, delta - mass - 4e-16 * mass) / (1 - mass)

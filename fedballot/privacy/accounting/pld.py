"""Accounting by privacy loss distributions, composed by dp-accounting.

Its own accountant is avoided, for it rescales by adjacency. It is imported where it is used: exact accounting, which
most clients need alone, starts in half the time.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

from fedballot.privacy.accounting import exact, rdp
from fedballot.privacy.accounting.cost import Cost
from fedballot.privacy.accounting.merge import dominated, require


def epsilon(costs: Sequence[Cost], delta: float) -> float:
    """Return epsilon of merged costs together; never above what Renyi divergences give.

    Raises
    ------
    SettingsError
        If one of them has no loss distribution.
    """
    require(costs, "pld")
    by_renyi = rdp.epsilon(costs, delta) if all(cost.supports("rdp") for cost in costs) else math.inf
    if all(cost.supports("exact") for cost in costs):
        return min(by_renyi, exact.epsilon(costs, delta))
    continuous, off = dominated(costs)
    return min(by_renyi, _composed(tuple(continuous), delta * math.exp(-off)) + 2 * off)


@lru_cache(maxsize=1024)  # seconds each, and many clients of a process ask the same
def _composed(costs: tuple[Cost, ...], delta: float) -> float:
    """Epsilon of all; infinite where they cannot tell (tails end at a delta of about 1e-15) or take too long."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    if len(costs) == 1:
        losses = costs[0].pld_alone()
        return float(losses.get_epsilon_for_delta(delta)) if losses is not None else math.inf
    total = pld.identity()
    for cost in costs:
        losses = cost.pld()
        if losses is None:
            return math.inf
        total = total.compose(losses)
    return float(total.get_epsilon_for_delta(delta))

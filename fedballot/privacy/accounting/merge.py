"""What all accountants do first: join costs that compose exactly, and stand in for noise that is nearly Gaussian."""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import get_args

from fedballot.core.errors import SettingsError
from fedballot.privacy.accounting import gaussian
from fedballot.privacy.accounting.cost import Accountant, Cost, NearGaussian
from fedballot.privacy.accounting.costs.gaussian import GaussianCost


def merge(costs: Sequence[Cost]) -> list[Cost]:
    """Return as few costs as compose to the same; those that are joined with none come first."""
    alone = [cost for cost in costs if cost.alike is None]
    groups: dict[Hashable, list[Cost]] = {}
    for cost in costs:
        if cost.alike is not None:
            groups.setdefault((type(cost), cost.alike), []).append(cost)
    return alone + [first.join(others) for first, *others in groups.values()]


def require(costs: Sequence[Cost], accountant: Accountant) -> None:
    """Refuse costs that the accountant has no bound for, or that speak of different worlds.

    Raises
    ------
    SettingsError
        Naming the costs, and the accountants that have one.
    """
    strangers = sorted({type(cost).__name__ for cost in costs if not cost.supports(accountant)})
    if strangers:
        others = [f'"{other}"' for other in get_args(Accountant) if all(cost.supports(other) for cost in costs)]
        advice = f"choose {' or '.join(others)}" if others else "no accountant adds up all of these costs"
        raise SettingsError(f'accountant = "{accountant}" has no bound for {", ".join(strangers)}: {advice}.')
    if not set.intersection(*(set(cost.adjacencies) for cost in costs)):
        worlds = sorted({f"{type(cost).__name__} under {' or '.join(cost.adjacencies)}" for cost in costs})
        raise SettingsError(f"costs of different worlds cannot be added ({'; '.join(worlds)}): state them apart.")


def dominated(costs: Sequence[Cost]) -> tuple[list[Cost], float]:
    """Replace all that is nearly Gaussian by one Gaussian that is no better; return what its probabilities are off by.

    Returns
    -------
    (costs, off)
        The Gaussian is the last of the costs; its probabilities are off by factors exp(+-off).
    """
    return _one_gaussian(costs, lambda cost: cost.dominating())


def concentrated(costs: Sequence[Cost]) -> tuple[list[Cost], float]:
    """Replace all that is nearly Gaussian by one Gaussian of no smaller Renyi divergences; as :func:`dominated`."""
    return _one_gaussian(costs, lambda cost: cost.concentrated())


def _one_gaussian(
    costs: Sequence[Cost], bound: Callable[[NearGaussian], tuple[float, float]]
) -> tuple[list[Cost], float]:
    bounds = [bound(cost) for cost in costs if isinstance(cost, NearGaussian)]
    others = [cost for cost in costs if not isinstance(cost, NearGaussian)]
    if bounds:
        others.append(GaussianCost(gaussian.compose_mu(*(mu for mu, _ in bounds))))
    return others, math.fsum(off for _, off in bounds)

"""Adding up costs: one epsilon for everything that was released about the same data.

Gaussian noise alone is added exactly. Anything else needs an accountant by name, "pld" (privacy loss distributions) or
"rdp" (Renyi DP), so that nobody mixes figures of both by accident. The delta mass of sampling is composed apart: what
is (0, d)-DP takes d of the delta and leaves (delta - d)/(1 - d) to the rest.

dp-accounting is imported where it is used: exact accounting, which most parties need alone, starts in half the time.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedballot.errors import SettingsError
from fedballot.privacy import gaussian
from fedballot.privacy.costs import (
    CohortCost,
    Cost,
    DeltaCost,
    GaussianCost,
    IntegerCost,
    LaplaceCost,
    PoissonCost,
    PureCost,
)

Accountant = Literal["exact", "pld", "rdp"]

_ORDERS = 1 + np.logspace(-7, 6, 2601)
_SAMPLING_ORDERS = [*(1 + x / 10 for x in range(1, 100)), *range(12, 64), 128, 256, 512, 1024]


def epsilon(costs: Sequence[Cost], delta: float, accountant: Accountant = "exact") -> float:
    """Return epsilon at delta of all costs together; infinite where sampling alone needs the whole delta.

    Parameters
    ----------
    costs : sequence of Cost
        Releases about the same data, under the same unit and adjacency.
    delta : float
    accountant : {"exact", "pld", "rdp"}
        "exact" takes Gaussian noise (continuous or integer) and sampling masses only.

    Raises
    ------
    SettingsError
        If the accountant cannot add these costs.
    """
    gaussian.check_delta(delta)
    if accountant not in ("exact", "pld", "rdp"):
        raise SettingsError(f'accountant = {accountant!r}: allowed are "exact", "pld", "rdp".')
    mass = total_mass(costs)
    rest = _merge([cost for cost in costs if not isinstance(cost, DeltaCost)])
    if not rest:
        return 0.0 if mass <= delta else math.inf
    if mass >= delta:
        return math.inf
    left = (delta - mass) / (1 - mass)
    if accountant == "exact":
        return _exact(rest, left)
    continuous, off = _dominated(rest)
    left *= math.exp(-off)
    if accountant == "pld":
        return _pld(tuple(continuous), left) + 2 * off
    return _rdp(continuous, left) + 2 * off


def total_mass(costs: Sequence[Cost]) -> float:
    """Return the delta of all sampling together, 1 - prod(1 - delta_i); it holds at epsilon = 0."""
    lost = [math.log1p(-c.delta) if c.delta < 1 else -math.inf for c in costs if isinstance(c, DeltaCost)]
    return -math.expm1(math.fsum(lost)) if -math.inf not in lost else 1.0


def smallest(fits: Callable[[float], bool], low: float, high: float, rel: float = 1e-9) -> float:
    """Return the smallest x in [low, high] with fits(x), for a predicate that stays true once true.

    Solves sigma for a target: ``smallest(lambda s: epsilon([GaussianCost(1 / s)], 1e-5) <= 1, 1e-3, 1e6)``.

    Raises
    ------
    SettingsError
        If even `high` does not fit.
    """
    _check_search(low, high, fits)
    if fits(low):
        return low
    while high > low * (1 + rel):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def crossing(value: Callable[[float], float], target: float, low: float, high: float, rel: float = 1e-3) -> float:
    """Return x in [low, high] with target * (1 - rel) <= value(x) <= target, for a `value` that falls with x.

    For costly values: few are asked for, as epsilon is nearly a power of the noise. Where `value` jumps over the
    target, or is below it everywhere, x is within `rel` of the smallest that fits, and fits.

    Raises
    ------
    SettingsError
        If even `high` does not fit.
    """
    at_high = value(high)
    _check_search(low, high, lambda _: at_high <= target)
    before, x, step = (math.log(high), _log(at_high)), math.sqrt(low * high), 0
    while high > low * (1 + rel):
        got, step = value(x), step + 1
        if target * (1 - rel) <= got <= target:
            return x
        low, high = (low, x) if got <= target else (x, high)
        now = (math.log(x), _log(got))
        slope = (now[1] - before[1]) / (now[0] - before[0])
        wanted = now[0] + (_log(target * (1 - rel / 2)) - now[1]) / slope if slope < 0 else math.inf
        # a jump would hold the power law back for ever, hence the middle at every fourth step
        usable = step % 4 and math.log(low) < wanted < math.log(high)
        before, x = now, math.exp(wanted) if usable else math.sqrt(low * high)
    return high


def _check_search(low: float, high: float, fits: Callable[[float], bool]) -> None:
    if not 0 < low < high:
        raise SettingsError(f"search from {low} to {high}: needs 0 < low < high.")
    if not fits(high):
        raise SettingsError(f"no value up to {high:g} reaches the target: raise epsilon or delta, or release less.")


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -1e3


def largest_count(fits: Callable[[int], bool], limit: int = 10**9) -> int:
    """Return the largest n <= limit with fits(n), for a predicate that stays false once false; 0 if even 1 fails.

    Solves the number of queries for a given noise.
    """
    low, high = 0, 1
    while high <= limit and fits(high):
        low, high = high, 2 * high
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _merge(costs: Sequence[Cost]) -> list[Cost]:
    """Join what composes exactly: all continuous Gaussians, unit shifts under the same noise, steps of one sampling."""
    merged: list[Cost] = [c for c in costs if not isinstance(c, GaussianCost | IntegerCost | PoissonCost | CohortCost)]
    steps: dict[PoissonCost | CohortCost, int] = {}
    for cost in costs:
        if isinstance(cost, PoissonCost | CohortCost):
            kind = replace(cost, steps=1)
            steps[kind] = steps.get(kind, 0) + cost.steps
    merged += [replace(kind, steps=count) for kind, count in steps.items()]
    mus = [c.mu * math.sqrt(c.count) for c in costs if isinstance(c, GaussianCost)]
    if mus:
        merged.append(GaussianCost(gaussian.compose_mu(*mus)))
    alike: dict[tuple[float, int, bool], list[IntegerCost]] = {}
    for cost in costs:
        if isinstance(cost, IntegerCost):
            alike.setdefault((cost.share_sigma, cost.shares, cost.unit_shifts), []).append(cost)
    merged += [
        replace(
            same[0],
            sensitivity=math.hypot(*(c.sensitivity for c in same)),
            coordinates=sum(c.coordinates for c in same),
        )
        for same in alike.values()
    ]
    return merged


def _dominated(costs: Sequence[Cost]) -> tuple[list[Cost], float]:
    """Replace integer noise by the continuous noise that is no better; return what its probabilities are off by."""
    pairs = [c.dominating() for c in costs if isinstance(c, IntegerCost)]
    mus = [mu for mu, _ in pairs] + [c.mu for c in costs if isinstance(c, GaussianCost)]
    others: list[Cost] = [c for c in costs if not isinstance(c, GaussianCost | IntegerCost)]
    if mus:
        others.append(GaussianCost(gaussian.compose_mu(*mus)))
    return others, math.fsum(off for _, off in pairs)


def _exact(costs: Sequence[Cost], delta: float) -> float:
    if len(costs) == 1 and isinstance(costs[0], IntegerCost):
        return costs[0].epsilon(delta)
    continuous, off = _dominated(costs)
    if len(continuous) != 1 or not isinstance(continuous[0], GaussianCost):
        names = ", ".join(sorted({type(c).__name__ for c in costs if not isinstance(c, GaussianCost | IntegerCost)}))
        raise SettingsError(f'accountant = "exact" adds Gaussian noise only, not {names}: choose "pld" or "rdp".')
    return gaussian.epsilon(continuous[0].mu, delta * math.exp(-off)) + 2 * off


@lru_cache(maxsize=1024)  # seconds each, and many parties of a process ask the same
def _pld(costs: tuple[Cost, ...], delta: float) -> float:
    """Compose privacy loss distributions; dp-accounting's own accountant is avoided, for it rescales by adjacency."""
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    total = pld.identity()
    for cost in costs:
        match cost:
            case GaussianCost(mu=mu, count=count):
                one = pld.from_gaussian_mechanism(1 / mu)
            case LaplaceCost(ratio=ratio, count=count):
                one = pld.from_laplace_mechanism(1 / ratio)
            case PoissonCost(q=q, multiplier=multiplier, steps=count):
                one = pld.from_gaussian_mechanism(multiplier, sampling_prob=q)
            case PureCost(epsilon=eps, count=count):
                one = pld.from_privacy_parameters(DifferentialPrivacyParameters(eps, 0.0))
            case _:
                raise SettingsError(f'accountant = "pld" has no bound for {type(cost).__name__}: choose "rdp".')
        total = total.compose(one.self_compose(count))
    return float(total.get_epsilon_for_delta(delta))


def _rdp(costs: Sequence[Cost], delta: float) -> float:
    import dp_accounting as dpa
    from dp_accounting.rdp import RdpAccountant

    sampled = [c for c in costs if isinstance(c, PoissonCost | CohortCost)]
    if not sampled:
        return _convert(_closed_form(costs, _ORDERS), delta)
    if len({type(c) for c in sampled}) > 1:
        raise SettingsError(
            "Poisson sampling is accounted for add-remove, fixed cohorts for replace-one: state them apart."
        )
    relation = dpa.NeighboringRelation
    fixed = isinstance(sampled[0], CohortCost)
    accountant = RdpAccountant(_SAMPLING_ORDERS, relation.REPLACE_ONE if fixed else relation.ADD_OR_REMOVE_ONE)
    for cost in costs:
        match cost:
            case GaussianCost(mu=mu, count=count):
                accountant.compose(dpa.GaussianDpEvent(1 / mu), count)
            case PureCost(
                epsilon=eps, count=count
            ):  # epsilon-DP is epsilon^2/2-concentrated, as a Gaussian of mu = eps
                accountant.compose(dpa.GaussianDpEvent(1 / eps), count)
            case LaplaceCost(ratio=ratio, count=count):
                accountant.compose(dpa.LaplaceDpEvent(1 / ratio), count)
            case PoissonCost(q=q, multiplier=multiplier, steps=steps):
                accountant.compose(dpa.PoissonSampledDpEvent(q, dpa.GaussianDpEvent(multiplier)), steps)
            case CohortCost(n=n, m=m, multiplier=multiplier, steps=steps):
                accountant.compose(dpa.SampledWithoutReplacementDpEvent(n, m, dpa.GaussianDpEvent(multiplier)), steps)
    return float(accountant.get_epsilon(delta))


def _closed_form(costs: Sequence[Cost], orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Renyi divergences at each order; pure DP costs what randomised response does (the worst of its kind)."""
    total = np.zeros_like(orders)
    for cost in costs:
        if isinstance(cost, GaussianCost):
            total += cost.count * orders * cost.mu**2 / 2
        elif isinstance(cost, LaplaceCost):
            r, weight = cost.ratio, orders / (2 * orders - 1)
            up = np.log(weight) + (orders - 1) * r
            total += cost.count * np.logaddexp(up, np.log1p(-weight) - orders * r) / (orders - 1)
        elif isinstance(cost, PureCost):
            e = cost.epsilon
            keep, flip = -np.log1p(math.exp(-e)), -np.log1p(math.exp(-e)) - e
            mix = np.logaddexp(orders * keep + (1 - orders) * flip, orders * flip + (1 - orders) * keep)
            total += cost.count * np.minimum(mix / (orders - 1), e)
    return total


def _convert(rdp: NDArray[np.float64], delta: float) -> float:
    """Improved conversion at every order (see gaussian.epsilon_rdp), the best of them."""
    gap = _ORDERS - 1
    bounds = rdp + np.log(gap / _ORDERS) - (math.log(delta) + np.log(_ORDERS)) / gap
    return max(0.0, float(bounds.min()))

"""Adding up costs: one epsilon for everything that was released about the same data.

Two questions, two answers. `epsilon` adds up costs that were all fixed before the first release: Gaussian noise alone
exactly, anything else by an accountant that is named, "pld" (privacy loss distributions) or "rdp" (Renyi DP), so that
nobody mixes figures of both by accident. `Filter` says what a ledger with a fixed budget may still release when each
cost may be chosen after the releases before it were seen.

dp-accounting is imported where it is used: exact accounting, which most clients need alone, starts in half the time.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from fedballot.core.errors import SettingsError
from fedballot.privacy.accounting import gaussian
from fedballot.privacy.accounting.costs import (
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

FILTERS = ("exact", "rdp")  # accountants that a ledger may use

# What integer noise may be off by over the life of a ledger, as a factor exp(+-ALLOWANCE) of each probability: a
# thousand million released integers. It is part of every filter, for a trade of one limit for another is no filter.
ALLOWANCE = 1e-7

_ORDERS = 1 + np.logspace(-7, 6, 2601)
_SAMPLING_ORDERS = [*(1 + x / 10 for x in range(1, 100)), *range(12, 64), 128, 256, 512, 1024]
# Beyond these "pld" takes minutes or all memory, and Renyi divergences lose little: the loss of one step, and steps.
_LOUDEST = 12.0
_LONGEST = 10**7


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
        "exact" takes Gaussian noise (continuous or integer) and sampling masses only.

    Raises
    ------
    SettingsError
        If the accountant cannot add these costs.
    """
    gaussian.check_delta(delta)
    if accountant not in ("exact", "pld", "rdp"):
        raise SettingsError(f'accountant = {accountant!r}: allowed are "exact", "pld", "rdp".')
    left = _left(costs, delta)
    rest = _merge([cost for cost in costs if not isinstance(cost, DeltaCost)])
    if not rest:
        return 0.0 if left >= 0 else math.inf
    if left <= 0:
        return math.inf
    if accountant == "exact":
        return _exact(rest, left)
    renyi, slack = _concentrated(rest)
    by_renyi = _rdp(renyi, left * math.exp(-slack)) + 2 * slack
    if accountant == "rdp":
        return by_renyi
    if not any(isinstance(cost, PoissonCost | CohortCost | LaplaceCost | PureCost) for cost in rest):
        return min(by_renyi, _exact(rest, left))
    continuous, off = _dominated(rest)
    return min(by_renyi, _pld(tuple(continuous), left * math.exp(-off)) + 2 * off)


def total_mass(costs: Sequence[Cost]) -> float:
    """Return the delta of all sampling together, 1 - prod(1 - delta_i); it holds at epsilon = 0."""
    deltas = [c.delta for c in costs if isinstance(c, DeltaCost) and c.delta]
    if len(deltas) < 2 or 1 in deltas:
        return max(deltas, default=0.0)  # not through the logarithm, which may come back a last digit larger
    return -math.expm1(math.fsum(math.log1p(-d) for d in deltas))


def _left(costs: Sequence[Cost], delta: float) -> float:
    """Return the delta that sampling leaves, never too much of it; negative where it needs more than all."""
    mass = total_mass(costs)
    if mass > delta:
        return -math.inf
    return max(0.0, delta - mass - 4e-16 * mass) / (1 - mass)


@dataclass(frozen=True)
class Filter:
    """What may still be released within a budget when every request may depend on all releases before it.

    A sum of epsilons that is looked at again and again promises nothing by itself: the requests, hence the costs, are
    chosen by somebody who has seen what came out. Each rule below is one bound, fixed before the first release, on one
    sum; whoever stays within it could have spent the rest on noise about nothing, so that the total is no longer
    chosen by anybody.

    - "exact": the sum of mu^2 stays within the mu^2 that (epsilon, delta) allows. Each release is a function of a
      Gaussian one, and a sum of mu_i Z_i whose mu_i depend on the past but whose mu_i^2 add up to a fixed B^2 is
      normal with variance B^2. Sources: Koskela, Tobaben and Honkela, "Individual privacy accounting with Gaussian
      differential privacy" (2023); Smith and Thakurta, "Fully adaptive composition for Gaussian differential privacy"
      (2022).
    - "rdp": the sum of Renyi divergences at one order, fixed beforehand, stays within what that order allows. Source:
      Feldman and Zrnic, "Individual privacy accounting via a Renyi filter" (2021). The best of many orders at the end
      is not taken: each order could hold for other outcomes, and all of them together for delta times their number.
      The order is the one at which the budget takes most releases like the first one with noise.
    - Integer noise is off by factors exp(+-off) of the noise that is counted; a bound on the sum of the offs, of its
      own and fixed, makes (epsilon, delta) into (epsilon + 2 off, exp(off) delta) whatever is asked.
    - What sampling takes of delta (`DeltaCost`) must be charged before any noise: as long as nothing else was
      released, an outcome either tells everything, which its delta pays for, or nothing that a later request could
      depend on. Afterwards a choice between delta and noise would be a trade of one limit for another.
    - The first charge with noise is chosen before anything was seen, so the order may follow from it. If it is the
      only one it may cost what it costs by itself, by the tightest formula; if the sums above do not take it too,
      nothing fits after it.

    No such rule is known to us for privacy loss distributions, so "pld" is not among them.

    Parameters
    ----------
    epsilon, delta : float
        The budget with which the ledger was opened. A later budget changes what `fits` is asked, not the rule.
    accountant : {"exact", "rdp"}
        "exact" takes Gaussian noise (continuous or integer) and sampling masses only.

    Raises
    ------
    SettingsError
        For any other accountant, and what is no budget.

    Examples
    --------
    >>> rule = Filter(2.0, 1e-5, "exact")
    >>> rule.fits([GaussianCost(0.25)] * 3), rule.fits([GaussianCost(0.25)] * 5)
    (True, False)
    >>> f"{rule.spent([GaussianCost(0.25)] * 3):.4g}"
    '1.698'
    """

    epsilon: float
    delta: float
    accountant: Accountant

    def __post_init__(self) -> None:
        gaussian.check_epsilon(self.epsilon)
        gaussian.check_delta(self.delta)
        if self.accountant not in FILTERS:
            raise SettingsError(
                f'accountant = {self.accountant!r}: a ledger adds up costs by "exact" (Gaussian noise only) or "rdp". '
                'Its requests may depend on earlier answers, and "pld" is proved for costs that were fixed before the '
                'first of them; use "rdp".'
            )

    def spent(self, costs: Sequence[Cost]) -> float:
        """Return the least budget, as epsilon at delta, that takes these charges, in the order in which they were made.

        This is not a promise about what was released so far: that the charges add up to less than the budget was
        itself decided by what came out. The promise is the budget's. In words: "the charges add up to epsilon = ...
        at delta = ...; whatever is asked, all releases together stay within the budget of epsilon = ...".

        Raises
        ------
        SettingsError
            If the accountant cannot add these costs.
        """
        left = _left(costs, self.delta)
        noise = [cost for cost in costs if not isinstance(cost, DeltaCost)]
        if not noise:
            return 0.0 if left >= 0 else math.inf
        if left <= 0 or late_sampling(costs):
            return math.inf
        if len(noise) == 1:
            return self._alone(noise[0], left)
        left *= math.exp(-ALLOWANCE)
        rest, off = _dominated(_merge(noise)) if self.accountant == "exact" else _concentrated(_merge(noise))
        if off > ALLOWANCE:
            return math.inf
        if self.accountant == "exact":
            return gaussian.epsilon(_only_gaussian(rest).mu, left) + 2 * ALLOWANCE
        order = np.array([_best_order(noise[0], self.epsilon, self.delta)])
        return _convert(order, _renyi(rest, order), left) + 2 * ALLOWANCE

    def fits(self, costs: Sequence[Cost], epsilon: float | None = None) -> bool:
        """Return whether the budget takes these charges, in the order in which they were made.

        Parameters
        ----------
        costs : sequence of Cost
        epsilon : float, optional
            The present budget, where it is another one than at first.

        Raises
        ------
        SettingsError
            As `spent`.
        """
        return self.spent(costs) <= (self.epsilon if epsilon is None else epsilon)

    def _alone(self, cost: Cost, delta: float) -> float:
        if self.accountant == "exact" or isinstance(cost, GaussianCost | IntegerCost):
            return epsilon([cost], delta)
        return epsilon([cost], delta, "rdp" if isinstance(cost, CohortCost) else "pld")


def late_sampling(costs: Sequence[Cost]) -> bool:
    """Return whether a sampling mass was charged after noise, which no `Filter` takes."""
    kinds = [isinstance(cost, DeltaCost) for cost in costs if not (isinstance(cost, DeltaCost) and cost.delta == 0)]
    return any(sampling and not all(kinds[:place]) for place, sampling in enumerate(kinds))


@lru_cache(maxsize=256)
def _best_order(first: Cost, epsilon: float, delta: float) -> float:
    """Return the Renyi order at which (epsilon, delta) takes most releases like the first one."""
    kind, _ = _concentrated([first])
    orders = _orders(kind)
    gap = orders - 1
    takes = epsilon - np.log(gap / orders) + (math.log(delta) + np.log(orders)) / gap
    with np.errstate(divide="ignore"):
        return float(orders[np.argmax(takes / _renyi(kind, orders))])


def least_budget(costs: Sequence[Cost], delta: float, accountant: Accountant) -> float:
    """Return an epsilon with which a ledger can be opened that takes all these charges, in this order, and little more.

    It is at most a little above `epsilon` by the same accountant.

    Raises
    ------
    SettingsError
        If there is none, or the accountant is none of `FILTERS`.

    Examples
    --------
    >>> budget = least_budget([GaussianCost(0.25)] * 4, 1e-5, "exact")
    >>> f"{budget:.4g} against {epsilon([GaussianCost(0.25)] * 4, 1e-5):.4g}"
    '1.993 against 1.993'
    """

    def spent(budget: float) -> float:
        return Filter(budget, delta, accountant).spent(costs)

    start = spent(0.0)
    if start <= 0 or (accountant == "exact" and math.isfinite(start)):
        return start
    return smallest(lambda budget: spent(budget) <= budget, 1e-9, 1e9)


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
    return _as_gaussian(costs, [c.dominating() for c in costs if isinstance(c, IntegerCost)])


def _concentrated(costs: Sequence[Cost]) -> tuple[list[Cost], float]:
    """Replace integer noise by a Gaussian of no smaller Renyi divergences; return what its probabilities are off by."""
    return _as_gaussian(costs, [c.concentrated() for c in costs if isinstance(c, IntegerCost)])


def _as_gaussian(costs: Sequence[Cost], integers: Sequence[tuple[float, float]]) -> tuple[list[Cost], float]:
    mus = [mu for mu, _ in integers] + [c.mu * math.sqrt(c.count) for c in costs if isinstance(c, GaussianCost)]
    others: list[Cost] = [c for c in costs if not isinstance(c, GaussianCost | IntegerCost)]
    if mus:
        others.append(GaussianCost(gaussian.compose_mu(*mus)))
    return others, math.fsum(off for _, off in integers)


def _exact(costs: Sequence[Cost], delta: float) -> float:
    if len(costs) == 1 and isinstance(costs[0], IntegerCost):
        return costs[0].epsilon(delta)
    continuous, off = _dominated(costs)
    return gaussian.epsilon(_only_gaussian(continuous).mu, delta * math.exp(-off)) + 2 * off


def _only_gaussian(costs: Sequence[Cost]) -> GaussianCost:
    if len(costs) == 1 and isinstance(costs[0], GaussianCost):
        return costs[0]
    names = ", ".join(sorted({type(c).__name__ for c in costs if not isinstance(c, GaussianCost)}))
    raise SettingsError(f'accountant = "exact" adds Gaussian noise only, not {names}: choose "pld" or "rdp".')


@lru_cache(maxsize=1024)  # seconds each, and many clients of a process ask the same
def _pld(costs: tuple[Cost, ...], delta: float) -> float:
    """Compose privacy loss distributions; dp-accounting's own accountant is avoided, for it rescales by adjacency.

    Infinite where they cannot tell (their tails are cut off at a delta of about 1e-15) or take too long.
    """
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    total = pld.identity()
    for cost in costs:
        if not _quick(cost):
            return math.inf
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


def _quick(cost: Cost) -> bool:
    match cost:
        case GaussianCost(mu=mu, count=count):
            loss = mu * mu
        case PoissonCost(multiplier=multiplier, steps=count):
            loss = multiplier**-2
        case LaplaceCost(ratio=loss, count=count) | PureCost(epsilon=loss, count=count):
            pass
        case _:
            return True
    return loss <= _LOUDEST and count <= _LONGEST


def _rdp(costs: Sequence[Cost], delta: float) -> float:
    orders = _orders(costs)
    return _convert(orders, _renyi(costs, orders), delta)


def _orders(costs: Sequence[Cost]) -> NDArray[np.float64]:
    sampled = any(isinstance(c, PoissonCost | CohortCost) for c in costs)
    return np.array(_SAMPLING_ORDERS) if sampled else _ORDERS


def _renyi(costs: Sequence[Cost], orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Renyi divergences at each order; pure DP costs what randomised response does (the worst of its kind)."""
    if len({type(c) for c in costs if isinstance(c, PoissonCost | CohortCost)}) > 1:
        raise SettingsError(
            "Poisson sampling is accounted for add-remove, fixed cohorts for replace-one: state them apart."
        )
    total = np.zeros_like(orders)
    for cost in costs:
        match cost:
            case GaussianCost(mu=mu, count=count):
                total += count * orders * mu**2 / 2
            case LaplaceCost(ratio=r, count=count):
                weight = orders / (2 * orders - 1)
                up = np.log(weight) + (orders - 1) * r
                total += count * np.minimum(np.logaddexp(up, np.log1p(-weight) - orders * r) / (orders - 1), r)
            case PureCost(epsilon=e, count=count):
                keep, flip = -np.log1p(math.exp(-e)), -np.log1p(math.exp(-e)) - e
                mix = np.logaddexp(orders * keep + (1 - orders) * flip, orders * flip + (1 - orders) * keep)
                total += count * np.minimum(mix / (orders - 1), e)
            case PoissonCost(q=q, multiplier=multiplier, steps=steps):
                total += steps * np.array([_poisson(q, multiplier, float(order)) for order in orders])
            case CohortCost(n=n, m=m, multiplier=multiplier, steps=steps):
                total += steps * _cohort(n, m, multiplier, tuple(map(float, orders)))
    return total


@lru_cache(maxsize=4096)
def _poisson(q: float, multiplier: float, order: float) -> float:
    """Renyi divergence of a Gaussian on a Poisson sample: of whole orders, between them as the logarithm is convex.

    Source: Mironov, Talwar and Zhang, "Renyi differential privacy of the sampled Gaussian mechanism" (2019).
    """
    whole = order / (2 * multiplier**2)  # everybody takes part
    if q == 1:
        return whole
    below = math.floor(order)
    at, above = (_poisson_moment(q, multiplier, a) for a in (below, below + 1))
    bound = (at + (order - below) * (above - at)) / (order - 1)
    if order > below:
        bound = min(bound, _poisson_between(q, multiplier, order))
    return min(bound, whole)


def _poisson_moment(q: float, multiplier: float, order: int) -> float:
    """Return ln E (ratio of densities)^order; what exceeds 1 is added up by itself, for it may be below 1e-16."""
    if order < 2:
        return 0.0
    k = np.arange(2.0, order + 1)
    exponent = k * (k - 1) / (2 * multiplier**2)
    grows = exponent + np.log(-np.expm1(-exponent))
    ways = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    return float(np.logaddexp(0.0, logsumexp(ways + k * math.log(q) + (order - k) * math.log1p(-q) + grows)))


def _poisson_between(q: float, multiplier: float, order: float) -> float:
    import dp_accounting as dpa
    from dp_accounting.rdp import RdpAccountant

    library = RdpAccountant([order])
    library.compose(dpa.PoissonSampledDpEvent(q, dpa.GaussianDpEvent(multiplier)))
    return max(0.0, float(library.rdp[0])) + 1e-12 / (order - 1)  # a difference of numbers of order one


@lru_cache(maxsize=64)
def _cohort(n: int, m: int, multiplier: float, orders: tuple[float, ...]) -> NDArray[np.float64]:
    import dp_accounting as dpa
    from dp_accounting.rdp import RdpAccountant

    library = RdpAccountant(orders, dpa.NeighboringRelation.REPLACE_ONE)
    library.compose(dpa.SampledWithoutReplacementDpEvent(n, m, dpa.GaussianDpEvent(multiplier)))
    return np.asarray(np.maximum(library.rdp, 0.0) + 1e-15)


def _convert(orders: NDArray[np.float64], rdp: NDArray[np.float64], delta: float) -> float:
    """Improved conversion at every order (see gaussian.epsilon_rdp), the best of them.

    Where even the total variation, at most sqrt(1 - exp(-divergence)), is below delta, epsilon is 0.
    """
    if -math.expm1(-float(rdp.min())) < delta * delta:
        return 0.0
    gap = orders - 1
    bounds = rdp + np.log(gap / orders) - (math.log(delta) + np.log(orders)) / gap
    return max(0.0, float(bounds.min()))

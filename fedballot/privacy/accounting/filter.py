"""What a ledger with a fixed budget may still release when each cost may be chosen after earlier releases were seen."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedballot.core.errors import SettingsError
from fedballot.privacy.accounting import exact, gaussian, rdp
from fedballot.privacy.accounting.composition import delta_left, epsilon
from fedballot.privacy.accounting.cost import Accountant, Cost
from fedballot.privacy.accounting.merge import concentrated, merge, require
from fedballot.privacy.accounting.search import smallest

FILTERS: tuple[Accountant, ...] = ("exact", "rdp")  # accountants that a ledger may use

# What integer noise may be off by over the life of a ledger, as a factor exp(+-ALLOWANCE) of each probability: a
# thousand million released integers. It is part of every filter, for a trade of one limit for another is no filter.
ALLOWANCE = 1e-7


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
    - What sampling takes of delta (`Cost.mass`) must be charged before any noise: as long as nothing else was
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
    >>> from fedballot.privacy.accounting import GaussianCost
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
        left = delta_left(costs, self.delta)
        noise = [cost for cost in costs if cost.noisy]
        if not noise:
            return 0.0 if left >= 0 else math.inf
        if left <= 0 or late_sampling(costs):
            return math.inf
        if len(noise) == 1:
            return epsilon(noise, left, "exact" if self.accountant == "exact" else noise[0].tightest())
        merged, left = merge(noise), left * math.exp(-ALLOWANCE)
        if self.accountant == "exact":
            mu, off = exact.one_gaussian(merged)
            total = gaussian.epsilon(mu, left)
        else:
            require(merged, "rdp")
            counted, off = concentrated(merged)
            order = np.array([best_order(noise[0], self.epsilon, self.delta)])
            total = rdp.convert(order, rdp.divergences(counted, order), left)
        return total + 2 * ALLOWANCE if off <= ALLOWANCE else math.inf

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


def late_sampling(costs: Sequence[Cost]) -> bool:
    """Return whether a sampling mass was charged after noise, which no `Filter` takes."""
    noisy = False
    for cost in costs:
        if cost.mass and noisy:
            return True
        noisy |= cost.noisy
    return False


@lru_cache(maxsize=256)
def best_order(first: Cost, epsilon: float, delta: float) -> float:
    """Return the Renyi order at which (epsilon, delta) takes most releases like the first one."""
    counted, _ = concentrated([first])
    orders = rdp.orders(counted)
    gap = orders - 1
    takes = epsilon - np.log(gap / orders) + (math.log(delta) + np.log(orders)) / gap
    with np.errstate(divide="ignore"):
        return float(orders[np.argmax(takes / rdp.divergences(counted, orders))])


def least_budget(costs: Sequence[Cost], delta: float, accountant: Accountant) -> float:
    """Return an epsilon with which a ledger can be opened that takes all these charges, in this order, and little more.

    It is at most a little above `epsilon` by the same accountant.

    Raises
    ------
    SettingsError
        If there is none, or the accountant is none of `FILTERS`.

    Examples
    --------
    >>> from fedballot.privacy.accounting import GaussianCost
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

"""Costs of pure differential privacy: Laplace noise, and any release that is (epsilon, 0)-DP."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from fedballot.privacy.accounting import gaussian
from fedballot.privacy.accounting.checks import check_count, times_words, too_large
from fedballot.privacy.accounting.cost import Cost, Floats, register_cost

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


@register_cost
@dataclass(frozen=True)
class LaplaceCost(Cost):
    """`count` releases with continuous Laplace noise.

    Parameters
    ----------
    ratio : float
        L1 sensitivity / scale, which is the pure epsilon of each.
    count : int
    """

    ratio: float
    count: int = 1

    def __post_init__(self) -> None:
        gaussian.check_positive("ratio", self.ratio)
        check_count("count", self.count)

    def rdp(self, orders: Floats) -> Floats:
        """See :meth:`Cost.rdp`. Source: Mironov, "Renyi differential privacy" (2017), Proposition 6."""
        r, weight = self.ratio, orders / (2 * orders - 1)
        up = np.log(weight) + (orders - 1) * r
        down = np.log1p(-weight) - orders * r
        return np.asarray(self.count * np.minimum(np.logaddexp(up, down) / (orders - 1), r))

    def pld(self) -> PrivacyLossDistribution | None:
        """See :meth:`Cost.pld`."""
        if too_large(self.ratio, self.count):
            return None
        from dp_accounting.pld import privacy_loss_distribution as pld

        return pld.from_laplace_mechanism(1 / self.ratio).self_compose(self.count)

    def times(self, count: int) -> LaplaceCost:
        """See :meth:`Cost.times`."""
        return replace(self, count=self.count * count)

    def words(self) -> str:
        """See :meth:`Cost.words`."""
        return f"Laplace noise{times_words(self.count)}"


@register_cost
@dataclass(frozen=True)
class PureCost(Cost):
    """`count` releases of any kind that are each (epsilon, 0)-DP: no worse than randomised response.

    Parameters
    ----------
    epsilon : float
        Of each.
    count : int
    """

    epsilon: float
    count: int = 1

    def __post_init__(self) -> None:
        gaussian.check_positive("epsilon", self.epsilon)
        check_count("count", self.count)

    def rdp(self, orders: Floats) -> Floats:
        """Return the divergences of randomised response, the worst of its kind."""
        e = self.epsilon
        keep, flip = -np.log1p(math.exp(-e)), -np.log1p(math.exp(-e)) - e
        mix = np.logaddexp(orders * keep + (1 - orders) * flip, orders * flip + (1 - orders) * keep)
        return np.asarray(self.count * np.minimum(mix / (orders - 1), e))

    def pld(self) -> PrivacyLossDistribution | None:
        """See :meth:`Cost.pld`."""
        if too_large(self.epsilon, self.count):
            return None
        from dp_accounting.pld import privacy_loss_distribution as pld
        from dp_accounting.pld.common import DifferentialPrivacyParameters

        one = pld.from_privacy_parameters(DifferentialPrivacyParameters(self.epsilon, 0.0))
        return one.self_compose(self.count)

    def times(self, count: int) -> Self:
        """See :meth:`Cost.times`."""
        return replace(self, count=self.count * count)

    def words(self) -> str:
        """See :meth:`Cost.words`."""
        return f"pure privacy{times_words(self.count)}"

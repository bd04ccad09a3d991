"""Costs of Gaussian noise: continuous, and integers that are nearly that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from fedballot.privacy.accounting import discrete, gaussian
from fedballot.privacy.accounting.checks import check_count, times_words, too_large
from fedballot.privacy.accounting.cost import Floats, NearGaussian, register_cost

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


@register_cost
@dataclass(frozen=True)
class GaussianCost(NearGaussian):
    """`count` releases with continuous Gaussian noise.

    Parameters
    ----------
    mu : float
        L2 sensitivity / sigma.
    count : int

    Examples
    --------
    >>> f"{GaussianCost(0.25, count=4).epsilon(1e-5):.4g}"
    '1.993'
    """

    mu: float
    count: int = 1

    def __post_init__(self) -> None:
        gaussian.check_positive("mu", self.mu)
        check_count("count", self.count)

    def dominating(self) -> tuple[float, float]:
        """Return (mu, 0) of all releases as one."""
        return self.mu * math.sqrt(self.count), 0.0

    def epsilon(self, delta: float) -> float:
        """Return epsilon of all releases, exactly."""
        return gaussian.epsilon(self.dominating()[0], delta)

    @property
    def alike(self) -> tuple[()]:
        """All Gaussians are one."""
        return ()

    def join(self, others: Sequence[GaussianCost]) -> GaussianCost:
        """See :func:`gaussian.compose_mu`."""
        return GaussianCost(gaussian.compose_mu(*(one.dominating()[0] for one in (self, *others))))

    def rdp(self, orders: Floats) -> Floats:
        """Return alpha mu^2 / 2 for each release."""
        return self.count * orders * self.mu**2 / 2

    def pld(self) -> PrivacyLossDistribution | None:
        """See :meth:`Cost.pld`."""
        if too_large(self.mu * self.mu, self.count):
            return None
        from dp_accounting.pld import privacy_loss_distribution as pld

        return pld.from_gaussian_mechanism(1 / self.mu).self_compose(self.count)

    def times(self, count: int) -> GaussianCost:
        """See :meth:`Cost.times`."""
        return replace(self, count=self.count * count)

    def words(self) -> str:
        """See :meth:`Cost.words`."""
        return f"Gaussian noise{times_words(self.count)}"


@register_cost
@dataclass(frozen=True)
class IntegerCost(NearGaussian):
    """A release with a sum of `shares` discrete Gaussians of parameter `share_sigma`^2.

    Parameters
    ----------
    sensitivity : float
        L2, in integer steps.
    coordinates : int
        How many integers can differ between the two worlds.
    share_sigma : float
    shares : int
    unit_shifts : bool
        Whether each of them differs by at most 1, and sensitivity = sqrt(coordinates): then the accounting is exact.
    """

    sensitivity: float
    coordinates: int
    share_sigma: float
    shares: int = 1
    unit_shifts: bool = False

    def __post_init__(self) -> None:
        gaussian.check_positive("sensitivity", self.sensitivity)
        check_count("coordinates", self.coordinates)
        discrete.check_share(self.share_sigma, self.shares)

    def dominating(self) -> tuple[float, float]:
        """See :func:`discrete.dominating`.

        Raises
        ------
        SettingsError
            If the noise is too coarse to be compared with continuous noise.
        """
        return discrete.dominating(self.sensitivity, self.coordinates, self.share_sigma, self.shares)

    def concentrated(self) -> tuple[float, float]:
        """See :meth:`NearGaussian.concentrated`; also for coarse noise.

        Source: Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (2020), Theorem 4.
        """
        off = self.coordinates * discrete.tau(self.share_sigma, self.shares) / 2
        return self.sensitivity / (self.share_sigma * math.sqrt(self.shares)), off

    def epsilon(self, delta: float) -> float:
        """Return epsilon of this release alone."""
        return _integer_epsilon(self, delta)

    @property
    def alike(self) -> tuple[float, int, bool]:
        """The noise."""
        return self.share_sigma, self.shares, self.unit_shifts

    def join(self, others: Sequence[IntegerCost]) -> IntegerCost:
        """Return the cost of one release of all coordinates."""
        same = (self, *others)
        return replace(
            self,
            sensitivity=math.hypot(*(one.sensitivity for one in same)),
            coordinates=sum(one.coordinates for one in same),
        )

    def times(self, count: int) -> IntegerCost:
        """See :meth:`Cost.times`."""
        return replace(self, sensitivity=self.sensitivity * math.sqrt(count), coordinates=self.coordinates * count)

    def words(self) -> str:
        """See :meth:`Cost.words`."""
        return "integer Gaussian noise" + (f" of {self.shares} shares" if self.shares > 1 else "")


@lru_cache(maxsize=4096)  # a plan, each client's ledger and every page ask the same
def _integer_epsilon(cost: IntegerCost, delta: float) -> float:
    if cost.unit_shifts:
        return discrete.epsilon_unit_shifts(delta, cost.coordinates, cost.share_sigma, cost.shares)
    return discrete.epsilon_integer_shifts(delta, cost.sensitivity, cost.coordinates, cost.share_sigma, cost.shares)

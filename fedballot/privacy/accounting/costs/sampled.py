"""Costs of Gaussian noise on random cohorts, step after step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedballot.core.errors import SettingsError
from fedballot.privacy.accounting import gaussian, sampling
from fedballot.privacy.accounting.checks import check_count, too_large
from fedballot.privacy.accounting.cost import Cost, Floats, register_cost
from fedballot.privacy.guarantee import Adjacency

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

FINEST = 1e-4  # interval of the grid of losses, which all that are composed share


@register_cost
@dataclass(frozen=True)
class PoissonCost(Cost):
    """`steps` Gaussian releases, each on a fresh Poisson sample of rate q; add-remove or zero-out.

    Parameters
    ----------
    q : float
        Probability, independent for each unit and step, of taking part; 0 < q <= 1. Shuffled batches do not qualify.
    multiplier : float
        sigma / clipping bound.
    steps : int
    """

    q: float
    multiplier: float
    steps: int

    costly: ClassVar[bool] = True
    adjacencies: ClassVar[tuple[Adjacency, ...]] = ("add-remove", "zero-out")

    def __post_init__(self) -> None:
        if not 0 < self.q <= 1:
            raise SettingsError(f"q = {self.q}: a sampling probability lies in (0, 1].")
        gaussian.check_positive("multiplier", self.multiplier)
        check_count("steps", self.steps)

    @property
    def alike(self) -> tuple[float, float]:
        """The sampling and the noise."""
        return self.q, self.multiplier

    def join(self, others: Sequence[PoissonCost]) -> PoissonCost:
        """Return the cost of all steps."""
        return replace(self, steps=sum(one.steps for one in (self, *others)))

    def rdp(self, orders: Floats) -> Floats:
        """See :func:`sampling.poisson`."""
        return self.steps * np.array([sampling.poisson(self.q, self.multiplier, float(order)) for order in orders])

    def pld(self) -> PrivacyLossDistribution | None:
        """See :meth:`Cost.pld`."""
        return self._losses(FINEST)

    def pld_alone(self) -> PrivacyLossDistribution | None:
        """See :meth:`Cost.pld_alone`; epsilon is larger by less than a 50,000th, and comes many times sooner."""
        return self._losses(self._spread / 100)

    def rough_epsilon(self, delta: float) -> float | None:
        """Return epsilon, mostly less than a thousandth too large, at once; None where :meth:`pld` has none."""
        losses = self._losses(self._spread / 12)
        return None if losses is None else float(losses.get_epsilon_for_delta(delta))

    @property
    def _spread(self) -> float:
        """Below the standard deviation of the loss of a step."""
        return self.q / self.multiplier

    def _losses(self, interval: float) -> PrivacyLossDistribution | None:
        """The loss distribution on a grid of that interval, never finer than `FINEST`; rounding only adds to losses."""
        if too_large(self.multiplier**-2, self.steps):
            return None
        from dp_accounting.pld import privacy_loss_distribution as pld

        one = pld.from_gaussian_mechanism(
            self.multiplier, sampling_prob=self.q, value_discretization_interval=max(FINEST, interval)
        )
        return one.self_compose(self.steps)

    def times(self, count: int) -> PoissonCost:
        """See :meth:`Cost.times`."""
        return replace(self, steps=self.steps * count)

    def words(self) -> str:
        """See :meth:`Cost.words`."""
        return f"noisy sums of random cohorts, {self.steps} steps"


@register_cost
@dataclass(frozen=True)
class CohortCost(Cost):
    """`steps` Gaussian releases, each on a fresh cohort of exactly m of n units; replace-one.

    Parameters
    ----------
    n, m : int
    multiplier : float
        sigma / (2 clipping bound): replacing a unit moves a clipped sum by twice the bound.
    steps : int
    """

    n: int
    m: int
    multiplier: float
    steps: int

    costly: ClassVar[bool] = True
    adjacencies: ClassVar[tuple[Adjacency, ...]] = ("replace-one",)

    def __post_init__(self) -> None:
        if not 0 < self.m <= self.n:
            raise SettingsError(f"m = {self.m}: a cohort has between 1 and n = {self.n} members.")
        gaussian.check_positive("multiplier", self.multiplier)
        check_count("steps", self.steps)

    @property
    def alike(self) -> tuple[int, int, float]:
        """The sampling and the noise."""
        return self.n, self.m, self.multiplier

    def join(self, others: Sequence[CohortCost]) -> CohortCost:
        """Return the cost of all steps."""
        return replace(self, steps=sum(one.steps for one in (self, *others)))

    def rdp(self, orders: Floats) -> Floats:
        """See :func:`sampling.cohort`."""
        return self.steps * sampling.cohort(self.n, self.m, self.multiplier, tuple(map(float, orders)))

    def times(self, count: int) -> CohortCost:
        """See :meth:`Cost.times`."""
        return replace(self, steps=self.steps * count)

    def words(self) -> str:
        """See :meth:`Cost.words`."""
        return f"noisy sums of random cohorts, {self.steps} steps"

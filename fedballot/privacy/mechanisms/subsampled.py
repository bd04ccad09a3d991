"""DP-FedAvg and DP-FedSGD: clipped updates of a random cohort, summed, with Gaussian noise, step after step.

Sources: McMahan et al., "Learning differentially private recurrent language models" (2018), and Abadi et al., "Deep
learning with differential privacy" (2016). The unit is the client in the first, the record in the second.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError, SettingsError
from fedballot.privacy import accounting
from fedballot.privacy.accounting import Accountant, CohortCost, GaussianCost, PoissonCost, check_records, gaussian
from fedballot.privacy.guarantee import Unit
from fedballot.privacy.mechanism import Mechanism
from fedballot.privacy.mechanisms.nfdp import NfdpSample
from fedballot.privacy.mechanisms.vectors import ROUNDING, clip_rows
from fedballot.privacy.noise.randomness import Ints, NoiseSource, uniform_below
from fedballot.privacy.noise.samplers import discrete_gaussian, grid_sensitivity, representable_variance, round_to_grid

SMALL = 0.3  # multipliers below it: sampling hardly helps, and the accountants that know it take minutes


@dataclass(frozen=True)
class SubsampledGaussian(Mechanism):
    """Noisy sums over random cohorts of a population of public size n.

    Parameters
    ----------
    population : int
        n.
    rate : float or int
        A float in (0, 1]: each unit takes part with that probability, independently (Poisson; add-remove or zero-out).
        An int: exactly that many take part (replace-one, needs about twice the noise). Batches that are shuffled once
        per epoch are neither and get no amplification.
    clip : float
        L2 bound on each update; the sum is unweighted, or no weight exceeds 1.
    multiplier : float
        Noise of each sum is sigma = multiplier * clip.
    steps : int
    coordinates : int
        Length of an update.
    """

    population: int
    rate: float | int
    clip: float
    multiplier: float
    steps: int
    coordinates: int

    def __post_init__(self) -> None:
        gaussian.check_positive("clip", self.clip)
        gaussian.check_positive("multiplier", self.multiplier)
        if self.coordinates < 1 or self.population < 1:
            raise SettingsError(
                f"population = {self.population}, coordinates = {self.coordinates}: must be at least 1."
            )
        self.cost()

    @property
    def grid(self) -> float:
        """Distance of neighbouring grid points."""
        return ROUNDING * self.clip / math.sqrt(self.coordinates)

    def cost(self, unit: Unit = "client", records_per_person: int = 1) -> GaussianCost | PoissonCost | CohortCost:
        """Return what all steps cost: exactly where everybody takes part, or where sampling hardly helps.

        A person's b records, each of them in the sum with probability q, are in it at all with 1 - (1 - q)^b, and then
        move it by at most b times the bound. Given which of them are drawn, the step is a mixture of the sum without
        them and one that far away; a bound for each is one for all, as divergences are jointly convex, and one for the
        farthest, as noise and scaling turn it into any nearer. So b records cost a step what one record of that
        probability costs under a b-th of the noise; add-remove, Poisson sampling only.

        Rounding and integer noise are paid for in the multiplier: the integers are a rounding of a continuous Gaussian
        of variance sigma^2 - 4 but for exp(-8 pi^2) in each probability, which double precision cannot show.
        """
        variance = float(representable_variance(self.multiplier * self.clip / self.grid))
        factor = 1 if isinstance(self.rate, float) else 2
        reach = grid_sensitivity(factor * self.clip, self.grid, self.coordinates)
        if variance <= 8:
            raise SettingsError(f"multiplier = {self.multiplier}: too small, at least 0.01 is needed.")
        check_records(records_per_person)
        if records_per_person > 1 and not isinstance(self.rate, float):
            raise SettingsError(
                f"records_per_person = {records_per_person}: a person's records are counted under Poisson sampling "
                "only, and rate is a fixed number; give rate as a probability."
            )
        effective = math.sqrt(variance - 4) / (reach * records_per_person)
        if effective < SMALL or self.rate == (1.0 if isinstance(self.rate, float) else self.population):
            return GaussianCost(1 / effective, self.steps)
        if isinstance(self.rate, float):
            drawn = self.rate if records_per_person == 1 else -math.expm1(records_per_person * math.log1p(-self.rate))
            return PoissonCost(drawn, effective, self.steps)
        return CohortCost(self.population, self.rate, effective, self.steps)

    def cost_if_drawn(self) -> GaussianCost:
        """Return what one step costs a unit that takes part in it, towards whoever knows that it does."""
        match self.cost():
            case GaussianCost(mu=mu):
                return GaussianCost(mu)
            case PoissonCost(multiplier=multiplier) | CohortCost(multiplier=multiplier):
                return GaussianCost(1 / multiplier)

    @property
    def accountant(self) -> Accountant:
        """The tightest accountant that knows the sampling."""
        return self.cost().tightest()

    def epsilon(self, delta: float, records_per_person: int = 1) -> float:
        """Return epsilon of all steps together, for a record or for all of a person's, see `cost`."""
        return accounting.epsilon([self.cost("person", records_per_person)], delta, self.accountant)

    @classmethod
    def solve(
        cls,
        epsilon: float,
        delta: float,
        *,
        population: int,
        rate: float | int,
        clip: float,
        steps: int,
        coordinates: int,
    ) -> "SubsampledGaussian":
        """Return the mechanism whose epsilon is at most the target, and a thousandth below it at most."""
        gaussian.check_positive("epsilon", epsilon)

        def at(multiplier: float) -> "SubsampledGaussian":
            return cls(population, rate, clip, multiplier, steps, coordinates)

        def exact(multiplier: float) -> float:
            return at(multiplier).epsilon(delta)

        def rough(multiplier: float) -> float:
            cost = at(multiplier).cost()
            found = cost.rough_epsilon(delta) if isinstance(cost, PoissonCost) else None
            return exact(multiplier) if found is None else found

        poisson = isinstance(rate, float)
        # without the amplification by sampling; Renyi accounting, which fixed cohorts need, is looser by less than half
        high = gaussian.sigma(math.sqrt(steps), epsilon, delta) * (1.01 if poisson else 3)
        low = min(high / 2, max(SMALL, high * float(rate if poisson else rate / population) / 2))
        return at(accounting.crossing(exact, epsilon, low, high, rough=rough if poisson else None))

    def cohort(self, noise: NoiseSource) -> NDArray[np.int64]:
        """Draw who takes part in one step, sorted; possibly nobody under Poisson sampling."""
        if isinstance(self.rate, float):
            draws = uniform_below(np.full(self.population, 1 << 62, dtype=np.int64), noise)
            return np.flatnonzero(draws < math.floor(self.rate * (1 << 62))).astype(np.int64)
        return NfdpSample(self.population, self.rate, replacement=False).draw(noise)

    def release(self, updates: NDArray[np.floating], noise: NoiseSource) -> NDArray[np.float64]:
        """Clip the cohort's updates, shape (m, coordinates), add them up with noise; shape (coordinates,)."""
        updates = np.asarray(updates)
        if updates.ndim != 2 or updates.shape[1] != self.coordinates:
            raise DataError(f"updates: expected shape (m, {self.coordinates}), got {updates.shape}.")
        return self.noisy(self.in_steps(updates).sum(axis=0), noise)

    def in_steps(self, updates: NDArray[np.floating]) -> Ints:
        """Clip updates, shape (m, coordinates), and round them to grid steps, same shape.

        A sum of integers is exact; one of floating-point numbers errs by what all of them are, which nobody pays for.
        """
        return round_to_grid(clip_rows(updates, self.clip), self.grid)

    def noisy(self, total: Ints, noise: NoiseSource) -> NDArray[np.float64]:
        """Add the noise to a sum of `in_steps`, shape (coordinates,); returns it in the units of the updates."""
        variance = representable_variance(self.multiplier * self.clip / self.grid)
        steps = total + discrete_gaussian(variance, self.coordinates, noise)
        return np.asarray(self.grid * steps, dtype=np.float64)

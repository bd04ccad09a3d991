"""The Gaussian mechanism for real vectors: round to a grid, add an exact discrete Gaussian share.

Noise drawn in floating point leaks (which doubles can come out depends on the value that is hidden), so values are
rounded first and the noise is an integer number of grid steps; both are paid for in the cost.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError, SettingsError
from fedballot.privacy import accounting
from fedballot.privacy.accounting import IntegerCost, discrete, gaussian
from fedballot.privacy.noise.randomness import Ints, NoiseSource
from fedballot.privacy.noise.samplers import (
    discrete_gaussian,
    grid_sensitivity,
    largest_draw,
    representable_variance,
    round_to_grid,
)

ROUNDING = 1e-3  # share of the sensitivity that rounding may add


@dataclass(frozen=True)
class NoisyVector:
    """One release of a vector, or of the sum of one vector per contributor.

    Parameters
    ----------
    sensitivity : float
        L2, under the declared adjacency, in the units of the values.
    coordinates : int
    sigma : float
        Standard deviation of the noise on the sum, in the units of the values.
    min_clients, colluders : int
        As in `NoisyVotes`: min_clients - colluders shares are sure to be in the sum and secret.

    Raises
    ------
    SettingsError
        For values out of range.
    """

    sensitivity: float
    coordinates: int
    sigma: float
    min_clients: int = 1
    colluders: int = 0

    def __post_init__(self) -> None:
        gaussian.check_positive("sensitivity", self.sensitivity)
        gaussian.check_positive("sigma", self.sigma)
        if self.coordinates < 1:
            raise SettingsError(f"coordinates = {self.coordinates}: must be at least 1.")
        if not 0 <= self.colluders < self.min_clients:
            raise SettingsError(
                f"colluders = {self.colluders}: must be at least 0 and below min_clients, {self.min_clients}."
            )
        discrete.check_share(math.sqrt(self.share_variance), self.min_clients - self.colluders)

    @property
    def grid(self) -> float:
        """Distance of neighbouring grid points: rounding adds a thousandth to the sensitivity."""
        return ROUNDING * self.sensitivity / math.sqrt(self.coordinates)

    @property
    def share_variance(self) -> Fraction:
        """Parameter of each contributor's discrete Gaussian, in squared grid steps."""
        return representable_variance(self.sigma / math.sqrt(self.min_clients - self.colluders) / self.grid)

    @property
    def largest(self) -> int:
        """Largest magnitude of a contributor's grid steps, if no value exceeds the sensitivity; see `largest_draw`."""
        return math.ceil(self.sensitivity / self.grid) + 1 + largest_draw(self.share_variance)

    def cost(self, reach: float | None = None) -> IntegerCost:
        """Return what one release costs, rounding included.

        Parameters
        ----------
        reach : float, optional
            How far the vector moves, L2, if by another distance than `sensitivity`: the cost of a group, say.
        """
        return IntegerCost(
            sensitivity=grid_sensitivity(self.sensitivity if reach is None else reach, self.grid, self.coordinates),
            coordinates=self.coordinates,
            share_sigma=math.sqrt(self.share_variance),
            shares=self.min_clients - self.colluders,
        )

    def epsilon(self, delta: float) -> float:
        """Return epsilon of one release."""
        return accounting.epsilon([self.cost()], delta)

    @classmethod
    def solve(
        cls,
        epsilon: float,
        delta: float,
        *,
        sensitivity: float,
        coordinates: int,
        min_clients: int = 1,
        colluders: int = 0,
    ) -> "NoisyVector":
        """Return the mechanism with the smallest sigma whose epsilon is at most the target."""
        gaussian.check_positive("epsilon", epsilon)

        def at(sigma: float) -> "NoisyVector":
            return cls(sensitivity, coordinates, sigma, min_clients, colluders)

        low = gaussian.sigma(sensitivity, epsilon, delta)
        return at(accounting.smallest(lambda sigma: at(sigma).epsilon(delta) <= epsilon, low, 2 * low))

    def release(self, values: NDArray[np.floating], noise: NoiseSource) -> NDArray[np.int64]:
        """Round and add this contributor's share.

        Parameters
        ----------
        values : ndarray of float, any shape with `coordinates` elements
            The caller has bounded them so that the sensitivity holds.
        noise : NoiseSource

        Returns
        -------
        ndarray of int64, same shape
            Grid steps: add up the clients' arrays, then multiply by `grid`.
        """
        values = np.asarray(values)
        if values.size != self.coordinates:
            raise DataError(f"values: expected {self.coordinates} numbers, got shape {values.shape}.")
        return self.noisy(round_to_grid(values, self.grid), noise)

    def noisy(self, steps: Ints, noise: NoiseSource) -> Ints:
        """Add this contributor's share to values that are in grid steps already."""
        return steps + discrete_gaussian(self.share_variance, steps.size, noise).reshape(steps.shape)


def clip_rows(rows: NDArray[np.floating], bound: float) -> NDArray[np.float64]:
    """Scale down every row whose L2 norm exceeds the public bound; shape (n, d) to the same.

    Raises
    ------
    DataError
        If a value is not finite.
    """
    gaussian.check_positive("bound", bound)
    rows = np.asarray(rows, dtype=np.float64)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise DataError(f"rows: expected finite numbers of shape (n, d), got shape {rows.shape}.")
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, bound / np.maximum(norms, bound)), dtype=np.float64)

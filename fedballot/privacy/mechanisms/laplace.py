"""The Laplace mechanism on a grid: pure differential privacy, value by value."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError, SettingsError
from fedballot.privacy.accounting import PureCost, check_records, gaussian
from fedballot.privacy.guarantee import Unit
from fedballot.privacy.mechanism import Mechanism
from fedballot.privacy.noise.randomness import NoiseSource
from fedballot.privacy.noise.samplers import discrete_laplace, round_to_grid

_STEPS = 1000  # grid steps in the sensitivity: rounding adds a thousandth to epsilon


@dataclass(frozen=True)
class NoisyValues(Mechanism):
    """One release of values that can each move by at most `sensitivity`.

    Parameters
    ----------
    sensitivity : float
        Largest change of a single value between two adjacent worlds.
    scale : float
        Scale b of the Laplace noise; each value costs epsilon = sensitivity / b.
    values : int
        How many values are released.
    """

    sensitivity: float
    scale: float
    values: int = 1

    def __post_init__(self) -> None:
        gaussian.check_positive("sensitivity", self.sensitivity)
        gaussian.check_positive("scale", self.scale)
        if self.values < 1:
            raise SettingsError(f"values = {self.values}: must be at least 1.")

    @property
    def grid(self) -> float:
        """Distance of neighbouring grid points."""
        return self.sensitivity / _STEPS

    @property
    def scale_steps(self) -> int:
        """Scale of the discrete noise in grid steps, rounded up."""
        return math.ceil(self.scale / self.grid)

    def cost(self, unit: Unit = "client", records_per_person: int = 1) -> PureCost:
        """Return what the release costs: (b sensitivity + one step of rounding) / scale for each value.

        b, the bound on a person's records, is for values whose `sensitivity` is that of one record.
        """
        check_records(records_per_person)
        return PureCost((records_per_person * _STEPS + 1) / self.scale_steps, self.values)

    def release(self, values: NDArray[np.floating], noise: NoiseSource) -> NDArray[np.float64]:
        """Round to the grid and add discrete Laplace noise; any shape with `values` elements."""
        values = np.asarray(values)
        if values.size != self.values:
            raise DataError(f"values: expected {self.values} numbers, got shape {values.shape}.")
        noisy = round_to_grid(values, self.grid).ravel() + discrete_laplace(self.scale_steps, values.size, noise)
        return np.asarray(noisy.reshape(values.shape) * self.grid, dtype=np.float64)

"""Uniform quantiser: S levels from -B to B, B public. It saves bytes and protects nobody.

"Preserving privacy in federated learning with ensemble cross-domain knowledge distillation" (FedKD) counts fewer levels
as more privacy. They are not: two worlds whose logits round apart stay apart at any S.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError, SettingsError
from fedballot.privacy.accounting import gaussian


@dataclass(frozen=True)
class Quantiser:
    """Levels -bound + 2 bound j/(levels - 1), j = 0 .. levels - 1.

    Parameters
    ----------
    bound : float
        Public; values beyond it are clipped.
    levels : int
        2 to 65,536; up to 256 fit one byte.
    """

    bound: float
    levels: int

    def __post_init__(self) -> None:
        gaussian.check_positive("bound", self.bound)
        if not 2 <= self.levels <= 1 << 16:
            raise SettingsError(f"levels = {self.levels}: must lie between 2 and 65536.")

    def encode(self, values: NDArray[np.floating]) -> NDArray[np.unsignedinteger]:
        """Return the index of the nearest level, ties upwards; uint8 for up to 256 levels, else uint16."""
        values = np.asarray(values, dtype=np.float64)
        if np.isnan(values).any():
            raise DataError("values: cannot quantise what is not a number.")
        clipped = np.clip(values, -self.bound, self.bound)
        index = np.floor((clipped + self.bound) * (self.levels - 1) / (2 * self.bound) + 0.5)
        return np.asarray(index, dtype=np.uint8 if self.levels <= 256 else np.uint16)

    def decode(self, index: NDArray[np.unsignedinteger]) -> NDArray[np.float64]:
        """Return the levels of the indices."""
        index = np.asarray(index)
        if index.size and int(index.max()) >= self.levels:
            raise DataError(f"index: {int(index.max())} is no level, there are {self.levels}.")
        return -self.bound + 2 * self.bound * index.astype(np.float64) / (self.levels - 1)

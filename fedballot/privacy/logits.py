"""The sound variant of FedKD: clipped logits, equal weights, Gaussian noise on the sum.

"Preserving privacy in federated learning with ensemble cross-domain knowledge distillation" weighs clients by exact
class counts and scales by the largest logit, neither of which is protected. Here each client clips its logits for each
query to a public L2 norm B, all clients weigh the same, and only the noisy sum over the clients is seen.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedballot.errors import DataError
from fedballot.privacy import gaussian
from fedballot.privacy.costs import IntegerCost
from fedballot.privacy.randomness import NoiseSource
from fedballot.privacy.vectors import NoisyVector, clip_rows


@dataclass(frozen=True)
class NoisyLogits:
    """One release of the summed logits of all queries; agent level, zero-out: sensitivity B sqrt(Q).

    Parameters
    ----------
    queries, classes : int
        Q and C.
    bound : float
        B, public.
    sigma : float
        Standard deviation of the noise on the sum, in logits.
    contributors, colluders : int
        As in `NoisyVotes`.
    """

    queries: int
    classes: int
    bound: float
    sigma: float
    contributors: int
    colluders: int = 0

    def __post_init__(self) -> None:
        gaussian.check_positive("bound", self.bound)
        self.mechanism.cost()

    @property
    def mechanism(self) -> NoisyVector:
        """The noisy vector that is released."""
        cells = self.queries * self.classes
        return NoisyVector(self.sensitivity, cells, self.sigma, self.contributors, self.colluders)

    @property
    def sensitivity(self) -> float:
        """Return B sqrt(Q)."""
        return self.bound * math.sqrt(self.queries)

    def cost(self) -> IntegerCost:
        """Return what the release costs an agent."""
        return self.mechanism.cost()

    @classmethod
    def solve(
        cls,
        epsilon: float,
        delta: float,
        *,
        queries: int,
        classes: int,
        bound: float,
        contributors: int,
        colluders: int = 0,
    ) -> "NoisyLogits":
        """Return the mechanism with the smallest sigma whose epsilon is at most the target."""
        found = NoisyVector.solve(
            epsilon,
            delta,
            sensitivity=bound * math.sqrt(queries),
            coordinates=queries * classes,
            contributors=contributors,
            colluders=colluders,
        )
        return cls(queries, classes, bound, found.sigma, contributors, colluders)

    def release(self, logits: NDArray[np.floating], noise: NoiseSource) -> NDArray[np.int64]:
        """Clip one client's logits, shape (Q, C), and add its noise share; in steps of `mechanism.grid`."""
        if np.shape(logits) != (self.queries, self.classes):
            raise DataError(f"logits: expected shape {(self.queries, self.classes)}, got {np.shape(logits)}.")
        return self.mechanism.release(clip_rows(logits, self.bound), noise)

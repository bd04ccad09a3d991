"""Predictions on public data with noise on every one of them, round after round (FedMD-LDP).

A release is the predictions on Q records. Nothing bounds how far one training record, or all of them, move a
prediction, so each of the Q rows may change as a whole: from one corner of the simplex to another, sqrt(2) apart, or
from one end of the ball of clipped logits to the other. This protects the whole client, under replace-one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedballot.privacy import accounting
from fedballot.privacy.accounting import Accountant, Cost, gaussian
from fedballot.privacy.guarantee import Unit
from fedballot.privacy.mechanism import Mechanism
from fedballot.privacy.mechanisms.laplace import NoisyValues
from fedballot.privacy.mechanisms.vectors import NoisyVector, clip_rows
from fedballot.privacy.noise.randomness import NoiseSource

Share = Literal["logits", "softmax", "argmax"]


@dataclass(frozen=True)
class NoisyPredictions(Mechanism):
    """One release of predictions, the same noise in each of so many.

    Parameters
    ----------
    noisy : NoisyVector or NoisyValues
    share : {"logits", "softmax", "argmax"}
        What is told of each record.
    logit_bound : float
        Of share="logits": largest norm of a row (Gaussian noise), or magnitude of a value (Laplace).
    releases : int
        R + 1 rounds.
    accountant : {"exact", "rdp"}
    """

    noisy: NoisyVector | NoisyValues
    share: Share
    logit_bound: float
    releases: int
    accountant: Accountant

    def cost(self, unit: Unit = "client", records_per_person: int = 1) -> Cost:
        """What one release costs; a record or a person moves no more than the whole client."""
        return self.noisy.cost()

    def epsilon(self, delta: float) -> float:
        """Epsilon of all releases."""
        return accounting.epsilon([self.cost()] * self.releases, delta, self.accountant)

    def release(self, exact: npt.NDArray[np.floating], noise: NoiseSource) -> npt.NDArray[np.float32]:
        """Noisy predictions, float32 (Q, C), of logits (Q, C)."""
        grid = self.noisy.grid if isinstance(self.noisy, NoisyVector) else 1.0
        return np.asarray(self.noisy.release(self.bounded(exact), noise) * grid, dtype=np.float32)

    def bounded(self, logits: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """What is told of logits (Q, C) before the noise, each row within the bound."""
        if self.share == "logits" and isinstance(self.noisy, NoisyVector):
            return clip_rows(logits, self.logit_bound)
        if self.share == "logits":
            return np.clip(logits.astype(np.float64), -self.logit_bound, self.logit_bound)
        if self.share == "argmax":
            return np.asarray(np.eye(logits.shape[1])[logits.argmax(axis=1)])
        from scipy.special import softmax

        return np.asarray(softmax(logits.astype(np.float64), axis=1))


@lru_cache(maxsize=8)
def solve(
    epsilon: float,
    delta: float,
    *,
    noise: Literal["gaussian", "laplace"],
    share: Share,
    logit_bound: float,
    queries: int,
    classes: int,
    releases: int,
) -> NoisyPredictions:
    """The least noise with which all releases together stay within epsilon.

    Raises
    ------
    SettingsError
        If no noise reaches the target.
    """
    cells, logits = queries * classes, share == "logits"

    def by_sigma(sigma: float) -> NoisyPredictions:
        row = 2 * logit_bound if logits else math.sqrt(2)
        vector = NoisyVector(row * math.sqrt(queries), cells, sigma)
        return NoisyPredictions(vector, share, logit_bound, releases, "exact")

    def by_scale(scale: float) -> NoisyPredictions:
        values = NoisyValues(2 * logit_bound if logits else 1.0, scale, cells)
        return NoisyPredictions(values, share, logit_bound, releases, "rdp")

    at: Callable[[float], NoisyPredictions] = by_sigma if noise == "gaussian" else by_scale
    sensitivity: Any = at(1.0).noisy.sensitivity
    if noise == "gaussian":
        low = gaussian.sigma(sensitivity * math.sqrt(releases), epsilon, delta)
        high = 2 * low
    else:
        low = sensitivity / epsilon
        high = 2 * low * cells * releases
    return at(accounting.smallest(lambda x: at(x).epsilon(delta) <= epsilon, low, high, 1e-6))

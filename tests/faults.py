"""Faults that are put into the sampler of discrete Gaussian noise, and the layers of an audit that see them."""

from __future__ import annotations

import numpy as np
import pytest

from fedballot.privacy.noise.samplers import discrete_gaussian


def weakened(divisor: float):
    """The exact sampler with its standard deviation divided."""
    return lambda variance, size, source: np.rint(discrete_gaussian(variance, size, source) / divisor).astype(np.int64)


def no_noise(variance, size, source) -> np.ndarray:
    return np.zeros(size, dtype=np.int64)


each_fault = pytest.mark.parametrize(
    ("fault", "caught"),
    [
        (weakened(2), {"variance"}),
        (weakened(5), {"variance", "two worlds"}),
        (no_noise, {"variance", "two worlds", "one run"}),
    ],
    ids=["half the noise", "a fifth of the noise", "no noise"],
)

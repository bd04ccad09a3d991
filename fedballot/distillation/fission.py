"""A released tally split into two whose noises are independent: what is made of one is judged by the other.

Source: Leiner et al. 2023, "Data fission: splitting a single data point". Post-processing, which costs no privacy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

SPLITS = 4  # of a tally; each is to be read both ways round


def added_noises(tally: Floats, sigma: float) -> Iterator[NDArray[np.float64]]:
    """Noise A (Q, C) like the tally's own T, so that T + A and T - A have independent noises of variance 2 sigma^2.

    Parameters
    ----------
    tally
        Noisy votes (Q, C).
    sigma
        Standard deviation of the noise on each of them.
    """
    rng = np.random.default_rng(0)
    for _ in range(SPLITS):
        yield sigma * rng.standard_normal(tally.shape)


def votes_held(tally: Floats, labels: NDArray[np.integer[Any]]) -> float:
    """How many votes of a tally (Q, C) are for these labels (Q,)."""
    return float(np.take_along_axis(tally, labels[:, None], axis=1).sum())

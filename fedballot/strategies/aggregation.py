"""How answers combine: pure functions on arrays."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt


def tally(ballots: Iterable[npt.NDArray[np.integer]], shape: tuple[int, int]) -> npt.NDArray[np.int64]:
    """Sum of ballots (Q, C), int64: the histogram of Algorithm 1, line 7, before its argmax.

    Raises
    ------
    ValueError
        If a ballot has another shape.
    """
    total = np.zeros(shape, dtype=np.int64)
    for ballot in ballots:
        if ballot.shape != shape:
            raise ValueError(f"a ballot has shape {ballot.shape}, the tally has {shape}")
        total += ballot
    return total


def votes_of(labels: npt.NDArray[np.integer], n_classes: int) -> npt.NDArray[np.int32]:
    """One-hot votes (Q, C), int32, of labels (Q,); the label ``n_classes`` is an abstention and votes for nothing."""
    votes: npt.NDArray[np.int32] = (labels[:, None] == np.arange(n_classes)).astype(np.int32)
    return votes

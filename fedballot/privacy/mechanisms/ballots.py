"""Ballots of a client from its scores: at most so many, its most confident ones."""

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError, SettingsError


def limit_votes(scores: NDArray[np.floating], max_votes: int, n_classes: int) -> NDArray[np.int8]:
    """Turn a client's scores into at most `max_votes` one-hot ballots, its most confident ones.

    Parameters
    ----------
    scores : ndarray of float, shape (Q, n_classes) or (Q, n_classes + 1)
        Logits or probabilities; a last extra column is "unknown", and the client abstains where it wins.
    max_votes : int
        Ballots kept: those with the largest margin between best and second best score, ties by query index.
    n_classes : int

    Returns
    -------
    ndarray of int8, shape (Q, n_classes)

    Raises
    ------
    DataError
        If the shape is wrong or a score is not a number.
    """
    scores = np.asarray(scores)
    if scores.ndim != 2 or scores.shape[1] not in (n_classes, n_classes + 1) or scores.shape[1] < 2:
        raise DataError(f"scores: expected shape (queries, {n_classes} or {n_classes + 1}), got {scores.shape}.")
    if max_votes < 1:
        raise SettingsError(f"max_votes = {max_votes}: must be at least 1.")
    if not np.isfinite(scores).all():
        row = int(np.flatnonzero(~np.isfinite(scores).all(axis=1))[0])
        raise DataError(f"scores: row {row} holds a value that is not finite.")
    best = scores.argmax(axis=1)
    second, first = np.partition(scores, -2, axis=1)[:, -2:].T
    answered = np.flatnonzero(best < n_classes)
    kept = answered[np.argsort(second[answered] - first[answered], kind="stable")[:max_votes]]
    votes = np.zeros((len(scores), n_classes), dtype=np.int8)
    votes[kept, best[kept]] = 1
    return votes

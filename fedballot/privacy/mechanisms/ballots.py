"""Ballots of a client: at most so many, its most confident ones; and what a row of votes may hold."""

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


def check_votes(votes: NDArray[np.integer], queries: int, max_votes: int, k: int | None) -> None:
    """Refuse what is no client's answer to `queries` public queries.

    Parameters
    ----------
    votes : ndarray of int, shape (queries, C)
        One-hot rows and blank rows; for kNN, counts that add up to k in every row, or to the same fewer.
    queries, max_votes : int
    k : int or None
        Number of neighbours, for kNN.

    Raises
    ------
    DataError
        If a row is neither blank nor a ballot, or there are more than `max_votes` ballots.
    """
    if votes.ndim != 2 or len(votes) != queries or not np.issubdtype(votes.dtype, np.integer):
        raise DataError(f"votes: expected integers of shape ({queries}, classes), got {votes.dtype} {votes.shape}.")
    totals = votes.sum(axis=1, dtype=np.int64)
    fits = (totals == 0) | (totals == 1) if k is None else (totals == totals[0]) & (totals <= k)
    bad = np.flatnonzero((votes.min(axis=1, initial=0) < 0) | ~fits)
    if len(bad):
        sums = (
            "1, or to 0 for no answer."
            if k is None
            else f"{k}, or all rows to the same number below; to 0 for a client without records."
        )
        raise DataError(
            f"votes: row {bad[0]} adds up to {totals[bad[0]]}; "
            f"a row must hold non-negative counts that add up to {sums}"
        )
    cast = int(np.count_nonzero(totals))
    if cast > max_votes:
        raise DataError(f"votes: {cast} rows are answered, max_votes allows {max_votes}; see limit_votes.")

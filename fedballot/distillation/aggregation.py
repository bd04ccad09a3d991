"""How answers combine: pure functions on arrays."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt


def tally(ballots: Iterable[npt.NDArray[np.integer]], shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Sum of ballots, int64; of votes (Q, C): the histogram of Algorithm 1, line 7, before its argmax.

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


def weighted_average(
    ballots: Iterable[npt.NDArray[np.floating]],
    weights: Iterable[float | npt.NDArray[np.floating]],
    shape: tuple[int, int],
) -> npt.NDArray[np.float64]:
    """Average of predictions (Q, C), float64: the aggregation of FedMD-NFDP's Algorithm 1 (lines 9 and 22).

    Parameters
    ----------
    ballots
        One array (Q, C) per client.
    weights
        Per client a number, or one for each query (Q,); at least 0. Equal ones give the paper's average.

    Raises
    ------
    ValueError
        If a ballot has another shape, a weight is negative or not finite, or a query has no weight at all.
    """
    total, mass = np.zeros(shape), np.zeros((shape[0], 1))
    for ballot, weight in zip(ballots, weights, strict=True):
        if ballot.shape != shape:
            raise ValueError(f"a ballot has shape {ballot.shape}, the average has {shape}")
        column = np.broadcast_to(np.asarray(weight, dtype=np.float64), (shape[0],))[:, None]
        if not (np.isfinite(column).all() and (column >= 0).all()):
            raise ValueError("weights must be finite and at least 0")
        total += column * ballot
        mass += column
    if not (mass > 0).all():
        raise ValueError("a query has no weight at all")
    return np.asarray(total / mass)


def average_vectors(vectors: Iterable[npt.NDArray[np.floating]], weights: Iterable[float]) -> npt.NDArray[np.float64]:
    """Weighted average of vectors (d,), float64: FederatedAveraging's update.

    Source: McMahan et al. 2017, "Communication-efficient learning of deep networks from decentralized data",
    Algorithm 1. Equal weights, or the clients' public numbers of records.

    Raises
    ------
    ValueError
        If there is no vector, shapes differ, a weight is negative or not finite, or all are 0.
    """
    total: npt.NDArray[np.float64] | None = None
    mass = 0.0
    for vector, weight in zip(vectors, weights, strict=True):
        if not 0 <= weight < np.inf:
            raise ValueError("weights must be finite and at least 0")
        if total is not None and total.shape != vector.shape:
            raise ValueError(f"a vector has shape {vector.shape}, the average has {total.shape}")
        total = weight * vector.astype(np.float64) + (0.0 if total is None else total)
        mass += weight
    if total is None or mass == 0:
        raise ValueError("there is nothing to average")
    return np.asarray(total / mass)


def momentum_step(
    velocity: npt.NDArray[np.floating], difference: npt.NDArray[np.floating], momentum: float
) -> npt.NDArray[np.float64]:
    """The server's next step (d,): v = momentum * v + difference; the weights then move along v.

    Source: Hsu et al. 2019, "Measuring the effects of non-identical data distribution for federated visual
    classification", section 4.3 (FedAvgM).
    """
    return np.asarray(momentum * velocity.astype(np.float64) + difference)


def confidence(ballot: npt.NDArray[np.floating], *, logits: bool) -> npt.NDArray[np.float64]:
    """How sure a client is of each query (Q,): its largest probability."""
    values = ballot.astype(np.float64)
    if logits:
        values = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(values.max(axis=1) / np.maximum(values.sum(axis=1), np.finfo(np.float64).tiny))


def to_simplex(rows: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """The nearest probabilities (Q, C) to rows that noise has moved: none negative, every row with sum 1.

    Source: Duchi et al. 2008, "Efficient projections onto the l1-ball for learning in high dimensions", Figure 1.
    """
    descending = -np.sort(-rows.astype(np.float64), axis=1)
    excess = (np.cumsum(descending, axis=1) - 1) / np.arange(1, rows.shape[1] + 1)
    last = np.maximum((descending > excess).sum(axis=1) - 1, 0)
    return np.asarray(np.maximum(rows - excess[np.arange(len(rows)), last][:, None], 0))


def class_weights(counts: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """Weight (K, C) of each client for each class: its share of that class's records.

    Source: FedKD ("Preserving privacy in federated learning with ensemble cross-domain knowledge distillation"),
    equation 1, which leaves a class that nobody has undefined; there all clients weigh the same.

    Parameters
    ----------
    counts
        Records (K, C) of each client and class.
    """
    totals = counts.sum(axis=0)
    shares = counts / np.maximum(totals, 1)
    return np.asarray(np.where(totals > 0, shares, 1 / len(counts)), dtype=np.float64)

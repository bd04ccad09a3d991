"""How answers combine: sums that take one at a time, and pure functions on arrays."""

from __future__ import annotations

from functools import reduce

import numpy as np
import numpy.typing as npt

from fedballot.core.arrays import row_sums


class Sum:
    """Sum of integer arrays, int64, in any order; of votes (Q, C): Algorithm 1, line 7, before its argmax.

    Examples
    --------
    >>> votes = Sum((1, 2))
    >>> votes.add(np.array([[1, 0]]))
    >>> votes.add(np.array([[1, 1]]))
    >>> votes.total.tolist(), votes.count
    ([[2, 1]], 2)
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.total: npt.NDArray[np.int64] = np.zeros(shape, dtype=np.int64)
        self.count = 0

    def add(self, ballot: npt.NDArray[np.integer]) -> None:
        """Add one.

        Raises
        ------
        ValueError
            If it has another shape.
        """
        if ballot.shape != self.total.shape:
            raise ValueError(f"a ballot has shape {ballot.shape}, the tally has {self.total.shape}")
        self.total += ballot
        self.count += 1


def votes_of(labels: npt.NDArray[np.integer], n_classes: int) -> npt.NDArray[np.int32]:
    """One-hot votes (Q, C), int32, of labels (Q,); the label ``n_classes`` is an abstention and votes for nothing."""
    votes: npt.NDArray[np.int32] = (labels[:, None] == np.arange(n_classes)).astype(np.int32)
    return votes


class WeightedMean:
    """Average of predictions (Q, C), float64: the aggregation of FedMD-NFDP's Algorithm 1 (lines 9 and 22).

    Its last bits depend on the order in which predictions are added.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self._total, self._mass = np.zeros(shape), np.zeros((shape[0], 1))
        self._product = np.empty(shape)  # made once: new memory takes longer than the product

    def add(self, ballot: npt.NDArray[np.floating], weight: float | npt.NDArray[np.floating] = 1.0) -> None:
        """Add predictions (Q, C) of a weight, or of one for each query (Q,), at least 0; equal ones are the paper's.

        Raises
        ------
        ValueError
            If the ballot has another shape, or a weight is negative or not finite.
        """
        shape = self._total.shape
        if ballot.shape != shape:
            raise ValueError(f"a ballot has shape {ballot.shape}, the average has {shape}")
        column = np.broadcast_to(np.asarray(weight, dtype=np.float64), (shape[0],))[:, None]
        if not (np.isfinite(column).all() and (column >= 0).all()):
            raise ValueError("weights must be finite and at least 0")
        equal = np.ndim(weight) == 0 and weight == 1
        self._total += ballot if equal else np.multiply(column, ballot, out=self._product)
        self._mass += column

    def value(self, *, blank: bool = False) -> npt.NDArray[np.float64]:
        """The average; with ``blank`` the row of a query without weight is 0.

        Raises
        ------
        ValueError
            If a query has no weight at all, but for ``blank``.
        """
        known = self._mass > 0
        if not (blank or known.all()):
            raise ValueError("a query has no weight at all")
        return np.asarray(self._total / np.where(known, self._mass, 1.0))


class VectorMean:
    """Weighted average of vectors (d,), float64: FederatedAveraging's update.

    Source: McMahan et al. 2017, "Communication-efficient learning of deep networks from decentralized data",
    Algorithm 1. Equal weights, or the clients' public numbers of records. Its last bits depend on the order in which
    vectors are added.
    """

    def __init__(self) -> None:
        self._total: npt.NDArray[np.float64] | None = None
        self._mass = 0.0

    def add(self, vector: npt.NDArray[np.floating], weight: float = 1.0) -> None:
        """Add a vector.

        Raises
        ------
        ValueError
            If shapes differ, or the weight is negative or not finite.
        """
        if not 0 <= weight < np.inf:
            raise ValueError("weights must be finite and at least 0")
        if self._total is None:
            self._total = np.zeros(vector.shape)
        if self._total.shape != vector.shape:
            raise ValueError(f"a vector has shape {vector.shape}, the average has {self._total.shape}")
        self._total += vector if weight == 1 else weight * vector.astype(np.float64)
        self._mass += weight

    def value(self) -> npt.NDArray[np.float64]:
        """The average.

        Raises
        ------
        ValueError
            If there is no vector, or all weights are 0.
        """
        if self._total is None or self._mass == 0:
            raise ValueError("there is nothing to average")
        return np.asarray(self._total / self._mass)


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
        ballot = values = np.exp(values - _largest(values)[:, None])
    return np.asarray(_largest(ballot) / np.maximum(row_sums(values), np.finfo(np.float64).tiny))


def _largest(values: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    return np.asarray(reduce(np.maximum, values.T))  # ten times as fast as along the short rows


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

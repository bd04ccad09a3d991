"""Ensembles of clients that know few classes each: what a client says about pairs of its own classes.

A mean of logits takes a client's word about classes that it has never seen, and about the level of its logits, which a
softmax does not fix. Here a client is believed about differences between classes that it has, and no further: with
clients' logits z_kc of one record, corrected for the client's own class shares (Menon et al. 2021, "Long-tail learning
via logit adjustment"), the consensus z solves

    min over z and shifts b_k of  sum over k, c with n_kc > 0 of  n_kc (z_kc - z_c - b_k)^2,

a least-squares ranking from incomplete comparisons (Jiang et al. 2011, "Statistical ranking and combinatorial Hodge
theory"). Its matrix is the Laplacian of the graph of classes that some client has both of, the same for all records.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import connected_components
from scipy.special import log_softmax

from fedballot.distillation.aggregation import class_weights

# nats below certainty that a class is heard at; chosen on USPS and Fashion-MNIST (docs/results/fedkd.md)
FARTHEST = 12.0

Floats = npt.NDArray[np.float64]


def pairwise_consensus(logits: Iterable[npt.NDArray[np.floating]], counts: npt.NDArray[np.integer]) -> Floats:
    """The consensus (Q, C), rows of mean 0.

    What nobody compares (classes that no client has, groups of classes that no client joins) stands as in the mean by
    class counts (equation 1 of FedKD) of log-probabilities.

    Parameters
    ----------
    logits
        Of each client (Q, C).
    counts
        Records of each class (K, C).

    Examples
    --------
    >>> import numpy as np
    >>> first, second = np.array([[2.0, 0.0, 9.0]]), np.array([[7.0, 3.0, 0.0]])
    >>> pairwise_consensus([first, second], np.array([[5, 5, 0], [0, 5, 5]])).round(6).tolist()
    [[2.333333, 0.333333, -2.666667]]
    """
    weights, classes = class_weights(counts), counts.shape[1]
    laplacian = np.zeros((classes, classes))
    compared: Floats | float = 0.0
    mean: Floats | float = 0.0
    for answer, held, weight in zip(logits, counts, weights, strict=True):
        z, own = answer.astype(np.float64), np.flatnonzero(held)
        mean = mean + weight * np.maximum(log_softmax(z, axis=1), -FARTHEST)
        share = held[own] / held.sum()
        likely = np.maximum(log_softmax(z[:, own] - np.log(share), axis=1), -FARTHEST)
        pull = np.zeros_like(z)
        pull[:, own] = held[own] * (likely - (likely @ share)[:, None])
        compared = compared + pull
        laplacian[np.ix_(own, own)] += np.diag(held[own]) - held[own][:, None] * share
    flat = _same_in_a_group(counts)
    # the pseudoinverse with its null space as it is known: rounding can hide it from a threshold on eigenvalues
    scale = max(float(np.trace(laplacian)) / classes, 1.0)
    inverse = np.linalg.inv(laplacian + scale * flat) - flat / scale
    found = np.asarray(compared @ inverse + mean @ flat)
    return np.asarray(found - found.mean(axis=1, keepdims=True))


def _same_in_a_group(counts: npt.NDArray[np.integer]) -> Floats:
    """Projection (C, C) on what is the same in each group of classes that clients compare, by their counts (K, C)."""
    held = (counts > 0).astype(np.int64)
    _, group = connected_components(held.T @ held, directed=False)
    same = group[:, None] == group
    return np.asarray(same / same.sum(axis=1))

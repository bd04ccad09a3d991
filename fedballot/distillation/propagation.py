"""Clean labels from a noisy vote histogram: label propagation over a graph of the public pool.

The histogram has been released under differential privacy and the pool is public, so this is post-processing
and costs no privacy. Propagation is the closed form of Zhou et al., "Learning with local and global
consistency" (2003): Z = (I - alpha S)^-1 H with S the normalised adjacency of a nearest-neighbour graph.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import softmax

from fedballot.core.errors import RunError, SettingsError

FloatArray = NDArray[np.floating[Any]]


def argmax_labels(histogram: FloatArray) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The winner of each query and its lead over the second; ties go to the smaller class.

    Parameters
    ----------
    histogram
        (n, C) float, noisy counts.

    Returns
    -------
    labels, margin
        int64 (n,) and float32 (n,), the margin in counts.

    Raises
    ------
    SettingsError
        If the histogram is not a finite (n, C) array with at least two classes.
    """
    histogram = _checked_histogram(histogram)
    top = np.partition(histogram, -2, axis=1)[:, -2:]
    return histogram.argmax(axis=1).astype(np.int64), (top[:, 1] - top[:, 0]).astype(np.float32)


def pool_histogram(histogram: FloatArray, queries: NDArray[np.int64], pool_size: int) -> NDArray[np.float64]:
    """The histogram (Q, C) laid out over the pool (P, C), its columns centred; records not asked about get zeros."""
    out = np.zeros((pool_size, histogram.shape[1]))
    out[queries] = histogram - histogram.mean(axis=0)
    return out


def neighbour_graph(features: FloatArray, neighbours: int) -> sparse.csr_matrix:
    """Normalised adjacency S = D^-1/2 W D^-1/2 (n, n) of the nearest-neighbour graph.

    W_ij = exp(-2 (d_ij / d_i)^2), d_i the distance from i to its last neighbour, made symmetric by the
    maximum. Duplicates (distance 0) have weight 1. With n <= neighbours every other point is a neighbour.

    Raises
    ------
    SettingsError
        If a feature is not finite, or there are to be no neighbours.
    """
    if not np.isfinite(features).all():
        raise SettingsError("features hold a value that is not finite; every entry must be a number")
    if neighbours < 1:
        raise SettingsError(f"neighbours is {neighbours}, but must be at least 1")
    n = len(features)
    k = min(neighbours, n - 1)
    from sklearn.neighbors import NearestNeighbors  # a second, which no site needs that starts to answer

    distance, index = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(features).kneighbors()
    last = distance[:, -1:]
    ratio = np.divide(distance, last, out=np.zeros_like(distance), where=last > 0)
    weight = np.exp(-2 * ratio.astype(np.float64) ** 2)
    w = sparse.csr_matrix((weight.ravel(), index.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    w = w.maximum(w.T)
    scale = sparse.diags(1 / np.sqrt(np.asarray(w.sum(axis=1)).ravel()))
    return (scale @ w @ scale).tocsr()


def propagate(
    features: FloatArray, histogram: FloatArray, *, neighbours: int = 5, alpha: float = 0.99
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Labels of a pool from all of its noisy votes at once.

    The histogram's column means are taken off before and after propagation, which assumes that classes are
    about balanced in the pool, and each class is brought half way to the spread of the others
    (:func:`even_scales`). Where that leaves a tie (all votes for one class, say), the row's own histogram decides.

    Parameters
    ----------
    features
        (n, d) float, the pool in a space where neighbours tend to share their class.
    histogram
        (n, C) float, noisy counts.
    neighbours
        Degree of the graph before it is made symmetric, at least 1.
    alpha
        In [0, 1): how far labels travel, about 1 / (1 - alpha) steps.

    Returns
    -------
    labels, confidence
        int64 (n,), and float32 (n,): the lead of the best class over the second, in counts of a class of mean spread.

    Raises
    ------
    SettingsError
        If an array is not finite, the shapes disagree, or a parameter is out of range.
    """
    histogram = _checked_histogram(histogram)
    features = np.asarray(features)
    if features.ndim != 2 or len(features) != len(histogram):
        raise SettingsError(f"features have shape {features.shape}, but must be ({len(histogram)}, d)")
    if not 0 <= alpha < 1:
        raise SettingsError(f"alpha is {alpha}, but must be at least 0 and below 1")
    if len(histogram) < 2:
        return argmax_labels(histogram)
    return spread_labels(neighbour_graph(features, neighbours), histogram, alpha)


def spread_labels(
    graph: sparse.csr_matrix, histogram: FloatArray, alpha: float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Labels and confidence as :func:`propagate` gives them, over a graph that is there."""
    scores = solve(graph, histogram - histogram.mean(axis=0), alpha)
    scores -= scores.mean(axis=0)
    nothing = 1e-6 * max(1.0, float(np.abs(histogram).max()))
    labels, confidence = argmax_labels(scores * even_scales(scores.std(axis=0), nothing))
    tied = confidence <= nothing
    labels[tied] = histogram[tied].argmax(axis=1)
    confidence[tied] = 0
    return labels, confidence


def half_borne_out(logits: FloatArray, labels: NDArray[np.int64]) -> NDArray[np.float32]:
    """Soft labels (A, n, C) to learn from: half what A answers say of a record each, half what neighbours bear out.

    Labels alone lose what an answer says of the other classes, answers alone what neighbours correct: on USPS and
    Fashion-MNIST the half of each made the better student than either (docs/results/fedkd.md).

    Parameters
    ----------
    logits
        (A, n, C).
    labels
        Of the records, by :func:`propagate`, (n,).
    """
    told = softmax(logits, axis=-1)
    return np.asarray((told + np.eye(told.shape[-1])[labels]) / 2, dtype=np.float32)


def even_scales(spread: NDArray[np.float64], nothing: float = 0.0) -> NDArray[np.float64]:
    """Factor (C,) of each class's scores: the square root of the mean spread over its own; 1 up to ``nothing``.

    Clients abstain more on some classes than on others; a class with few votes would be swallowed by a neighbour
    with many. Dividing by the whole spread would take the classes to be equally common, too.
    """
    known = spread > nothing
    return np.where(known, np.sqrt(spread.mean() / np.where(known, spread, 1.0)), 1.0)


def solve(s: sparse.csr_matrix, rhs: FloatArray, alpha: float) -> NDArray[np.float64]:
    """(I - alpha S)^-1 rhs (n, C) by columns; the system is positive definite."""
    n = len(rhs)
    system = LinearOperator((n, n), matvec=lambda v: v - alpha * (s @ v), dtype=np.float64)
    columns = []
    for column in rhs.T:
        z, failed = cg(system, column, rtol=1e-8, maxiter=20_000)
        if failed:
            raise RunError(f"label propagation did not converge with alpha = {alpha}; use a smaller alpha")
        columns.append(z)
    return np.stack(columns, axis=1)


def _checked_histogram(histogram: FloatArray) -> NDArray[np.float64]:
    counts: NDArray[np.float64] = np.asarray(histogram, dtype=np.float64)
    if counts.ndim != 2 or counts.shape[1] < 2:
        raise SettingsError(f"the histogram has shape {counts.shape}, but must be (n, C) with C at least 2")
    if not np.isfinite(counts).all():
        raise SettingsError("the histogram holds a value that is not finite; every count must be a number")
    return counts

"""Embeddings of few coordinates and norm 1, fitted on public features alone, in which class sums are told.

Noise grows with the number of coordinates, so few that carry much are wanted. An embedded record depends on that record
and on public data, so a mechanism's sensitivity is not touched.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedballot.datasets.features import l2_normalised
from fedballot.errors import SettingsError

Kind = Literal["pca", "graph"]
Floats = NDArray[np.float32]

NEIGHBOURS = 15
_GRAPH_FEATURES = 256
_BATCH = 1024


@dataclass(frozen=True)
class Embedding:
    """A fitted embedding.

    Parameters
    ----------
    mean, axes : float32 (p,), (p, m)
        Of the public features, scaled to norm 1.
    points, table : float32 (n, m), (n, d), optional
        Public records in the space of the axes and their embeddings; a record takes the mean over its nearest points.
    """

    mean: Floats
    axes: Floats
    points: Floats | None = None
    table: Floats | None = None

    def transform(self, features: Floats) -> Floats:
        """Embeddings (n, d) of norm 1 of features (n, p); a record's row does not depend on the other rows."""
        projected = (l2_normalised(features) - self.mean) @ self.axes
        z = l2_normalised(np.asarray(projected, dtype=np.float32))
        if self.points is None or self.table is None:
            return z
        out = np.empty((len(z), self.table.shape[1]), np.float32)
        for start in range(0, len(z), _BATCH):
            near = nearest(z[start : start + _BATCH], self.points, NEIGHBOURS)
            out[start : start + _BATCH] = self.table[near].mean(axis=1)
        return l2_normalised(out)


def fit_embedding(features: Floats, dimension: int, kind: Kind = "pca") -> Embedding:
    """Fit on public features (n, p).

    "pca": principal axes, each scaled by its eigenvalue to the power -1/4, halfway between plain and whitened.
    "graph": eigenvectors 2 to d + 1 of the random walk on the public records' neighbour graph, scaled by the
    eigenvalue squared (a diffusion of two steps).

    Raises
    ------
    SettingsError
        If the public records or features are too few for the dimension.
    """
    rows = l2_normalised(features)
    wanted = min(_GRAPH_FEATURES, *rows.shape) if kind == "graph" else dimension
    if not 0 < dimension < len(rows) or wanted > rows.shape[1]:
        raise SettingsError(
            f"dimension={dimension} needs more than {dimension} public records, and for pca as many features; there "
            f"are {rows.shape[0]} of {rows.shape[1]}"
        )
    mean = rows.mean(axis=0, dtype=np.float64)
    centred = rows - mean
    values, vectors = np.linalg.eigh(centred.T @ centred / len(rows))
    values, vectors = values[::-1][:wanted], vectors[:, ::-1][:, :wanted]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(wanted)])  # eigenvectors come with any sign
    scale = np.maximum(values, 1e-12 * values[0]) ** -0.25 if kind == "pca" else np.ones(wanted)
    found = Embedding(mean.astype(np.float32), (vectors * signs * scale).astype(np.float32))
    if kind == "pca":
        return found
    points = found.transform(features)
    return Embedding(found.mean, found.axes, points, diffusion(points, dimension))


def nearest(rows: Floats, points: Floats, k: int) -> NDArray[np.int64]:
    """Indices (n, k) of the k points nearest to each row; rows and points of norm 1, so of largest cosine."""
    k = min(k, len(points))
    return np.asarray(np.argpartition(-(rows @ points.T), k - 1, axis=1)[:, :k], dtype=np.int64)


def diffusion(points: Floats, dimension: int) -> Floats:
    """Random-walk eigenvectors 2 to d + 1 times eigenvalue squared, float32 (n, d), of the points' neighbour graph."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.linalg import LinearOperator, eigsh

    n, k = len(points), min(NEIGHBOURS + 1, len(points))
    near = np.concatenate([nearest(points[s : s + _BATCH], points, k) for s in range(0, n, _BATCH)])
    rows, columns = np.repeat(np.arange(n), k), near.ravel()
    keep = rows != columns
    weights = csr_matrix((np.ones(int(keep.sum())), (rows[keep], columns[keep])), shape=(n, n))
    weights = weights.maximum(weights.T)
    degrees = np.maximum(np.asarray(weights.sum(axis=1)).ravel(), 1)
    root = 1 / np.sqrt(degrees)
    walk = weights.multiply(root[:, None]).multiply(root).tocsr()
    constant = np.sqrt(degrees / degrees.sum())  # the first eigenvector tells nothing; a graph in parts has several
    rest = LinearOperator((n, n), matvec=lambda v: walk @ v - constant * (constant @ v), dtype=np.float64)
    values, vectors = eigsh(rest, dimension, which="LA", v0=np.cos(np.arange(n)))  # any start that is the same for all
    order = np.argsort(-values)
    vectors = vectors[:, order] * root[:, None]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(dimension)])
    scaled = vectors * signs * np.maximum(values[order], 0) ** 2
    return np.asarray(scaled / np.sqrt(np.mean(scaled**2)), dtype=np.float32)

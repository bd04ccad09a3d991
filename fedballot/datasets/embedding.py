"""Embeddings of norm 1, fitted on public features alone, in which class sums are told.

An embedded record depends on that record and on public data, so a mechanism's sensitivity is not touched.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import SettingsError
from fedballot.datasets.features import l2_normalised

Floats = NDArray[np.float32]

AXES = 128  # principal axes in which landmarks lie
OVERLAP = 0.1  # squared norm of the mean of the public records' embeddings by landmarks, which sets their width
_BATCH = 4096


@dataclass(frozen=True)
class Embedding:
    """A fitted embedding.

    Parameters
    ----------
    mean, axes : float32 (p,), (p, m)
        Of the public features, scaled to norm 1.
    landmarks : float32 (d, m), optional
        Points in the space of the axes, divided by the width: a record is told by how near each of them is.
    """

    mean: Floats
    axes: Floats
    landmarks: Floats | None = None

    @property
    def dimension(self) -> int:
        """Coordinates of an embedded record."""
        return int(self.axes.shape[1] if self.landmarks is None else len(self.landmarks))

    def transform(self, features: Floats) -> Floats:
        """Embeddings (n, d) of norm 1 of features (n, p); a record's row does not depend on the other rows.

        With landmarks no coordinate is negative, whatever the landmarks are.
        """
        projected = (l2_normalised(features) - self.mean) @ self.axes
        z = l2_normalised(np.asarray(projected, dtype=np.float32))
        if self.landmarks is None:
            return z
        out = np.empty((len(z), len(self.landmarks)), np.float32)
        for start in range(0, len(z), _BATCH):
            out[start : start + _BATCH] = nearness(z[start : start + _BATCH], self.landmarks)
        return out


@dataclass(frozen=True)
class Space:
    """What a student sees of frozen features: embeddings less a centre, times a scale, all of public data.

    Parameters
    ----------
    embedding : of features.
    centre : float32 (d,).
    scale : of each coordinate.
    """

    embedding: Embedding
    centre: Floats
    scale: float

    @classmethod
    def plain(cls, embedding: Embedding) -> "Space":
        """Embeddings as they are."""
        return cls(embedding, np.zeros(embedding.dimension, np.float32), 1.0)

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> "Space":
        """What :meth:`arrays` has told."""
        embedding = Embedding(arrays["mean"], arrays["axes"], arrays.get("landmarks"))
        return cls(embedding, arrays["centre"], float(arrays["scale"]))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of it, by name."""
        told = self.embedding
        found = {"mean": told.mean, "axes": told.axes, "centre": self.centre, "scale": np.array(self.scale)}
        return {**found, **({} if told.landmarks is None else {"landmarks": told.landmarks})}

    def transform(self, features: Floats) -> Floats:
        """Coordinates (n, d) of features (n, p); a record's row does not depend on the other rows."""
        return np.asarray((self.embedding.transform(features) - self.centre) * np.float32(self.scale))


def nearness(points: Floats, landmarks: Floats) -> Floats:
    """Square roots (n, d) of softmax(points landmarks^T): norm 1 and no negative coordinate, so no angle is obtuse."""
    logits = points @ landmarks.T
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(np.sqrt(shares / shares.sum(axis=1, keepdims=True)), dtype=np.float32)


def fit_landmarks(embedding: Embedding, features: Floats, number: int, seed: int) -> Floats:
    """Landmarks (d, m) for an embedding in principal components: centres of k-means, divided by their width.

    The width is the one at which the mean of the public records' embeddings has squared norm `OVERLAP`: narrow ones
    tell records apart by chance, wide ones spend the norm on what all records share. k-means may end otherwise on
    another processor or release, so landmarks are found once, at the server.

    Raises
    ------
    SettingsError
        If there are fewer public records than landmarks, or fewer than 2 landmarks.
    """
    from sklearn.cluster import MiniBatchKMeans

    if not 2 <= number < len(features):
        raise SettingsError(
            f"dimension={number}: landmarks must be at least 2 and fewer than the {len(features)} public records"
        )
    points = embedding.transform(features)
    clusters = MiniBatchKMeans(number, n_init=1, random_state=seed, batch_size=2048, max_iter=30).fit(points)
    centres = l2_normalised(np.asarray(clusters.cluster_centers_, dtype=np.float32))
    sample, low, high = points[:2000], 1e-3, 1e3
    for _ in range(30):  # bisection: the mean's norm grows with the width, from near 0 to 1
        width = float(np.sqrt(low * high))
        mean = nearness(sample, centres / np.float32(width)).mean(axis=0)
        low, high = (width, high) if float(mean @ mean) < OVERLAP else (low, width)
    return np.asarray(centres / np.float32(width), dtype=np.float32)


def fit_embedding(features: Floats, dimension: int) -> Embedding:
    """Principal axes of public features (n, p), each scaled by its eigenvalue to the power -1/4.

    The scale lies halfway between plain and whitened.

    Raises
    ------
    SettingsError
        If the public records or features are too few for the dimension.
    """
    rows = l2_normalised(features)
    most = min(len(rows) - 1, rows.shape[1])
    if not 0 < dimension <= most:
        raise SettingsError(
            f"dimension={dimension}: of {rows.shape[0]} public records with {rows.shape[1]} features there are "
            f"{most} principal components: set dimension from 1 to {most}"
        )
    mean = rows.mean(axis=0, dtype=np.float64)
    centred = rows - mean
    values, vectors = np.linalg.eigh(centred.T @ centred / len(rows))
    values, vectors = values[::-1][:dimension], vectors[:, ::-1][:, :dimension]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(dimension)])  # eigenvectors come with any sign
    scale = np.maximum(values, 1e-12 * values[0]) ** -0.25
    return Embedding(mean.astype(np.float32), (vectors * signs * scale).astype(np.float32))

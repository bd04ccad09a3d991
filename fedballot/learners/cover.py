"""What a public pool covers: cells of alike public records, and how far from one a record is still like it.

All of it comes from public records alone. Where a private record lies then depends on that record and on public things.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedballot.learners.checks import FloatArray, IntArray
from fedballot.learners.neighbours import nearest

FAR = 0.1  # share of records that are far from a pool which is of their own kind
MEASURED = 5000  # public records whose neighbours are looked up: enough for any quantile
WORDS = 2  # features that describe a cell
UNLIKE = 0.5  # standard deviations from the pool's mean from which a feature describes a cell
FEWEST = 20  # of them around a cell's records; with fewer, the whole pool's distances decide


@dataclass(frozen=True, eq=False)
class Cover:
    """A pool of P public records in B cells.

    Attributes
    ----------
    cells : int32 (P,), the cell of each public record; larger cells come first.
    reach : float32 (P,), the distance from each up to which a record is near.
    examples : int64 (B,), the row of the public record in the middle of each cell; -1: the cell is empty.
    """

    cells: NDArray[np.int32]
    reach: NDArray[np.float32]
    examples: IntArray


def cover(features: FloatArray, count: int, seed: int) -> Cover:
    """Part the pool into cells, and say how far from each record is far.

    A record is far if it lies farther from its nearest public record than all but 10 % of the public records that have
    theirs in the same cell do. That is a conformal quantile: of new records of the pool's own kind, about 10 % at most
    are expected to be far, whatever their distribution.

    Parameters
    ----------
    features
        (P, d) of the public records, P >= 2.
    count
        Cells B, at most P.
    seed
        Of k-means, and of which records are measured where the pool is large.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different records than cells: some stay empty
        fitted = KMeans(count, n_init=4, random_state=seed).fit(features)
    order = np.argsort(-np.bincount(fitted.labels_, minlength=count), kind="stable")
    cells = np.argsort(order)[fitted.labels_].astype(np.int32)
    examples = np.full(count, -1, dtype=np.int64)
    for cell, cluster in enumerate(order):
        rows = np.flatnonzero(cells == cell)
        if rows.size:
            apart = features[rows] - fitted.cluster_centers_[cluster]
            examples[cell] = rows[np.einsum("ij,ij->i", apart, apart).argmin()]
    measured = np.arange(len(features))
    if len(features) > MEASURED:
        measured = np.random.default_rng(seed).permutation(len(features))[:MEASURED]
    pairs = nearest(features, features[measured], 2)
    others = np.where(pairs[:, 0] == measured, pairs[:, 1], pairs[:, 0])  # itself, or one that is its equal
    distances = _distances(features[measured], features, others)
    reach = np.full(count, _quantile(distances))
    for cell in range(count):
        around = distances[cells[others] == cell]
        if len(around) >= FEWEST:
            reach[cell] = _quantile(around)
    # rounded up: the record that made the quantile is near
    return Cover(cells, np.nextafter(reach.astype(np.float32), np.float32(np.inf))[cells], examples)


def place(
    own: FloatArray, features: FloatArray, cells: NDArray[np.integer], reach: NDArray[np.floating]
) -> tuple[IntArray, NDArray[np.bool_]]:
    """Cell (n,) of each record's nearest public record, and whether it is far from it (n,).

    Parameters
    ----------
    own
        (n, d), finite, n >= 1.
    features
        (P, d) of the public pool.
    cells, reach
        (P,), see `Cover`.
    """
    rows = nearest(features, own, 1)[:, 0]
    return cells[rows].astype(np.int64), _distances(own, features, rows) > reach[rows]


def likeness(x: NDArray[np.floating], cells: NDArray[np.integer], count: int, names: Sequence[str]) -> list[str]:
    """What the public records of each cell are like, by the features (P, d) in which they differ most from the pool.

    An empty text for a cell without records, or one that is like the whole pool.
    """
    spread = x.std(axis=0, dtype=np.float64)
    known = np.flatnonzero(spread > 0)
    out = []
    for cell in range(count):
        inside = x[cells == cell]
        if not len(inside) or not len(known):
            out.append("")
            continue
        apart = ((inside.mean(axis=0, dtype=np.float64) - x.mean(axis=0, dtype=np.float64)) / spread.clip(1e-30))[known]
        most = np.argsort(-np.abs(apart), kind="stable")[:WORDS].tolist()
        words = [f"{'high' if apart[at] > 0 else 'low'} {names[known[at]]}" for at in most if abs(apart[at]) > UNLIKE]
        out.append(", ".join(words))
    return out


def _distances(x: FloatArray, others: FloatArray, rows: IntArray) -> NDArray[np.float64]:
    """Distance of each record (n, d) to one of the others, by its row."""
    out = np.empty(len(x))
    for start in range(0, len(x), MEASURED):
        part = slice(start, start + MEASURED)
        apart = x[part].astype(np.float64) - others[rows[part]]
        out[part] = np.sqrt(np.square(apart).sum(axis=1))
    return out


def _quantile(distances: NDArray[np.float64]) -> float:
    """The conformal quantile: one more distance of the kind is larger with probability 10 % at most."""
    rank = math.ceil((1 - FAR) * (len(distances) + 1))
    return float(np.sort(distances)[min(rank, len(distances)) - 1])

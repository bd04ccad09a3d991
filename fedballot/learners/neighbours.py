"""Exact nearest neighbours in bounded memory, ordered by (distance, index).

The privacy of neighbour votes rests on that order: replacing one record must change the set of k neighbours by at most
one element, for which every distance must be a function of its query and its record alone, and ties must have one
winner. A matrix product does not give that (its rounding depends on where a row lies), so it only sifts: records that
its error bound cannot exclude are compared again, in double precision and one fixed order of summation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import SettingsError
from fedballot.learners.checks import FloatArray, IntArray

Floats = NDArray[np.floating]

QUERY_BLOCK = 512
RECORD_BLOCK = 4096
_REFINED_AT_ONCE = 4096  # pairs whose differences are in memory at the same time
_FAR = 1e15  # coordinates up to which squares and sums of them stay well inside float32


def nearest(
    records: FloatArray,
    queries: FloatArray,
    k: int,
    *,
    query_block: int = QUERY_BLOCK,
    record_block: int = RECORD_BLOCK,
) -> IntArray:
    """The k nearest records of each query by Euclidean distance, nearest first, ties by index.

    Parameters
    ----------
    records, queries
        (n, d) and (Q, d), float32 and finite.
    k
        Neighbours, 1 <= k <= n.
    query_block, record_block
        Rows compared at a time; they bound memory and never change the result.

    Returns
    -------
    int64 (Q, k)

    Raises
    ------
    SettingsError
        For shapes that do not fit, values that are not finite, or k out of range.
    """
    _check(records, queries, k)
    # differences stay as they are when both move, and the bound of the sift shrinks with the norms
    # a score that overflows would lose its record, and a record that makes the answer fail would tell of itself
    near = max(float(np.abs(records).max(initial=0)), float(np.abs(queries).max(initial=0))) <= _FAR
    sifted = np.float32 if near else np.float64
    centre = queries.mean(axis=0, dtype=np.float64).astype(sifted)
    moved = records - centre
    half_norms = 0.5 * np.einsum("ij,ij->i", moved, moved, dtype=np.float64)
    half_norms = half_norms.astype(sifted)
    out = np.empty((len(queries), k), np.int64)
    for start in range(0, len(queries), query_block):
        block = queries[start : start + query_block]
        rows, columns = _sift(block - centre, moved, half_norms, k, record_block)
        distances = _distances(block, records, rows, columns)
        order = np.lexsort((columns, distances, rows))
        firsts = np.searchsorted(rows[order], np.arange(len(block)))
        out[start : start + query_block] = columns[order[firsts[:, None] + np.arange(k)]]
    return out


def _sift(queries: Floats, records: Floats, half_norms: Floats, k: int, record_block: int) -> tuple[IntArray, IntArray]:
    """Pairs (row of a query, record) that hold the k nearest records of each query for certain, and few others.

    A record scores |x|^2/2 - q.x, which is (|x - q|^2 - |q|^2)/2, and is off by less than ``_slack``. One whose least
    score is above the k-th smallest of the largest scores is not among the k nearest.
    """
    query_norms, norms = (np.sqrt(np.einsum("ij,ij->i", x, x, dtype=np.float64)) for x in (queries, records))
    limits = np.full(len(queries), np.inf, queries.dtype)
    rows, columns = np.empty(0, np.int64), np.empty(0, np.int64)
    least, most = np.empty(0, queries.dtype), np.empty(0, queries.dtype)
    for start in range(0, len(records), record_block):
        stop = min(start + record_block, len(records))
        block = queries @ records[start:stop].T
        np.subtract(half_norms[start:stop], block, out=block)
        slack = _slack(query_norms, norms[start:stop], queries.shape[1]).astype(block.dtype)
        if start == 0 and stop >= k:
            limits = np.partition(block + slack, k - 1, axis=1)[:, k - 1]
        block -= slack
        candidates = np.flatnonzero((block <= limits[:, None]).reshape(-1))
        if not len(candidates):
            continue
        rows = np.concatenate([rows, candidates // (stop - start)])
        columns = np.concatenate([columns, start + candidates % (stop - start)])
        low = block.reshape(-1)[candidates]
        least = np.concatenate([least, low])
        most = np.concatenate([most, low + 2 * slack.reshape(-1)[candidates]])
        if stop >= k:
            order = np.lexsort((most, rows))
            rows, columns, least, most = rows[order], columns[order], least[order], most[order]
            firsts = np.searchsorted(rows, np.arange(len(queries)))
            limits = most[firsts + k - 1]
            near = least <= limits[rows]
            rows, columns, least, most = rows[near], columns[near], least[near], most[near]
    return rows, columns


def _slack(query_norms: Floats, norms: Floats, width: int) -> Floats:
    """By how much scores may be off (Q, n), given the norms of queries (Q,) and records (n,).

    With unit roundoff u = 2^-24, which is more than that of double precision, the product is off by d u |q||x| in any
    order of summation (Higham 2002, "Accuracy and stability of numerical algorithms", section 3.1). Storing |x|^2/2,
    subtracting, moving both points, the double precision of ``_distances``, and adding or subtracting this bound add
    less than 10 u (|q| + |x|)^2. Half as much again covers second-order terms. A bound for each record, not one for
    all: else a single record far away would have every other one compared again, and tell of itself by the time.
    """
    u = 1.5 * 2.0**-24
    own = np.add.outer(10 * u * query_norms**2, 10 * u * norms**2)
    return np.asarray(own + np.multiply.outer((width + 20) * u * query_norms, norms))


def _distances(queries: FloatArray, records: FloatArray, rows: IntArray, columns: IntArray) -> NDArray[np.float64]:
    """Squared distances of the pairs, each a function of its two points only."""
    out = np.empty(len(rows))
    for start in range(0, len(rows), _REFINED_AT_ONCE):
        part = slice(start, start + _REFINED_AT_ONCE)
        difference = queries[rows[part]].astype(np.float64)
        difference -= records[columns[part]]
        np.square(difference, out=difference)
        out[part] = difference.sum(axis=1)  # one order of summation for each row of a contiguous array
    return out


def neighbour_votes(labels: IntArray, neighbours: IntArray, n_classes: int) -> IntArray:
    """How many of each query's neighbours have each class (Q, C): Algorithm 2, line 5, times k.

    Source: "Voting-based approaches for differentially private federated learning".
    """
    cells = np.arange(len(neighbours))[:, None] * n_classes + labels[neighbours]
    return np.bincount(cells.reshape(-1), minlength=len(neighbours) * n_classes).reshape(-1, n_classes)


def _check(records: FloatArray, queries: FloatArray, k: int) -> None:
    if records.ndim != 2 or queries.ndim != 2 or records.shape[1] != queries.shape[1] or len(queries) == 0:
        raise SettingsError(
            f"neighbours: records {records.shape} and queries {queries.shape} must be (n, d) and (Q, d)"
        )
    if not 1 <= k <= len(records):
        raise SettingsError(f"neighbours: k={k}, but there are {len(records)} records; k must lie between 1 and that")
    for name, x in (("records", records), ("queries", queries)):
        if x.dtype != np.float32 or not np.isfinite(x).all():
            raise SettingsError(f"neighbours: {name} must be finite float32, but are {x.dtype} or not finite")

"""Label skew: each class is dealt out to the clients in Dirichlet proportions."""

from heapq import heapify, heapreplace

import numpy as np

from fedballot.core.errors import SettingsError
from fedballot.datasets.examples import Indices
from fedballot.datasets.partitions.dealing import deal


def dirichlet(y: Indices, n_clients: int, alpha: float, min_size: int, rng: np.random.Generator) -> list[Indices]:
    """Deal each class out in proportions drawn from a symmetric Dirichlet(alpha), then fill clients up to `min_size`.

    The smaller alpha, the fewer clients hold a class. Clients below `min_size` are filled deterministically from the
    largest client's largest class, so that the skew stays and nothing is drawn again.

    Parameters
    ----------
    y : int64 (n,), class indices.
    alpha : concentration, > 0.
    min_size : smallest number of records of a client.

    Returns
    -------
    `n_clients` disjoint sorted int64 index arrays that cover all records.

    Raises
    ------
    SettingsError
        alpha is not a positive number, or `min_size * n_clients` exceeds the number of records.
    """
    if not 0 < alpha < np.inf:
        raise SettingsError(f"alpha: {alpha}; expected a positive finite number, for example 0.1")
    if min_size * n_clients > len(y):
        raise SettingsError(
            f"min_size: {min_size} x {n_clients} clients = {min_size * n_clients}, but there are only {len(y)} private "
            "records; lower min_size or clients"
        )
    labels = np.unique(y)
    counts = np.empty((n_clients, len(labels)), np.int64)
    for column, label in enumerate(labels):
        shares = np.cumsum(rng.dirichlet(np.full(n_clients, alpha)))
        ends = np.round(shares / shares[-1] * np.count_nonzero(y == label)).astype(np.int64)
        counts[:, column] = np.diff(ends, prepend=0)
    _fill_up(counts, min_size)
    return deal(y, labels, counts, rng)


def _fill_up(counts: Indices, min_size: int) -> None:
    """Move records in `counts` (clients x classes), in place, until every client has `min_size`."""
    sizes = counts.sum(1)
    donors = [(-int(size), client_id) for client_id, size in enumerate(sizes) if size > min_size]
    heapify(donors)
    for client_id in np.flatnonzero(sizes < min_size):
        while (missing := min_size - int(counts[client_id].sum())) > 0:
            size, donor = -donors[0][0], donors[0][1]
            label = int(np.argmax(counts[donor]))
            moved = min(missing, int(counts[donor, label]), size - min_size)
            counts[donor, label] -= moved
            counts[client_id, label] += moved
            heapreplace(donors, (moved - size, donor))

"""From label counts per client to records."""

import numpy as np

from fedballot.datasets.examples import Indices


def deal(y: Indices, labels: Indices, counts: Indices, rng: np.random.Generator) -> list[Indices]:
    """Give client `i` `counts[i, j]` random records of class `labels[j]`.

    Parameters
    ----------
    y : int64 (n,), class indices.
    labels : int64 (C,), the classes that occur in `y`.
    counts : int64 (n_clients, C), whose column sums are the class sizes.

    Returns
    -------
    One sorted int64 index array per client; disjoint, covering all records.
    """
    dealt = [
        np.split(rng.permutation(np.flatnonzero(y == label)), np.cumsum(counts[:, column])[:-1])
        for column, label in enumerate(labels)
    ]
    return [np.sort(np.concatenate([per_class[client_id] for per_class in dealt])) for client_id in range(len(counts))]

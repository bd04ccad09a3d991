"""Every client gets a uniformly random share."""

import numpy as np

from fedballot.datasets.examples import Indices


def iid(n_examples: int, n_clients: int, rng: np.random.Generator) -> list[Indices]:
    """Shuffle the records and cut them into `n_clients` shares whose sizes differ by at most one.

    Returns
    -------
    `n_clients` disjoint sorted int64 index arrays that cover all records.
    """
    return [np.sort(part) for part in np.array_split(rng.permutation(n_examples), n_clients)]

"""Label skew: each client holds a fixed number of classes."""

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import RunError, SettingsError
from fedballot.datasets.examples import Indices
from fedballot.datasets.partitions.dealing import deal

_SCALING_ROUNDS = 500
_NEAR = 1e-6  # a share this close to an integer counts as one


def classes_per_client(y: Indices, n_clients: int, classes_per_client: int, rng: np.random.Generator) -> list[Indices]:
    """Deal out all records so that each client holds cyclically consecutive classes and sizes are as even as can be.

    The non-IID row of "Voting-based approaches for differentially private federated learning": the sorted MNIST
    training set over 100 clients, 600 images of 6 digits each.

    Parameters
    ----------
    y : int64 (n,), class indices.
    classes_per_client : number of classes of every client.

    Returns
    -------
    `n_clients` disjoint sorted int64 index arrays that cover all records.

    Raises
    ------
    SettingsError
        More classes per client than there are, so few that a class would belong to nobody, or too few records.
    """
    labels, supply = np.unique(y, return_counts=True)
    if not 1 <= classes_per_client <= len(labels):
        raise SettingsError(
            f"classes_per_client: {classes_per_client}; expected 1 to {len(labels)}, the classes of the private records"
        )
    if classes_per_client * n_clients < len(labels):
        raise SettingsError(
            f"classes_per_client: {classes_per_client} x {n_clients} clients leave some of the {len(labels)} classes "
            f"to nobody; expected at least {-(-len(labels) // n_clients)}"
        )
    first = np.arange(n_clients) * len(labels) // n_clients
    held = np.zeros((n_clients, len(labels)), bool)
    held[np.arange(n_clients)[:, None], (first[:, None] + np.arange(classes_per_client)) % len(labels)] = True
    short = np.flatnonzero(supply < held.sum(0))
    if len(short):
        raise SettingsError(
            f"clients: {held[:, short[0]].sum()} clients would share the {supply[short[0]]} records of class "
            f"{labels[short[0]]}; lower clients or classes_per_client"
        )
    # Every held cell gets one record before the rest is shared out, so that no client misses one of its classes.
    spare = supply - held.sum(0)
    return deal(y, labels, held + _rounded(_shares(held, spare), held, spare), rng)


def _shares(held: NDArray[np.bool_], supply: Indices) -> NDArray[np.float64]:
    """Shares on the held cells with column sums `supply` and row sums as equal as alternate scaling makes them."""
    target = supply.sum() / len(held)
    shares: NDArray[np.float64] = held * (supply / held.sum(0))
    for _ in range(_SCALING_ROUNDS):
        rows = shares.sum(1, keepdims=True)
        if np.abs(rows - target).max() <= 1e-9 * target:
            break
        shares *= target / np.where(rows > 0, rows, 1)
        columns = shares.sum(0)
        shares *= supply / np.where(columns > 0, columns, 1)
    return shares


def _rounded(shares: NDArray[np.float64], held: NDArray[np.bool_], supply: Indices) -> Indices:
    """Round every cell and row sum up or down while the column sums stay exact (a transportation problem)."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, vstack

    client_id, label = np.nonzero(held)
    cells, rows = shares[client_id, label], shares.sum(1)
    low, high = np.floor(cells + _NEAR), np.ceil(cells - _NEAR)
    ones, index = np.ones(len(cells)), np.arange(len(cells))
    by_client = coo_array((ones, (client_id, index)), shape=(len(held), len(cells))).tocsr()
    by_label = coo_array((ones, (label, index)), shape=(len(supply), len(cells))).tocsr()
    result = linprog(
        low - cells,
        A_ub=vstack([by_client, -by_client]),
        b_ub=np.concatenate([np.ceil(rows - _NEAR), -np.floor(rows + _NEAR)]),
        A_eq=by_label,
        b_eq=supply,
        bounds=np.column_stack([low, high]),
        method="highs-ds",
    )
    if result.x is None:
        raise RunError(f"classes_per_client: the shares could not be rounded ({result.message}); please report this")
    counts = np.zeros(held.shape, np.int64)
    counts[client_id, label] = np.round(result.x)
    return counts

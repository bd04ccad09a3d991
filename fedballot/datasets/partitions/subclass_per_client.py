"""Label skew below the label: each client knows every class by one of its subclasses only."""

import numpy as np

from fedballot.core.errors import SettingsError
from fedballot.datasets.examples import Indices


def subclass_per_client(y: Indices, groups: Indices | None, n_clients: int, rng: np.random.Generator) -> list[Indices]:
    """Give client `i` records of subclass `i mod m` of each class of `m` subclasses; clients that share one halve it.

    The non-IID rows of "Federated model distillation with noise-free differential privacy": one subclass per superclass
    of CIFAR-100.

    Parameters
    ----------
    y : int64 (n,), class indices.
    groups : int64 (n,), subclass of each record, or None where classes have none.

    Returns
    -------
    `n_clients` disjoint sorted int64 index arrays that cover all records.

    Raises
    ------
    SettingsError
        No subclasses, or fewer clients than a class has subclasses.
    """
    if groups is None:
        raise SettingsError(
            "partition: 'subclass-per-client' needs classes that are joined from others: set private_classes to "
            "new=a+b,... (with test_source=private)"
        )
    dealt: list[list[Indices]] = [[] for _ in range(n_clients)]
    for label in np.unique(y):
        subclasses = np.unique(groups[y == label])
        if len(subclasses) > n_clients:
            raise SettingsError(
                f"clients: {n_clients}, but class {label} has {len(subclasses)} subclasses, some of which would belong "
                f"to nobody; expected at least {len(subclasses)} clients"
            )
        for place, subclass in enumerate(subclasses):
            records = rng.permutation(np.flatnonzero((y == label) & (groups == subclass)))
            holders = range(place, n_clients, len(subclasses))
            for client_id, share in zip(holders, np.array_split(records, len(holders)), strict=True):
                dealt[client_id].append(share)
    return [np.sort(np.concatenate(parts)) for parts in dealt]

"""Partitions of the private records over clients: one scheme per file, each a pure function of its arguments."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedballot.core.errors import SettingsError
from fedballot.datasets.examples import Indices
from fedballot.datasets.partitions.by_group import by_group
from fedballot.datasets.partitions.classes_per_client import classes_per_client
from fedballot.datasets.partitions.dirichlet import dirichlet
from fedballot.datasets.partitions.iid import iid
from fedballot.datasets.partitions.subclass_per_client import subclass_per_client

__all__ = ["PARTITIONS", "by_group", "classes_per_client", "dirichlet", "iid", "partition", "subclass_per_client"]


@dataclass(frozen=True, eq=False)
class Request:
    """Everything that a scheme may ask for; see `partition`."""

    y: Indices
    groups: Indices | None
    n_clients: int
    alpha: float
    min_size: int
    classes_per_client: int
    rng: np.random.Generator


PARTITIONS: dict[str, Callable[[Request], list[Indices]]] = {
    "iid": lambda r: iid(len(r.y), r.n_clients, r.rng),
    "dirichlet": lambda r: dirichlet(r.y, r.n_clients, r.alpha, r.min_size, r.rng),
    "classes-per-client": lambda r: classes_per_client(r.y, r.n_clients, r.classes_per_client, r.rng),
    "by-group": lambda r: by_group(r.groups, r.n_clients),
    "subclass-per-client": lambda r: subclass_per_client(r.y, r.groups, r.n_clients, r.rng),
}


def partition(
    scheme: str,
    y: Indices,
    groups: Indices | None,
    n_clients: int,
    *,
    alpha: float,
    min_size: int,
    classes_per_client: int,
    rng: np.random.Generator,
) -> list[Indices]:
    """Deal all records out to clients.

    Parameters
    ----------
    scheme : a key of `PARTITIONS`.
    y : int64 (n,), class indices.
    groups : int64 (n,) natural ids, or None; used by "by-group" and, as subclasses, by "subclass-per-client".
    n_clients : number of clients, at least 1.
    alpha : Dirichlet concentration; used by "dirichlet".
    min_size : smallest number of records of a client; "dirichlet" moves records to reach it, the others fail.
    classes_per_client : used by "classes-per-client".

    Returns
    -------
    `n_clients` disjoint sorted int64 index arrays that cover all records.

    Raises
    ------
    SettingsError
        Unknown scheme, a setting out of range, or a client below `min_size`.
    """
    if scheme not in PARTITIONS:
        raise SettingsError(f"partition: {scheme!r}; expected one of {', '.join(PARTITIONS)}")
    if n_clients < 1:
        raise SettingsError(f"clients: {n_clients}; expected at least 1")
    if min_size < 0:
        raise SettingsError(f"min_size: {min_size}; expected 0 or more")
    parts = PARTITIONS[scheme](Request(y, groups, n_clients, alpha, min_size, classes_per_client, rng))
    smallest = min(range(n_clients), key=lambda client_id: len(parts[client_id]))
    if len(parts[smallest]) < min_size:
        raise SettingsError(
            f"min_size: client {smallest} has {len(parts[smallest])} of {len(y)} private records under {scheme!r} "
            f"with {n_clients} clients, less than min_size={min_size}; lower min_size or clients"
        )
    return parts

"""Partitions of the private records over clients: one scheme per file, each a pure function of its arguments.

Other packages add schemes by entry points of the group ``fedballot.partitions``, see `fedballot.core.plugins`. Such a
scheme is a function of a `Records`:

>>> def by_turns(records):
...     return [np.arange(i, len(records.y), records.n_clients) for i in range(records.n_clients)]
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedballot.core import plugins
from fedballot.core.errors import SettingsError
from fedballot.datasets.examples import Indices
from fedballot.datasets.partitions.by_group import by_group
from fedballot.datasets.partitions.classes_per_client import classes_per_client
from fedballot.datasets.partitions.dirichlet import dirichlet
from fedballot.datasets.partitions.iid import iid
from fedballot.datasets.partitions.subclass_per_client import subclass_per_client

__all__ = [
    "PARTITIONS",
    "Records",
    "Scheme",
    "by_group",
    "check_partition",
    "classes_per_client",
    "dirichlet",
    "get_partition",
    "iid",
    "partition",
    "subclass_per_client",
]
GROUP = "fedballot.partitions"


@dataclass(frozen=True, eq=False)
class Records:
    """The private records to deal out, and everything else that a scheme may ask for; see `partition`."""

    y: Indices
    groups: Indices | None
    n_clients: int
    alpha: float
    min_size: int
    classes_per_client: int
    rng: np.random.Generator


Scheme = Callable[[Records], Sequence[Indices]]

PARTITIONS: dict[str, Scheme] = {
    "iid": lambda r: iid(len(r.y), r.n_clients, r.rng),
    "dirichlet": lambda r: dirichlet(r.y, r.n_clients, r.alpha, r.min_size, r.rng),
    "classes-per-client": lambda r: classes_per_client(r.y, r.n_clients, r.classes_per_client, r.rng),
    "by-group": lambda r: by_group(r.groups, r.n_clients),
    "subclass-per-client": lambda r: subclass_per_client(r.y, r.groups, r.n_clients, r.rng),
}


def check_partition(name: str) -> None:
    """Refuse what is no name of a scheme; nothing is imported.

    Raises
    ------
    SettingsError
        With the names that there are.
    """
    plugins.check_name(name, PARTITIONS, GROUP)


def get_partition(name: str) -> Scheme:
    """The scheme of this name: ours, one that a package adds, or the one at ``package.module:NAME``.

    Raises
    ------
    SettingsError
        If there is none.
    """
    return plugins.get(name, PARTITIONS, GROUP, Callable)


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
    scheme : a name that `get_partition` knows.
    y : int64 (n,), class indices.
    groups : int64 (n,) natural ids, or None; used by "by-group" and, as subclasses, by "subclass-per-client".
    n_clients : number of clients, at least 1.
    alpha : Dirichlet concentration; used by "dirichlet".
    min_size : smallest number of records of a client; "dirichlet" moves records to reach it, the others fail.
    classes_per_client : used by "classes-per-client".

    Returns
    -------
    `n_clients` disjoint sorted int64 index arrays; ours cover all records.

    Raises
    ------
    SettingsError
        Unknown scheme, one that deals wrongly, a setting out of range, or a client below `min_size`.
    """
    deal = get_partition(scheme)
    if n_clients < 1:
        raise SettingsError(f"clients: {n_clients}; expected at least 1")
    if min_size < 0:
        raise SettingsError(f"min_size: {min_size}; expected 0 or more")
    records = Records(y, groups, n_clients, alpha, min_size, classes_per_client, rng)
    parts = _checked(scheme, deal(records), records)
    smallest = min(range(n_clients), key=lambda client_id: len(parts[client_id]))
    if len(parts[smallest]) < min_size:
        raise SettingsError(
            f"min_size: client {smallest} has {len(parts[smallest])} of {len(y)} private records under {scheme!r} "
            f"with {n_clients} clients, less than min_size={min_size}; lower min_size or clients"
        )
    return parts


def _checked(scheme: str, parts: Sequence[Indices], records: Records) -> list[Indices]:
    """The parts, sorted; a scheme of another package may deal wrongly."""
    arrays = [np.asarray(part) if len(part) else np.empty(0, np.int64) for part in parts]
    numbers = all(array.ndim == 1 and array.dtype.kind in "iu" for array in arrays)
    rows = np.concatenate(arrays).astype(np.int64) if arrays and numbers else np.empty(0, np.int64)
    wrong = {
        f"{len(arrays)} parts for {records.n_clients} clients": len(arrays) != records.n_clients,
        "parts that are no vectors of row numbers": not numbers,
        f"rows that are not among the {len(records.y)}": ((rows < 0) | (rows >= len(records.y))).any(),
        "a row to two clients, or twice": len(np.unique(rows)) < len(rows),
    }
    for words, holds in wrong.items():
        if holds:
            raise SettingsError(f"partition: {scheme!r} deals out {words}; see fedballot.datasets.partitions.partition")
    return [np.sort(array.astype(np.int64)) for array in arrays]

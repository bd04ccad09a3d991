"""One client per natural group: writer, site, file, domain."""

import numpy as np

from fedballot.core.errors import SettingsError
from fedballot.datasets.examples import Indices


def by_group(groups: Indices | None, n_clients: int) -> list[Indices]:
    """Client `i` gets all records of the i-th smallest group id.

    Parameters
    ----------
    groups : int64 (n,), or None for a data set without natural ids.

    Returns
    -------
    `n_clients` disjoint sorted int64 index arrays that cover all records.

    Raises
    ------
    SettingsError
        No groups, or another number of groups than clients.
    """
    if groups is None:
        raise SettingsError(
            "partition: 'by-group' needs a data set with natural ids (a `group` column or key, a pattern of files "
            "such as 'sites/*.csv', or a set with domains); this one has none"
        )
    ids, inverse = np.unique(groups, return_inverse=True)
    if len(ids) != n_clients:
        raise SettingsError(
            f"clients: {n_clients}, but the private records come from {len(ids)} groups and 'by-group' makes each "
            f"group one client; set clients={len(ids)}"
        )
    ends = np.cumsum(np.bincount(inverse, minlength=n_clients))[:-1]
    return np.split(np.argsort(inverse, kind="stable"), ends)

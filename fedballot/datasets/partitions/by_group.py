"""One agent per natural group: writer, site, file, domain."""

import numpy as np

from fedballot.core.errors import SettingsError
from fedballot.datasets.examples import Indices


def by_group(groups: Indices | None, n_agents: int) -> list[Indices]:
    """Agent `i` gets all records of the i-th smallest group id.

    Parameters
    ----------
    groups : int64 (n,), or None for a data set without natural ids.

    Returns
    -------
    `n_agents` disjoint sorted int64 index arrays that cover all records.

    Raises
    ------
    SettingsError
        No groups, or another number of groups than agents.
    """
    if groups is None:
        raise SettingsError(
            "partition: 'by-group' needs a data set with natural ids (a `group` column or key, a pattern of files "
            "such as 'sites/*.csv', or a set with domains); this one has none"
        )
    ids, inverse = np.unique(groups, return_inverse=True)
    if len(ids) != n_agents:
        raise SettingsError(
            f"agents: {n_agents}, but the private records come from {len(ids)} groups and 'by-group' makes each "
            f"group one agent; set agents={len(ids)}"
        )
    ends = np.cumsum(np.bincount(inverse, minlength=n_agents))[:-1]
    return np.split(np.argsort(inverse, kind="stable"), ends)

"""Partitions of the private records over agents: one scheme per file, each a pure function of its arguments."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedballot.core.errors import SettingsError
from fedballot.datasets.examples import Indices
from fedballot.datasets.partitions.by_group import by_group
from fedballot.datasets.partitions.classes_per_agent import classes_per_agent
from fedballot.datasets.partitions.dirichlet import dirichlet
from fedballot.datasets.partitions.iid import iid
from fedballot.datasets.partitions.subclass_per_agent import subclass_per_agent

__all__ = ["PARTITIONS", "by_group", "classes_per_agent", "dirichlet", "iid", "partition", "subclass_per_agent"]


@dataclass(frozen=True, eq=False)
class Request:
    """Everything that a scheme may ask for; see `partition`."""

    y: Indices
    groups: Indices | None
    n_agents: int
    alpha: float
    min_size: int
    classes_per_agent: int
    rng: np.random.Generator


PARTITIONS: dict[str, Callable[[Request], list[Indices]]] = {
    "iid": lambda r: iid(len(r.y), r.n_agents, r.rng),
    "dirichlet": lambda r: dirichlet(r.y, r.n_agents, r.alpha, r.min_size, r.rng),
    "classes-per-agent": lambda r: classes_per_agent(r.y, r.n_agents, r.classes_per_agent, r.rng),
    "by-group": lambda r: by_group(r.groups, r.n_agents),
    "subclass-per-agent": lambda r: subclass_per_agent(r.y, r.groups, r.n_agents, r.rng),
}


def partition(
    scheme: str,
    y: Indices,
    groups: Indices | None,
    n_agents: int,
    *,
    alpha: float,
    min_size: int,
    classes_per_agent: int,
    rng: np.random.Generator,
) -> list[Indices]:
    """Deal all records out to agents.

    Parameters
    ----------
    scheme : a key of `PARTITIONS`.
    y : int64 (n,), class indices.
    groups : int64 (n,) natural ids, or None; used by "by-group" and, as subclasses, by "subclass-per-agent".
    n_agents : number of agents, at least 1.
    alpha : Dirichlet concentration; used by "dirichlet".
    min_size : smallest number of records of an agent; "dirichlet" moves records to reach it, the others fail.
    classes_per_agent : used by "classes-per-agent".

    Returns
    -------
    `n_agents` disjoint sorted int64 index arrays that cover all records.

    Raises
    ------
    SettingsError
        Unknown scheme, a setting out of range, or an agent below `min_size`.
    """
    if scheme not in PARTITIONS:
        raise SettingsError(f"partition: {scheme!r}; expected one of {', '.join(PARTITIONS)}")
    if n_agents < 1:
        raise SettingsError(f"agents: {n_agents}; expected at least 1")
    if min_size < 0:
        raise SettingsError(f"min_size: {min_size}; expected 0 or more")
    parts = PARTITIONS[scheme](Request(y, groups, n_agents, alpha, min_size, classes_per_agent, rng))
    smallest = min(range(n_agents), key=lambda agent: len(parts[agent]))
    if len(parts[smallest]) < min_size:
        raise SettingsError(
            f"min_size: agent {smallest} has {len(parts[smallest])} of {len(y)} private records under {scheme!r} "
            f"with {n_agents} agents, less than min_size={min_size}; lower min_size or agents"
        )
    return parts

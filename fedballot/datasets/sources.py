"""Loading a data set by name or by path."""

from dataclasses import replace

import numpy as np

from fedballot.core import plugins
from fedballot.core.errors import DataError, did_you_mean
from fedballot.datasets.examples import Examples, Source
from fedballot.datasets.readers import foreign
from fedballot.datasets.readers.builtin import BUILTIN, load_builtin
from fedballot.datasets.readers.files import load_path
from fedballot.datasets.readers.places import KINDS, looks_like_path, places
from fedballot.datasets.schema.reading import PLAIN, Reading
from fedballot.datasets.unchanged import WhileUnchanged, state_of, while_unchanged

__all__ = ["Examples", "Source", "load", "names"]


def names() -> dict[str, str]:
    """Data sets by name: ours, then those that packages add, each with a line that says what it is or whose.

    Raises
    ------
    SettingsError
        If a name is taken twice.
    """
    ours = {name: entry.summary for name, entry in BUILTIN.items()}
    added = plugins.installed(foreign.GROUP, BUILTIN)
    return ours | {name: f"of {plugin.origin}" for name, plugin in added.items() if not name.startswith(".")}


@while_unchanged(lambda name: state_of([name]), maxsize=8)
def load(name: str) -> Source:
    """Load a data set once per process; files again when they have changed.

    Parameters
    ----------
    name : a name of `names()`, or `package.module:NAME` of a function that returns a `Source`; also with `@` and the
        groups that are wanted (`office-caltech10@amazon+dslr`); or a path: .npz, a table, an image folder, or a
        folder of tables or pattern such as 'sites/*.csv' whose files are one client each.

    Raises
    ------
    DataError
        Unknown name, nothing at the path, or bad content: names the file and the row, column or key.
    SettingsError
        If what another package has cannot be imported.

    Examples
    --------
    >>> load("digits").train.x.shape
    (1797, 8, 8)
    """
    check_there(name)
    set_name, at, groups = name.partition("@")
    if set_name not in BUILTIN and looks_like_path(name):
        return load_path(name)
    source = load_builtin(set_name) if set_name in BUILTIN else foreign.load_foreign(set_name)
    return keep_groups(source, tuple(groups.split("+"))) if at else source


def check_there(name: str) -> None:
    """Refuse the name of a data set that does not exist, or a path at which nothing is; no record is read.

    Raises
    ------
    DataError
        Naming it, and what is expected.
    """
    set_name = name.partition("@")[0]
    if set_name in BUILTIN:
        return
    if looks_like_path(name):
        places(name)
    elif ":" not in set_name and not plugins.find(set_name, foreign.GROUP):
        others = list(names())
        raise DataError(
            f"dataset: {name!r} is unknown{did_you_mean(name, others)}. Expected {', '.join(others)}, "
            f"'package.module:NAME', or a {KINDS}"
        )


def load_as(name: str, reading: Reading) -> Source:
    """:func:`load`, but a user's own files are read as ``reading`` says."""
    if reading == PLAIN or name.partition("@")[0] in BUILTIN or not looks_like_path(name):
        return load(name)
    return _load_files(name, reading)


_load_files = WhileUnchanged(load_path, lambda name, reading=PLAIN: state_of([name]), maxsize=8)


def keep_groups(source: Source, groups: tuple[str, ...]) -> Source:
    """The records of some groups of a source, such as one domain of several.

    Raises
    ------
    DataError
        The source has no groups, or none of that name.
    """
    wrong = [group for group in groups if group not in source.group_names]
    if wrong or source.train.groups is None or len(set(groups)) < len(groups):
        groups_there = ", ".join(source.group_names) or "none"
        raise DataError(
            f"dataset: {source.name!r} has the groups {groups_there}; expected some of them, not {'+'.join(groups)!r}"
        )
    ids = np.array([source.group_names.index(group) for group in groups])
    rows = np.flatnonzero(np.isin(source.train.groups, ids))
    train = source.train
    numbers = np.argsort(ids, kind="stable")
    numbered = numbers[np.searchsorted(ids[numbers], source.train.groups[rows])]
    return replace(
        source,
        name=f"{source.name}@{'+'.join(groups)}",
        train=Examples(train.x[rows], train.y[rows], numbered),
        group_names=groups,
        origin=frozenset(f"{source.name}@{group}" for group in groups),
    )

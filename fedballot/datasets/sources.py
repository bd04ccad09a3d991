"""Loading a data set by name or by path."""

import difflib
from functools import lru_cache

from fedballot.datasets.builtin import BUILTIN, load_builtin
from fedballot.datasets.examples import Examples, Source
from fedballot.datasets.files import KINDS, load_path, looks_like_path
from fedballot.errors import DataError

__all__ = ["Examples", "Source", "load", "names"]


def names() -> dict[str, str]:
    """Built-in data sets: name -> one line of description."""
    return {name: entry.summary for name, entry in BUILTIN.items()}


@lru_cache(maxsize=8)
def load(name: str) -> Source:
    """Load a data set once per process.

    Parameters
    ----------
    name : a name of `names()`, or a path: .npz, .csv, .parquet, an image folder, or a pattern such as 'sites/*.csv'
        whose files are one party each.

    Raises
    ------
    DataError
        Unknown name, nothing at the path, or bad content: names the file and the row, column or key.
    """
    if name in BUILTIN:
        return load_builtin(name)
    if looks_like_path(name):
        return load_path(name)
    near = difflib.get_close_matches(name, BUILTIN, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise DataError(f"dataset: {name!r} is unknown; {hint}expected {', '.join(BUILTIN)}, or a {KINDS}")

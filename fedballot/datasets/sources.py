"""Loading a data set by name or by path."""

from functools import lru_cache

from fedballot.datasets.builtin import BUILTIN, load_builtin
from fedballot.datasets.examples import Examples, Source
from fedballot.datasets.files import KINDS, load_path, looks_like_path
from fedballot.errors import DataError, did_you_mean

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
    near = did_you_mean(name, BUILTIN)
    raise DataError(f"dataset: {name!r} is unknown{near}. Expected {', '.join(BUILTIN)}, or a {KINDS}")

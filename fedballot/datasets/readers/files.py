"""A user's own data: one file, an image folder, or a pattern of files where each file is one client."""

import glob
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedballot.core import plugins
from fedballot.core.errors import DataError, FedballotError
from fedballot.core.files import with_home
from fedballot.datasets.checks import encode
from fedballot.datasets.examples import Examples, Indices, Source
from fedballot.datasets.readers import foreign
from fedballot.datasets.readers.folders import read_folder
from fedballot.datasets.readers.leaf import read_leaf
from fedballot.datasets.readers.npz import read_npz
from fedballot.datasets.readers.raw import Raw
from fedballot.datasets.readers.tables import read_csv, read_parquet

READERS: dict[str, Callable[[Path], Raw]] = {
    ".npz": read_npz,
    ".csv": read_csv,
    ".parquet": read_parquet,
    ".json": read_leaf,
}
_WITH_PERSONS: dict[str, Callable[[Path, str], Raw]] = {".npz": read_npz, ".csv": read_csv, ".parquet": read_parquet}
KINDS = f"{', '.join(READERS)} file, image folder, folder of LEAF's JSON files, or pattern such as 'sites/*.csv'"


def looks_like_path(name: str) -> bool:
    """True if `name` is meant as a path or pattern rather than as a built-in name."""
    path = with_home(name)
    if not name or len(path.parts) > 1 or path.suffix in READERS or glob.has_magic(name) or path.exists():
        return bool(name)
    return ":" not in name and path.suffix != "" and plugins.find(path.suffix, foreign.GROUP) is not None


def load_path(name: str) -> Source:
    """Load a file, an image folder, or all files that match a pattern.

    The arrays stay in memory and are never copied to the cache: private records stay where their owner put them.

    Raises
    ------
    DataError
        Nothing there, an unknown kind of file, bad content, files that do not fit together, or a single class.
    """
    path = with_home(name).absolute()
    if path.exists():
        return _assemble(str(path.resolve()), [path], [read_raw(path)], one_client_each=False)
    if not glob.has_magic(name):
        raise DataError(f"{path}: no such file or folder; expected a {KINDS}")
    paths = [Path(match) for match in sorted(glob.glob(str(path), recursive=True))]
    if not paths:
        raise DataError(f"{path}: no file matches this pattern; expected at least one")
    return _assemble(str(path), paths, [read_raw(each) for each in paths], one_client_each=True)


def read_raw(path: Path, person: str = "") -> Raw:
    """Read one file or image folder; labels stay text. ``person`` is the column that says whose record each is.

    Raises
    ------
    DataError
        An unknown kind of file, or bad content.
    """
    try:
        return _read(path, person)
    except (FedballotError, OSError, MemoryError):
        raise
    except Exception as error:  # libraries raise many kinds for content that nobody expects
        raise DataError(f"{path}: {type(error).__name__} {error}; expected a {KINDS}") from error


def _read(path: Path, person: str) -> Raw:
    if person:
        if path.is_dir() or path.suffix.lower() not in _WITH_PERSONS:
            kinds = ", ".join(_WITH_PERSONS)
            raise DataError(f"{path}: has no columns, so none that says whose record each is; expected {kinds}")
        return _WITH_PERSONS[path.suffix.lower()](path, person)
    if path.is_dir():
        return read_leaf(path) if any(path.glob("*.json")) else read_folder(path)
    read = READERS.get(path.suffix.lower()) or foreign.reader_of(path.suffix.lower())
    if read is None:
        raise DataError(f"{path}: unknown kind of file {path.suffix!r}; expected a {KINDS}")
    return read(path)


def _assemble(name: str, paths: list[Path], raws: list[Raw], one_client_each: bool) -> Source:
    if one_client_each:
        _check_alike(paths, raws)
    x = raws[0].x if len(raws) == 1 else np.concatenate([raw.x for raw in raws])
    n = len(x)
    labels = np.concatenate([raw.labels for raw in raws])
    test = raws[0].test
    y, classes = encode(labels if test is None else np.concatenate([labels, test[1]]))
    if len(classes) < 2:
        raise DataError(f"{name}: every row has the label {classes[0]!r}; expected at least two classes")
    unseen = np.flatnonzero(~np.isin(y[n:], y[:n]))
    if len(unseen):
        raise DataError(
            f"{name}: key y_test: row {unseen[0]} has the label {classes[y[n + unseen[0]]]!r}, which no row of y_train "
            "has; expected the classes of the training rows"
        )
    groups, group_names = _groups(paths, raws, one_client_each)
    return Source(
        name,
        classes,
        Examples(x, y[:n], groups),
        None if test is None else Examples(test[0], y[n:]),
        group_names,
        origin=frozenset(str(path.resolve()) for path in paths),
    )


def _groups(paths: list[Path], raws: list[Raw], one_client_each: bool) -> tuple[Indices | None, tuple[str, ...]]:
    if one_client_each:
        parents = [str(path.parent) for path in paths]
        same_folder = len(set(parents)) == 1
        names = tuple(path.stem if same_folder else str(path) for path in paths)
        return np.repeat(np.arange(len(raws)), [len(raw.x) for raw in raws]), names
    return (None, ()) if raws[0].groups is None else encode(raws[0].groups)


def _check_alike(paths: list[Path], raws: list[Raw]) -> None:
    first = raws[0]
    for path, raw in zip(paths, raws, strict=True):
        if raw.groups is not None or raw.test is not None:
            raise DataError(
                f"{path}: holds groups or a test split of its own, but each file of a pattern is one client"
            )
        if raw.x.shape[1:] != first.x.shape[1:] or raw.x.dtype != first.x.dtype:
            raise DataError(
                f"{path}: rows of shape {raw.x.shape[1:]} and dtype {raw.x.dtype}, but {paths[0]} has "
                f"{first.x.shape[1:]} and {first.x.dtype}; expected the same in every file"
            )
        if raw.columns != first.columns:
            i = next(i for i, pair in enumerate(zip(raw.columns, first.columns, strict=True)) if pair[0] != pair[1])
            raise DataError(
                f"{path}: feature column {i} is {raw.columns[i]!r}, in {paths[0]} {first.columns[i]!r}; "
                "expected the same columns in the same order in every file"
            )

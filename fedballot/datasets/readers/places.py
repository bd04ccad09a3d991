"""Where the files lie that a name of a user's own data means: a file, a folder, or a pattern of clients' files."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable
from pathlib import Path

from fedballot.core import plugins
from fedballot.core.errors import DataError
from fedballot.core.files import with_home
from fedballot.datasets.readers import foreign
from fedballot.datasets.readers.folders import BESIDE, hidden
from fedballot.datasets.readers.leaf import read_leaf
from fedballot.datasets.readers.npz import read_npz
from fedballot.datasets.readers.raw import Raw
from fedballot.datasets.readers.tables import PACKED, SUFFIXES, is_table
from fedballot.datasets.schema.words import listed

READERS: dict[str, Callable[[Path], Raw]] = {".npz": read_npz, ".json": read_leaf}
KINDS = (
    f"{', '.join((*READERS, *SUFFIXES))} file (.csv and .tsv also in .gz or .zip), folder of such files, image folder, "
    "folder of LEAF's JSON files, or pattern such as 'sites/*.csv'"
)
PUBLIC = {"public", "test"}  # words in the name of a folder's public file


def looks_like_path(name: str) -> bool:
    """True if `name` is meant as a path or pattern rather than as a built-in name."""
    path = with_home(name)
    known = path.suffix in READERS or is_table(path)
    if not name or len(path.parts) > 1 or known or glob.has_magic(name) or path.exists():
        return bool(name)
    return ":" not in name and path.suffix != "" and plugins.find(path.suffix, foreign.GROUP) is not None


def places(name: str) -> tuple[str, list[Path], bool]:
    """The full name, the files or folders that it means, and whether each is one client.

    In a folder of tables or arrays each file is one client, but for the public one (:func:`public_in`).

    Raises
    ------
    DataError
        Nothing is there.
    """
    path = with_home(name).absolute()
    if path.exists():
        own = _own_files(path)
        return str(path.resolve()), own or [path], len(own) > 1
    if not glob.has_magic(name):
        raise DataError(f"{path}: no such file or folder; expected a {KINDS}")
    paths = [Path(match) for match in sorted(glob.glob(str(path), recursive=True))]
    if not paths:
        raise DataError(f"{path}: no file matches this pattern; expected at least one")
    return str(path), paths, True


def public_in(name: str) -> Path | None:
    """The file of a folder that is called public or test, beside others; None where there is none.

    Raises
    ------
    DataError
        Several files are called so.
    """
    path = with_home(name).absolute()
    files = _records_in(path)
    public = [file for file in files if _words(file) & PUBLIC]
    if len(public) > 1 and len(public) < len(files):
        raise DataError(
            f"{path}: {listed(file.name for file in public)} are all called public or test; expected one such file. "
            f"Move the others out of the folder, or name the files of the clients: {str(path / '*.csv')!r}"
        )
    return public[0] if len(public) == 1 < len(files) else None


def _own_files(folder: Path) -> list[Path]:
    """The files of a folder that are clients'; none where it is no folder of tables or arrays."""
    public = public_in(str(folder))
    files = [file for file in _records_in(folder) if file != public]
    names = [_stem(file) for file in files]
    for file, name in zip(files, names, strict=True):
        if names.count(name) > 1:
            raise DataError(
                f"{file}: another file of the folder has this name, too; expected each client's records once"
            )
    return files


def _records_in(folder: Path) -> list[Path]:
    """Tables and arrays right in a folder; none where its sub-folders hold something else, such as images."""
    if not folder.is_dir():
        return []
    inside = [path for path in sorted(folder.iterdir()) if not hidden(path)]
    files = [path for path in inside if path.is_file() and (is_table(path) or path.suffix.lower() == ".npz")]
    below = (one for path in inside if path.is_dir() for one in path.iterdir() if not hidden(one))
    if any(one.is_file() and one.suffix.lower() not in BESIDE and not is_table(one) for one in below):
        return []
    return files


def _stem(file: Path) -> str:
    name = Path(file.stem) if file.suffix.lower() in PACKED else file
    return name.stem


def _words(file: Path) -> set[str]:
    return set(re.split(r"[^a-z0-9]+", _stem(file).lower()))

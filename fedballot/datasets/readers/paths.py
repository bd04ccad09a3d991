"""Images that a table names: a column of paths, relative to the table's folder."""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from pathlib import Path

from fedballot.core.errors import DataError
from fedballot.datasets.readers.pictures import ImageSpec, Pixels, read_images
from fedballot.datasets.readers.tables import Table
from fedballot.datasets.schema.cells import words_of


def read_paths(table: Table, name: str, spec: ImageSpec) -> tuple[Pixels, tuple[Path, ...]]:
    """The images of a column, and where they lie.

    Raises
    ------
    DataError
        A cell that is empty, a path that leads out of the table's folder or to no file, or what :func:`read_images`
        says: names the table, the line and the column.
    """
    paths = paths_of(table, name)
    return read_images(paths, spec, lambda row: f"{table.where(row)}, column {name}"), tuple(paths)


def paths_of(table: Table, name: str) -> Sequence[Path]:
    """Where the images of a column lie; a path stands as on Linux or as on Windows."""
    folder = table.path.absolute().parent
    paths = []
    for row, word in enumerate(words_of(table, name)):
        path = Path(os.path.normpath(folder / word.replace("\\", "/")))
        if not word or not path.is_relative_to(folder):
            what = "leads out of the table's folder" if word else "empty"
            raise DataError(f"{table.where(row)}, column {name}: {word!r} {what}; expected a path in {folder}")
        if not path.is_file():
            raise DataError(f"{table.where(row)}, column {name}: {word!r}: no such file in {folder}")
        paths.append(path)
    return paths

"""Records to predict, read as the run's own were: through its schema, or as an array of the model's shape."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedballot.core.errors import DataError
from fedballot.core.files import read_arrays
from fedballot.datasets.readers.paths import read_paths
from fedballot.datasets.readers.pictures import ImageSpec
from fedballot.datasets.readers.tables import SUFFIXES, Table, is_table, read_table
from fedballot.datasets.schema.apply import features_through
from fedballot.datasets.schema.contract import Schema
from fedballot.datasets.schema.infer import image_column
from fedballot.datasets.schema.words import listed
from fedballot.learners.base import Inputs

Read = Callable[[str | Path], Inputs]


def reader(schema: Schema | None, shape: tuple[int, ...], image_reader: str = "") -> Read:
    """What reads a file of records.

    Parameters
    ----------
    schema
        Of a user's own data. A table's columns are taken by name, in any order; others, such as an id or the label, are
        left out.
    shape
        Of one record, before it is prepared.
    image_reader
        See `ImageSpec.reader`.
    """
    tabular = schema is not None and schema.tabular
    images = ImageSpec(() if schema is None else schema.image_size, 3 if len(shape) == 3 else 1, image_reader)
    tables = f"a table ({', '.join(SUFFIXES)})"
    paths = f", or {tables} with the paths of images" if len(shape) > 1 else ""
    kinds = f"{tables} or .npz (key x)" if tabular else f".npz (key x){paths}"

    def read(path: str | Path) -> Inputs:
        path = Path(path)
        if not path.is_file():
            raise DataError(f"{path}: no such file; expected {kinds}")
        if path.suffix.lower() == ".npz":
            return _from_npz(path, shape)
        if is_table(path) and schema is not None and schema.tabular:
            return features_through(schema, read_table(path))
        if is_table(path) and len(shape) > 1:
            return _pictures(path, schema.image if schema else "", images)
        raise DataError(f"{path}: the model takes records of shape {shape}; expected {kinds}")

    return read


def _pictures(path: Path, column: str, images: ImageSpec) -> Inputs:
    table = read_table(path)
    names = list(table.frame.columns)
    name = column if column in names else image_column(table)
    if not name:
        raise DataError(f"{path}: no column {column or 'with paths of images'!r}; found {listed(names)}")
    return read_paths(table, name, images)[0]


def from_frame(schema: Schema, frame: Any) -> Inputs:
    """Records of a pandas data frame, as :func:`reader` has them from a file.

    Raises
    ------
    DataError
        If a column is missing, or a cell is not what the schema says.
    """
    named = frame.rename(columns=str)
    return features_through(schema, Table(Path("data frame"), named, lambda row: f"row {row}"))


def _from_npz(path: Path, shape: tuple[int, ...]) -> Inputs:
    arrays = read_arrays(path)
    x = arrays.get("x", arrays.get("x_test"))
    if x is None or x.shape[1:] != shape:
        there = ", ".join(f"{key} {array.shape}" for key, array in arrays.items()) or "nothing"
        raise DataError(f"{path}: holds {there}; expected key x with records of shape {shape}")
    return x if x.dtype == np.uint8 else x.astype(np.float32)

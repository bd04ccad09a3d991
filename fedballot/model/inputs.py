"""Records to predict, read as the run's own were: through its schema, or as an array of the model's shape."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedballot.core.errors import DataError
from fedballot.core.files import read_arrays
from fedballot.datasets.readers.tables import Table, is_table, read_table
from fedballot.datasets.schema.apply import features_through
from fedballot.datasets.schema.contract import Schema
from fedballot.learners.base import Inputs

Read = Callable[[Path], Inputs]


def reader(schema: Schema | None, shape: tuple[int, ...]) -> Read:
    """What reads a file of records.

    Parameters
    ----------
    schema
        Of a table's columns: taken by name, in any order; others, such as an id or the label, are left out.
    shape
        Of one record, before it is prepared.
    """

    def read(path: Path) -> Inputs:
        kinds = ".npz (key x)" if schema is None else "a table (CSV, Parquet and so on) or .npz (key x)"
        if not path.is_file():
            raise DataError(f"{path}: no such file; expected {kinds}")
        if path.suffix.lower() == ".npz":
            return _from_npz(path, shape)
        if schema is None or not is_table(path):
            raise DataError(f"{path}: the model takes records of shape {shape}; expected {kinds}")
        return features_through(schema, read_table(path))

    return read


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

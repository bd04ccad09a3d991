"""Records to predict: a file read as the run read its own; no label is needed, other columns are left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedballot.core.errors import DataError
from fedballot.core.files import read_arrays
from fedballot.datasets.readers.tables import SUFFIXES, is_table, read_table
from fedballot.datasets.schema.apply import read_features
from fedballot.datasets.schema.contract import Schema
from fedballot.learners.base import Inputs

Read = Callable[[Path], Inputs]


def reader(schema: Schema | None, shape: tuple[int, ...]) -> Read:
    """What reads a file as the model's data were read.

    Parameters
    ----------
    schema
        Of the run; None: its data were known by name, or arrays.
    shape
        Of one record.
    """
    tabular = schema is not None and schema.tabular
    kinds = f"a table ({', '.join(SUFFIXES)})" if tabular else "an .npz file (key x)"

    def read(path: Path) -> Inputs:
        if not path.is_file():
            raise DataError(f"{path}: no such file; expected {kinds}")
        if path.suffix.lower() == ".npz":
            return _from_npz(path, shape)
        if schema is None or not schema.tabular or not is_table(path):
            raise DataError(f"{path}: the model takes records of shape {shape}; expected {kinds}")
        return read_features(schema, read_table(path))

    return read


def _from_npz(path: Path, shape: tuple[int, ...]) -> Inputs:
    arrays = read_arrays(path)
    x = arrays.get("x", arrays.get("x_test"))
    if x is None or x.shape[1:] != shape:
        there = ", ".join(f"{key} {array.shape}" for key, array in arrays.items()) or "nothing"
        raise DataError(f"{path}: holds {there}; expected key x with records of shape {shape}")
    return x if x.dtype == np.uint8 else x.astype(np.float32)

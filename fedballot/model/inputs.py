"""Records to predict, read as the run's own were: through its schema, as images or an array of the model's shape."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedballot.core.errors import DataError
from fedballot.core.files import read_arrays
from fedballot.datasets.readers.files import read_raw
from fedballot.datasets.readers.folders import classified
from fedballot.datasets.readers.foreign import reader_of
from fedballot.datasets.readers.paths import read_paths
from fedballot.datasets.readers.pictures import ImageSpec
from fedballot.datasets.readers.places import READERS
from fedballot.datasets.readers.tables import SUFFIXES, Table, is_table, read_table
from fedballot.datasets.schema.apply import features_through
from fedballot.datasets.schema.contract import Schema
from fedballot.datasets.schema.infer import image_column
from fedballot.datasets.schema.words import listed
from fedballot.learners.base import Inputs


@dataclass(frozen=True)
class Reader:
    """What reads records to predict.

    Attributes
    ----------
    schema : of a user's own data. A table's columns are taken by name, in any order; others, such as an id or the
        label, are left out.
    shape : of one record, before it is prepared.
    image_reader : see `ImageSpec.reader`.
    """

    schema: Schema | None
    shape: tuple[int, ...]
    image_reader: str = ""

    def __call__(self, path: str | Path) -> Inputs:
        """The records of a file, or of a folder of images, in class folders or not.

        Raises
        ------
        DataError
            If there are none, or they are none of the model's.
        """
        path, schema = Path(path), self.schema
        tabular = schema is not None and schema.tabular
        if path.is_dir() and len(self.shape) > 1:
            return read_raw(path, images=self._images, labels=False).x
        if not path.is_file():
            raise DataError(f"{path}: no such file{'' if tabular else ' or folder'}; expected {self._kinds}")
        if path.suffix.lower() == ".npz":
            return _from_npz(path, self.shape)
        if is_table(path) and schema is not None and schema.tabular:
            return features_through(schema, read_table(path))
        if is_table(path) and len(self.shape) > 1:
            return _pictures(path, schema.image if schema else "", self._images)
        if not tabular and not is_table(path) and (path.suffix.lower() in READERS or reader_of(path.suffix.lower())):
            return read_raw(path).x
        raise DataError(f"{path}: the model takes records of shape {self.shape}; expected {self._kinds}")

    def names(self, path: str | Path) -> list[str]:
        """Of a folder of images, each one's place in it, in the order of the records; of anything else, nothing."""
        root = Path(path)
        if not root.is_dir() or any(root.glob("*.json")):  # LEAF's images are no files
            return []
        return [image.relative_to(root).as_posix() for image in classified(root, self._images, loose=True)]

    @property
    def _images(self) -> ImageSpec:
        size = () if self.schema is None else self.schema.image_size
        return ImageSpec(size, 3 if len(self.shape) == 3 else 1, self.image_reader)

    @property
    def _kinds(self) -> str:
        tables = f"a table ({', '.join(SUFFIXES)})"
        if self.schema is not None and self.schema.tabular:
            return f"{tables} or .npz (key x)"
        pictures = f", a folder of images, or {tables} with the paths of images" if len(self.shape) > 1 else ""
        return f".npz (key x){pictures}"


def _pictures(path: Path, column: str, images: ImageSpec) -> Inputs:
    table = read_table(path)
    names = list(table.frame.columns)
    name = column if column in names else _alone(names, images) or image_column(table)
    if not name:
        raise DataError(f"{path}: no column {column or 'with paths of images'!r}; found {listed(names)}")
    return read_paths(table, name, images)[0]


def _alone(names: list[str], images: ImageSpec) -> str:
    """The only column of a table, where files may be called anything, as a function of the user's reads them."""
    return names[0] if images.reader and len(names) == 1 else ""


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

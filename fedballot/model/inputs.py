"""Records to predict, from a file with the columns of a run's data: no label is needed, other columns are left out."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fedballot.core.errors import DataError
from fedballot.core.files import read_arrays
from fedballot.learners.base import Inputs
from fedballot.runs.description import NO_FEATURES

KINDS = ".csv, .parquet or .npz (key x)"
Read = Callable[[Path], Inputs]


def reader(columns: Sequence[str], shape: tuple[int, ...]) -> Read:
    """What reads a file as the model's data were read: the one place where another reading is plugged in.

    Parameters
    ----------
    columns
        Names of the features, in the model's order; empty where they have none.
    shape
        Of one record.
    """

    def read(path: Path) -> Inputs:
        suffix = path.suffix.lower()
        if not path.is_file():
            raise DataError(f"{path}: no such file; expected {KINDS}")
        if suffix == ".npz":
            return _from_npz(path, shape)
        if len(shape) != 1 or suffix not in (".csv", ".parquet"):
            raise DataError(f"{path}: the model takes records of shape {shape}; expected {KINDS}")
        wanted = columns or _features(path, _header(path), shape[0])
        return (_from_csv if suffix == ".csv" else _from_parquet)(path, wanted)

    return read


def _from_npz(path: Path, shape: tuple[int, ...]) -> Inputs:
    arrays = read_arrays(path)
    x = arrays.get("x", arrays.get("x_test"))
    if x is None or x.shape[1:] != shape:
        there = ", ".join(f"{key} {array.shape}" for key, array in arrays.items()) or "nothing"
        raise DataError(f"{path}: holds {there}; expected key x with records of shape {shape}")
    return x if x.dtype == np.uint8 else x.astype(np.float32)


def _header(path: Path) -> list[str]:
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet

        return list(pyarrow.parquet.read_schema(path).names)
    with path.open(newline="", encoding="utf-8-sig") as stream:
        return [name.strip() for name in next(csv.reader(stream), [])]


def _features(path: Path, header: Sequence[str], wanted: int) -> list[str]:
    """The feature columns where the model knows no names: as many as it takes."""
    names = [name for name in header if name not in NO_FEATURES]
    if len(names) != wanted:
        raise DataError(f"{path}: {len(names)} columns beside label and group; the model takes {wanted} features")
    return names


def _places(path: Path, header: Sequence[str], columns: Sequence[str]) -> list[int]:
    missing = [name for name in columns if name not in header]
    if missing:
        raise DataError(f"{path}: has no column {', '.join(missing[:5])}, which the model takes")
    twice = [name for name in columns if header.count(name) > 1]
    if twice:
        raise DataError(f"{path}: column {twice[0]!r} stands {header.count(twice[0])} times in the header")
    return [header.index(name) for name in columns]


def _from_csv(path: Path, columns: Sequence[str]) -> Inputs:
    rows: list[list[float]] = []
    with path.open(newline="", encoding="utf-8-sig") as stream:
        lines = csv.reader(stream)
        header = [name.strip() for name in next(lines, [])]
        places = _places(path, header, columns)
        for row in filter(None, lines):
            if len(row) != len(header):
                raise DataError(f"{path}: line {lines.line_num}: {len(row)} cells; expected {len(header)}")
            cells = [row[place] for place in places]
            try:
                rows.append([float(cell) for cell in cells])
            except ValueError:
                name = next(name for name, cell in zip(columns, cells, strict=True) if not _is_number(cell))
                raise DataError(f"{path}: line {lines.line_num}, column {name}: expected a number") from None
    return np.array(rows, dtype=np.float32).reshape(len(rows), len(columns))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _from_parquet(path: Path, columns: Sequence[str]) -> Inputs:
    import pyarrow.parquet

    _places(path, _header(path), columns)
    table = pyarrow.parquet.read_table(path, columns=list(columns))
    try:
        values = [table.column(name).to_numpy().astype(np.float32) for name in columns]
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: a column is no numbers ({error})") from error
    return np.stack(values, axis=1)

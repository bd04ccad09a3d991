"""Checks that every loaded array passes: each error names where, what was found and what is expected."""

import re

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError
from fedballot.datasets.examples import Array, Indices

_INTEGER = re.compile(r"-?(0|[1-9]\d*)")


def checked_x(x: Array, where: str) -> Array:
    """`x` as uint8 images (n, h, w[, 3]) or finite float32 features (n, d).

    Raises
    ------
    DataError
        Another shape or dtype, no rows, or a value that is not finite in float32.
    """
    if x.ndim == 4 and x.shape[-1] == 1:
        x = x[..., 0]
    if x.size == 0:
        raise DataError(f"{where}: empty (shape {x.shape}); expected at least one row and one value per row")
    if x.ndim == 2:
        return _features(x, where)
    if x.ndim not in (3, 4) or (x.ndim == 4 and x.shape[-1] != 3):
        raise DataError(
            f"{where}: shape {x.shape}; expected images (n, height, width) or (n, height, width, 3), or features (n, d)"
        )
    if x.dtype != np.uint8:
        raise DataError(f"{where}: images of dtype {x.dtype}; expected uint8 with values 0..255")
    return x


def _features(x: Array, where: str) -> Array:
    if x.dtype.kind not in "biuf":
        raise DataError(f"{where}: dtype {x.dtype}; expected numbers (int, float or bool)")
    with np.errstate(over="ignore"):
        values = x.astype(np.float32, copy=False)
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        raise DataError(
            f"{where}: row {row}, column {column} is {x[row, column]}; expected finite float32 numbers "
            f"({len(bad)} such values: fill or drop them)"
        )
    return values


def label_texts(values: Array, where: str) -> NDArray[np.str_]:
    """Labels or group ids of any usual dtype as text, so that those of several files can be compared.

    Raises
    ------
    DataError
        Not one-dimensional, not integers or text, or an empty or fractional entry (names the row).
    """
    if values.ndim != 1:
        raise DataError(f"{where}: shape {values.shape}; expected one label per row, shape (n,)")
    kind = values.dtype.kind
    if kind == "f":
        bad = np.flatnonzero(~np.isfinite(values) | (values != np.round(values)))
        if len(bad):
            raise DataError(f"{where}: row {bad[0]} is {values[bad[0]]}; expected integers or text")
    if kind == "f":
        values = values.astype(np.int64)
    elif kind == "S":
        try:
            values = np.char.decode(values, "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{where}: not UTF-8 ({error}); expected integers or UTF-8 text") from error
    elif kind not in "biuU":
        raise DataError(f"{where}: dtype {values.dtype}; expected integers or text")
    texts: NDArray[np.str_] = np.char.strip(values.astype(np.str_))
    empty = np.flatnonzero(texts == "")
    if len(empty):
        raise DataError(f"{where}: row {empty[0]} is empty; expected a label in every row")
    return texts


def encode(texts: NDArray[np.str_]) -> tuple[Indices, tuple[str, ...]]:
    """Class indices and class names; names are sorted as numbers if all are integers, else as text."""
    names, inverse = np.unique(texts, return_inverse=True)
    order = np.arange(len(names))
    if all(_INTEGER.fullmatch(name) for name in names):
        order = np.array(sorted(order, key=lambda i: int(names[i])))
    rank = np.argsort(order)
    return rank[inverse].astype(np.int64), tuple(str(names[i]) for i in order)


def checked_numbers(values: Array, end: int, where: str) -> Indices:
    """Class indices or group ids as int64 (n,).

    Raises
    ------
    DataError
        Not one-dimensional, no integers, or one that is not in [0, end).
    """
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise DataError(f"{where}: dtype {values.dtype} and shape {values.shape}; expected integers, shape (n,)")
    wrong = np.flatnonzero((values < 0) | (values >= end))
    if len(wrong):
        raise DataError(f"{where}: row {wrong[0]} is {values[wrong[0]]}; expected 0 to {end - 1}")
    return values.astype(np.int64)


def check_lengths(n_rows: int, n_labels: int, where: str) -> None:
    """Raise DataError unless there is one label (or group) per row."""
    if n_rows != n_labels:
        raise DataError(f"{where}: {n_labels} entries for {n_rows} rows of x; expected one per row")

"""Multi-label records: int8 labels (n, L), 1 for yes, 0 for no, -1 where nobody looked."""

import csv
import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError
from fedballot.datasets.examples import Array, Indices


def is_multi_label(y: Array) -> bool:
    """Whether labels are several per record."""
    return y.ndim == 2


def representative(y: Array) -> Indices:
    """One class (n,) per record, by which partitions deal records out: the label itself, or the rarest positive one.

    Records without a positive label make a class of their own, L. Source: FedKD ("Preserving privacy in federated
    learning with ensemble cross-domain knowledge distillation"), implementation details of the x-ray experiments.
    """
    if not is_multi_label(y):
        return y
    positive = y == 1
    rarity = np.where(positive, positive.sum(axis=0), len(y) + 1)
    return np.asarray(np.where(positive.any(axis=1), rarity.argmin(axis=1), y.shape[1]), dtype=np.int64)


def checked_labels(y: Array, where: str) -> NDArray[np.int8]:
    """Labels (n, L) as int8.

    Raises
    ------
    DataError
        A value that is not -1, 0 or 1 (names row and label).
    """
    bad = np.argwhere(~np.isin(y, (-1, 0, 1)))
    if len(bad):
        row, label = bad[0]
        raise DataError(f"{where}: row {row}, label {label} is {y[row, label]}; expected -1 (unknown), 0 or 1")
    return y.astype(np.int8)


def read_yeast(path: Path) -> dict[str, Array]:
    """Yeast (2,417 genes, 103 features, 14 labels) from a CSV, gzipped or not, with columns Att1.. and Class1..

    Raises
    ------
    DataError
        Another header, or a value that is no number (names the line).
    """
    try:
        with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            labels = [i for i, name in enumerate(header) if name.startswith("Class")]
            features = [i for i, name in enumerate(header) if name.startswith("Att")]
            if len(labels) < 2 or not features:
                raise DataError(f"{path}: no columns Att1.. and Class1.. in the header; expected both")
            rows = []
            for row in reader:
                try:
                    rows.append([float(cell) for cell in row])
                except ValueError as error:
                    raise DataError(f"{path}: line {reader.line_num}: {error}; expected numbers") from error
                if len(row) != len(header):
                    raise DataError(f"{path}: line {reader.line_num}: {len(row)} cells; expected {len(header)}")
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read as CSV ({error})") from error
    if not rows:
        raise DataError(f"{path}: a header but no rows; expected at least one")
    table = np.array(rows, dtype=np.float32)
    return {"x_train": table[:, features], "y_train": checked_labels(table[:, labels], str(path))}

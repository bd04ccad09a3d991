"""Data of a real federation: every party reads its own records, and all hold the same public source."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedballot.datasets.examples import Examples, Indices, Source
from fedballot.datasets.files import read_raw
from fedballot.datasets.fingerprint import records_fingerprint
from fedballot.errors import DataError

SITES = "sites"
"""The data set's name in a run whose parties hold their own records."""


@dataclass(frozen=True, eq=False)
class OwnRecords:
    """A party's records, with their fingerprint (rows and labels)."""

    examples: Examples
    fingerprint: str


@lru_cache(maxsize=1)
def load_own(path: Path, public: Source) -> OwnRecords:
    """Read a party's own file or image folder; labels are numbered as the public source numbers its classes.

    A party need not hold every class, and may hold a single one.

    Raises
    ------
    DataError
        Nothing there or bad content (names the file and the row, column or key), a label that the public source does
        not know, or rows of another shape or kind than the public ones.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; expected the party's own records")
    raw = read_raw(path)
    if raw.test is not None:
        raise DataError(f"{path}: holds a test split; expected all of the party's records under one pair of keys")
    wanted = public.train.x
    if raw.x.shape[1:] != wanted.shape[1:] or raw.x.dtype != wanted.dtype:
        raise DataError(
            f"{path}: rows of shape {raw.x.shape[1:]} and dtype {raw.x.dtype}, but the public source {public.name} has "
            f"{wanted.shape[1:]} and {wanted.dtype}; expected the same features in the same order"
        )
    number = {name: index for index, name in enumerate(public.classes)}
    unknown = [row for row, label in enumerate(raw.labels) if str(label) not in number]
    if unknown:
        raise DataError(
            f"{path}: row {unknown[0]} has the label {str(raw.labels[unknown[0]])!r}, which the public source does not "
            f"know; expected one of {', '.join(public.classes)} ({len(unknown)} such rows)"
        )
    y: Indices = np.array([number[str(label)] for label in raw.labels], dtype=np.int64)
    return OwnRecords(Examples(raw.x, y), records_fingerprint(raw.x, y))

"""Data of a real federation: every client reads its own records, and all hold the same public source."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedballot.core.errors import DataError
from fedballot.datasets.examples import Examples, Indices, Source
from fedballot.datasets.fingerprint import records_fingerprint, row_hashes
from fedballot.datasets.readers.files import read_raw

SITES = "sites"
"""The data set's name in a run whose clients hold their own records."""


@dataclass(frozen=True)
class Persons:
    """Which column says whose record each is, and how many records of one person are used at most."""

    column: str
    most: int


@dataclass(frozen=True, eq=False)
class OwnRecords:
    """A client's records.

    Attributes
    ----------
    examples : in the order of the file: where one record is replaced, the others keep their places, on which the last
        bits of what is computed from a batch may depend.
    ranks : rows of `examples` in the order of their hashes, which is the same however a file is sorted.
    fingerprint : of the rows with their labels, whatever their order.
    persons : how many different ones there are; None where no column says so.
    dropped : records that were left out, as beyond the most that one person may have.
    """

    examples: Examples
    ranks: Indices
    fingerprint: str
    persons: int | None = None
    dropped: int = 0


def load_own(path: Path, public: Source, persons: Persons | None = None) -> OwnRecords:
    """Read a client's own file or image folder; labels are numbered as the public source numbers its classes.

    A client need not hold every class, and may hold a single one.

    Raises
    ------
    DataError
        Nothing there or bad content (names the file and the row, column or key), a label that the public source does
        not know, or rows of another shape or kind than the public ones.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; expected the client's own records")
    return _load(path, public, persons, stamp(path))


def stamp(path: Path) -> tuple[tuple[str, int, int, int], ...]:
    """By which a file, or a folder with all that is in it, is known to be unchanged, without reading it."""
    inside = sorted(path.rglob("*")) if path.is_dir() else []
    entries = [(str(one.relative_to(path)), one.stat()) for one in (path, *inside)]
    return tuple((name, stat.st_size, stat.st_mtime_ns, stat.st_ino) for name, stat in entries)


@lru_cache(maxsize=1)
def _load(path: Path, public: Source, persons: Persons | None, _: tuple[tuple[str, int, int, int], ...]) -> OwnRecords:
    raw = read_raw(path, persons.column if persons else "")
    if raw.test is not None:
        raise DataError(f"{path}: holds a test split; expected all of the client's records under one pair of keys")
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
    hashes = row_hashes(raw.x, y)
    owners = None if raw.persons is None else [str(person) for person in raw.persons]
    ranked = used_rows(hashes, owners, persons.most if persons else 0)
    rows = np.sort(ranked)
    return OwnRecords(
        Examples(raw.x[rows], y[rows]),
        np.searchsorted(rows, ranked),
        records_fingerprint([hashes[row] for row in rows]),
        None if owners is None else len(set(owners)),
        len(hashes) - len(rows),
    )


def used_rows(hashes: Sequence[bytes], owners: Sequence[str] | None, most: int) -> Indices:
    """Rows in the order of their hashes; of each person no more than the first ``most``.

    Which records of a person are used depends on that person's records alone: replacing a person changes nobody else's.
    So two data sets that differ in one person differ in at most ``most`` records on either side, and the rule may be
    known to all.

    Parameters
    ----------
    hashes : of each row.
    owners : whose record each row is; None: nobody says, and all are used.
    """
    order = sorted(range(len(hashes)), key=hashes.__getitem__)
    if owners is not None:
        used: Counter[str] = Counter()
        order = [row for row in order if used.update([owners[row]]) or used[owners[row]] <= most]
    return np.array(order, dtype=np.int64)

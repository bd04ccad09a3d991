"""Data of a real federation: every client reads its own records, and all hold the same public source."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedballot.core.errors import DataError
from fedballot.datasets.examples import Array, Examples, Indices, Source
from fedballot.datasets.fingerprint import records_fingerprint, row_hashes
from fedballot.datasets.readers.files import array_labels, read_raw, read_rows
from fedballot.datasets.readers.raw import Texts
from fedballot.datasets.readers.tables import is_table
from fedballot.datasets.schema.apply import Comparison, Rows, comparisons
from fedballot.datasets.schema.contract import Column, Schema
from fedballot.datasets.schema.prepare import public_preparation
from fedballot.datasets.schema.reading import Reading
from fedballot.datasets.unchanged import State, stat_of

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
    extra : columns of the file that the schema does not have.
    compared : each column of the schema beside the file's; empty where there are no columns.
    files : images that a table names.
    """

    examples: Examples
    ranks: Indices
    fingerprint: str
    persons: int | None = None
    dropped: int = 0
    extra: tuple[str, ...] = ()
    compared: tuple[Comparison, ...] = ()
    files: tuple[Path, ...] = ()


def load_own(path: Path, public: Source, persons: Persons | None = None, image_reader: str = "") -> OwnRecords:
    """Read a client's own file or image folder; labels are numbered as the public source numbers its classes.

    A client need not hold every class, and may hold a single one. ``image_reader``: see `ImageSpec.reader`.

    Raises
    ------
    DataError
        Nothing there or bad content (names the file and the row, column or key), a label that the public source does
        not know, or rows of another shape or kind than the public ones.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; expected the client's own records")
    key = path, public, persons, image_reader, stamp(path)
    own, seen = _load(*key)
    if seen != stamps(own.files):  # images of a table that has not changed itself
        _load.cache_clear()
        own, _ = _load(*key)
    return own


def stamp(path: Path) -> State:
    """By which a file, or a folder with all that is in it, is known to be unchanged, without reading it."""
    inside = sorted(path.rglob("*")) if path.is_dir() else []
    return tuple(stat_of(one, str(one.relative_to(path))) for one in (path, *inside))


def stamps(paths: Sequence[Path]) -> tuple[State, ...]:
    """The :func:`stamp` of each file; one that is gone has an empty one."""
    return tuple(stamp(path) if path.exists() else () for path in paths)


@lru_cache(maxsize=1)
def _load(
    path: Path, public: Source, persons: Persons | None, image_reader: str, _: State
) -> tuple[OwnRecords, tuple[State, ...]]:
    person = persons.column if persons else ""
    x, y, persons_of, rows_read = _read(path, public, person, Reading(image_reader=image_reader))
    hashes = row_hashes(x, y)  # of the cells as they are read: what is fitted on public records is no part of them
    owners = None if persons_of is None else [str(person) for person in persons_of]
    ranked = used_rows(hashes, owners, persons.most if persons else 0)
    rows = np.sort(ranked)
    schema = schema_of(public)
    used = public_preparation(public)(x[rows]) if schema.tabular else x[rows]
    files = () if rows_read is None else rows_read.files
    own = OwnRecords(
        Examples(used, y[rows]),
        np.searchsorted(rows, ranked),
        records_fingerprint([hashes[row] for row in rows]),
        None if owners is None else len(set(owners)),
        len(hashes) - len(rows),
        () if rows_read is None else rows_read.extra,
        comparisons(schema, x) if schema.tabular else (),
        files,
    )
    return own, stamps(files)


def schema_of(public: Source) -> Schema:
    """The source's contract; of one that is known by name, its class words."""
    return public.schema or Schema(Column("", "category", words=public.classes))


def _read(
    path: Path, public: Source, person: str, reading: Reading
) -> tuple[Array, Indices, Texts | None, Rows | None]:
    """Cells, class numbers and persons of a client's own file, and what a table says besides."""
    schema, rows = schema_of(public), None
    images = reading.images(schema)
    if path.is_file() and is_table(path):
        rows = read_rows(path, schema, person, images=images)
        x, y, persons_of = rows.x, rows.y, rows.persons
    else:
        raw = read_raw(path, person, schema, images)
        if raw.test is not None:
            raise DataError(f"{path}: holds a test split; expected all of the client's records under one pair of keys")
        x, y, persons_of = raw.x, array_labels(path, raw.labels, schema), raw.persons
    wanted = public.train.x
    if x.shape[1:] != wanted.shape[1:] or x.dtype != wanted.dtype:
        raise DataError(
            f"{path}: rows of shape {x.shape[1:]} and dtype {x.dtype}, but the public source {public.name} has "
            f"{wanted.shape[1:]} and {wanted.dtype}; expected the same features in the same order"
        )
    return x, y, persons_of, rows


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

"""Reading a table through the contract: columns by name, words by the contract's numbers, ranges held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError
from fedballot.datasets.examples import Array, Indices
from fedballot.datasets.readers.paths import read_paths
from fedballot.datasets.readers.pictures import PLAIN, ImageSpec
from fedballot.datasets.readers.raw import Texts
from fedballot.datasets.readers.tables import Table
from fedballot.datasets.schema.cells import LARGEST, Floats, Words, dates_of, numbers_of, truths_of, words_of
from fedballot.datasets.schema.contract import Column, Schema
from fedballot.datasets.schema.infer import GROUP
from fedballot.datasets.schema.labels import has_gaps, shortened
from fedballot.datasets.schema.marks import read_marked
from fedballot.datasets.schema.signs import refuse_unsure
from fedballot.datasets.schema.texts import bytes_of
from fedballot.datasets.schema.words import listed, nearest


@dataclass(frozen=True)
class Comparison:
    """What a column of a file holds.

    Attributes
    ----------
    missing : cells that are filled.
    low, middle, high : of its numbers (whole days since 1970 of dates); None where there are none.
    words : of a category, how many of the contract's words occur.
    """

    column: Column
    missing: int
    low: float | None = None
    middle: float | None = None
    high: float | None = None
    words: int = 0


@dataclass(frozen=True, eq=False)
class Rows:
    """A file's records, as the contract numbers them.

    Attributes
    ----------
    x : float32 (n, columns); NaN where a value is missing, the number of the word of a category. Images: uint8.
    y : class numbers (n,).
    groups, persons : text (n,), where there is such a column.
    extra : columns of the file that the contract does not have.
    files : where images lie.
    """

    x: Array
    y: Indices
    groups: Texts | None
    persons: Texts | None
    extra: tuple[str, ...]
    files: tuple[Path, ...] = ()


def read_through(
    schema: Schema, table: Table, person: str = "", images: ImageSpec = PLAIN, labels: bool = True
) -> Rows:
    """Read a table as the contract says.

    Parameters
    ----------
    person : the column that says whose record each is.
    images : how those are read that it names.
    labels : whether classes must stand there; else all are -1 where the column lacks or has gaps.

    Raises
    ------
    DataError
        A column that is missing, a word that the contract does not know, a value outside its range, or a cell that is
        no number: names the file, the line and the column.
    """
    names = list(table.frame.columns)
    features = [column.name for column in schema.columns]
    if person in features:
        raise DataError(f"{table.path}: column {person!r} says whose record each is, and is a feature of the schema")
    if person and person not in names:
        raise DataError(f"{table.path}: no column {person!r} with the persons in the header ({shortened(names)})")
    label = schema.label.name
    wanted = [label, *features] if labels or label in names else features
    _all_there(table, wanted)
    if not labels and (not schema.classes or label not in names or has_gaps(table, label, ())):
        y = np.full(len(table.frame), -1, np.int64)
    else:
        y = numbered(schema.label, _texts(table, label), _cell(table, schema.label))
    x, files = read_paths(table, schema.image, images) if schema.image else (features_through(schema, table), ())
    groups = _texts(table, GROUP) if GROUP in names and GROUP not in wanted and person != GROUP else None
    persons = _texts(table, person) if person else None
    used = {*wanted, GROUP, *([person] if person else [])}
    extra = tuple(name for name in names if name not in used)
    return Rows(x, y, groups, persons, extra, files)


def features_through(schema: Schema, table: Table) -> Array:
    """A table's features, as `Rows.x` has them; its classes are not looked at.

    Raises
    ------
    DataError
        As :func:`read_through`.
    """
    _all_there(table, [column.name for column in schema.columns])
    parts = [_values(table, column, schema.missing) for column in schema.columns]
    with np.errstate(over="ignore"):
        x = np.concatenate(parts, axis=1).astype(np.float32)
    x[np.isnan(x)] = np.nan  # whose sign would be part of a fingerprint
    return x


def _all_there(table: Table, wanted: Sequence[str]) -> None:
    names = list(table.frame.columns)
    lacking = [name for name in wanted if name not in names]
    if lacking:
        others = f" nor {listed(lacking[1:])}" if len(lacking) > 1 else ""
        raise DataError(
            f"{table.path}: no column {lacking[0]!r}{others}{nearest(lacking[0], set(names) - set(wanted))}; found "
            f"{listed(names)}; expected {listed(wanted)}, in any order"
        )


def _cell(table: Table, column: Column) -> Callable[[int], str]:
    return lambda row: f"{table.where(row)}, column {column.name}:"


def _texts(table: Table, name: str) -> Texts:
    words = words_of(table, name)
    for row in np.flatnonzero(words == "")[:1]:
        raise DataError(f"{table.where(row)}, column {name}: empty; expected an integer or text")
    return words.astype(np.str_)


def numbered(column: Column, words: Words | Texts, where: Callable[[int], str], what: str = "class") -> Indices:
    """The number of each word.

    Raises
    ------
    DataError
        A word that the column does not know.
    """
    codes, unknown = _codes(column, words)
    _all_known(column, words, unknown, where, what)
    return codes.astype(np.int64)


def _all_known(
    column: Column, words: Words | Texts, unknown: NDArray[np.bool_], where: Callable[[int], str], what: str
) -> None:
    rows = np.flatnonzero(unknown)
    if len(rows):
        word = str(words[rows[0]])
        raise DataError(
            f"{where(int(rows[0]))} {word!r} is a {what} that the public source does not know"
            f"{nearest(word, column.words)}; expected one of {listed(column.words)} ({len(rows)} such rows)"
        )


def _codes(column: Column, words: Words | Texts) -> tuple[Floats, NDArray[np.bool_]]:
    number = {word: float(place) for place, word in enumerate(column.words)}
    number |= {word: number[meant] for word, meant in column.same}
    different, inverse = np.unique(words.astype(np.str_), return_inverse=True)
    codes = np.array([number.get(str(word), np.nan) for word in different])[inverse]
    return codes, np.isnan(codes)


def _values(table: Table, column: Column, missing: tuple[str, ...]) -> Floats:
    """A column's numbers (n, width), NaN where they are missing."""
    if column.kind == "text":
        words = words_of(table, column.name)
        return bytes_of(words, column.bytes) if column.bytes else _hashed(words, column.width)
    if column.kind == "number":
        if column.mark:
            values, bad = read_marked(table, column.name, missing, column.mark)
        else:
            refuse_unsure(table, column.name, missing)
            values, bad = numbers_of(table, column.name, missing)
    elif column.kind == "date":
        values, bad = dates_of(table, column.name, missing, column.format)
    else:
        words = words_of(table, column.name)
        empty = np.isin(words.astype(str), missing)
        if column.kind == "boolean":
            values, bad = truths_of(words, missing)
        else:
            values, unknown = _codes(column, words)
            _all_known(column, words, unknown & ~empty, _cell(table, column), "category")
            bad = np.zeros(len(words), np.bool_)
    for row in np.flatnonzero(bad)[:1]:
        beside = f" with {column.mark!r} beside it, as the schema's mark says" if column.mark else ""
        written = f" as {column.format!r} writes it" if column.format else ""
        _wrong(table, column, row, f"expected a {column.kind}{beside}{written}")
    if column.kind == "number":
        values = np.where(np.isin(values, column.fills), np.nan, values)
        _in_range(table, column, values)
    if column.missing == "refuse":
        for row in np.flatnonzero(np.isnan(values))[:1]:
            _wrong(table, column, row, "missing, which the schema refuses")
    return values[:, None]


def _in_range(table: Table, column: Column, values: Floats) -> None:
    for row in np.flatnonzero(np.isinf(values) | (np.abs(values) > LARGEST))[:1]:
        _wrong(table, column, row, "expected a finite float32 number")
    if column.low is None or column.high is None:
        return
    outside = np.flatnonzero((values < column.low) | (values > column.high))
    for row in outside[:1]:
        unit = f" {column.unit}" if column.unit else ""
        _wrong(
            table,
            column,
            row,
            f"outside {column.low:g} to {column.high:g}{unit} ({len(outside)} such rows). Another unit, or a value "
            "that stands for missing (fills)? Else the schema's range is to be widened",
        )


def _wrong(table: Table, column: Column, row: int, words: str) -> None:
    cell = table.frame[column.name].iloc[row]
    cell = cell if isinstance(cell, str) else getattr(cell, "item", lambda: cell)()
    raise DataError(f"{table.where(int(row))}, column {column.name}: {cell!r}; {words}")


def _hashed(words: Words, width: int) -> Floats:
    """Counts of words, hashed, rows of norm 1: made from the text alone, so nothing is fitted."""
    from sklearn.feature_extraction.text import HashingVectorizer

    counted = HashingVectorizer(n_features=width, alternate_sign=False).transform(list(words))
    return np.asarray(counted.toarray(), dtype=np.float64)


def comparisons(schema: Schema, x: Array) -> tuple[Comparison, ...]:
    """What each column of records holds, as :class:`Rows` has them."""
    starts = np.cumsum([0, *(column.width for column in schema.columns)])
    return tuple(
        _compared(column, x[:, start : start + column.width])
        for start, column in zip(starts, schema.columns, strict=False)
    )


def _compared(column: Column, values: Array) -> Comparison:
    there = values[~np.isnan(values)]
    missing = int(np.isnan(values).any(axis=1).sum())
    if column.kind == "category":
        return Comparison(column, missing, words=len(np.unique(there)))
    if column.kind == "text" or not len(there):
        return Comparison(column, missing)
    return Comparison(column, missing, float(there.min()), float(np.median(there)), float(there.max()))

"""The contract that a public table suggests, and a sentence for everything that people should look at."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from fedballot.core.errors import DataError, did_you_mean
from fedballot.datasets.checks import encode
from fedballot.datasets.readers.pictures import SUFFIXES
from fedballot.datasets.readers.tables import Table
from fedballot.datasets.schema.cells import LARGEST, Floats, Words, are_dates, holds_truths, numbers_of, words_of
from fedballot.datasets.schema.contract import MISSING, Column, Schema
from fedballot.datasets.schema.labels import FEW_ROWS, label_name, notes_of_label
from fedballot.datasets.schema.signs import refuse_unsure
from fedballot.datasets.schema.words import listed, lookalikes

GROUP = "group"
_EMPTY = ("", "nan", "none")  # as str() writes what a cell lacks
FILLS = {sign * value for sign in (1, -1) for value in (999, 9999, 99999, 999999, 32768)}
HUGE = 1e19  # no measurement; fill values such as 1e20 and netCDF's 9.97e36 are
CATEGORIES = ((20, 0), (100, 10), (500, 100))  # so many words at most, if each stands in so many rows on average
MARGIN = 10  # how many times its own width a public range is widened at both ends


@dataclass(frozen=True)
class Hints:
    """What people say of a table before its contract is made.

    Attributes
    ----------
    label : the column of the classes; empty: the one that is called `label` or the like.
    id : the column that says which record, or whose, each is; never a feature.
    drop : other columns that are no features.
    category : columns whose cells are words, also where they look like numbers or text.
    missing : further words that stand for "missing".
    same : spellings of words, each with the word that is meant.
    distinct : columns whose words are all different, however alike they look.
    image_size : height and width that images are resized to; empty: they have one size.
    """

    label: str = ""
    drop: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    same: tuple[tuple[str, str], ...] = ()
    distinct: tuple[str, ...] = ()
    image_size: tuple[int, ...] = ()
    id: str = ""


def infer_schema(table: Table, hints: Hints) -> tuple[Schema, tuple[str, ...]]:
    """The contract of a table, and what was decided on the way.

    Raises
    ------
    DataError
        No label, a label that is a measurement, no feature, words that differ in spelling only, or a cell that does not
        fit its column: names the file, the place and the fix.
    """
    missing = (*MISSING, *hints.missing)
    names, label = list(table.frame.columns), label_name(table, hints.label)
    for name in filter(None, (hints.id, *hints.drop, *hints.category, *hints.distinct)):
        if name not in names:
            raise DataError(f"{table.path}: no column {name!r}{did_you_mean(name, names)}; found {listed(names)}")
        if name in (hints.id, *hints.drop) and name == label:
            raise DataError(f"{table.path}: column {name!r} holds the classes, so it is neither an id nor dropped")
    dropped = dict.fromkeys(hints.drop, "named as no feature") | ({hints.id: "an id"} if hints.id else {})
    image = image_column(table, (label, GROUP, *dropped, *hints.category))
    columns: list[Column] = []
    excluded: dict[str, str] = {}
    notes: list[str] = []
    for name in names:
        if name in (label, GROUP):
            continue
        beside = "the records are images" if image and name != image else ""
        why = dropped.get(name) or beside or ("" if image else _no_feature(table, name, missing, hints))
        if why:
            excluded[name] = why
            if name not in dropped:
                notes.append(f"column {name!r} is left out: {why}")
            continue
        column, words = (Column(name, "image", missing="refuse"), []) if image else _column(table, name, missing, hints)
        columns.append(column)
        notes += words
    if not columns:
        raise DataError(f"{table.path}: no feature column beside {listed([label, *excluded])}; expected at least one")
    size = hints.image_size if image else ()
    schema = Schema(infer_label(table, hints), tuple(columns), tuple(excluded.items()), missing, image_size=size)
    features = [column.name for column in columns if column.kind in ("category", "number", "boolean")]
    return schema, (*notes_of_label(table, label, bool(hints.label), features), *notes)


def image_column(table: Table, others: Sequence[str] = ()) -> str:
    """The column that holds paths of images, where there is one; ``others`` are not looked at.

    Raises
    ------
    DataError
        Two such columns, or one of which most cells end as images do, but not all.
    """
    images = [name for name in table.frame.columns if name not in others and _holds_images(table, name)]
    if len(images) > 1:
        raise DataError(f"{table.path}: {listed(images)} all hold paths of images; expected one: drop the others")
    return str(images[0]) if images else ""


def _holds_images(table: Table, name: str) -> bool:
    """Whether all cells that are not empty end as the names of images do."""
    cells = (str(cell).strip().lower() for cell in table.frame[name])
    first = islice((cell for cell in cells if cell not in _EMPTY), FEW_ROWS)  # a large table is looked at quickly
    if not any(cell.endswith(SUFFIXES) for cell in first):
        return False
    words = words_of(table, name)
    others = [row for row, word in enumerate(words) if word and not word.lower().endswith(SUFFIXES)]
    images = int((words != "").sum()) - len(others)
    if not others or images <= len(others):
        return not others
    row = others[0]
    raise DataError(
        f"{table.where(row)}, column {name}: {words[row]!r} does not end as an image's name does, as {images} "
        f"other cells do; expected {', '.join(SUFFIXES)} in every row. Where the column holds no images: fedballot "
        f"data schema {table.path.name} --drop {name!r}"
    )


def infer_label(table: Table, hints: Hints) -> Column:
    """The column of the classes, with its words.

    Raises
    ------
    DataError
        See :func:`infer_schema`.
    """
    name = label_name(table, hints.label)
    words = words_of(table, name)
    for row in np.flatnonzero(words == "")[:1]:
        raise DataError(f"{table.where(row)}, column {name}: empty; expected a class in every row")
    absent = np.flatnonzero(np.isin(words.astype(str), (*MISSING, *hints.missing)))
    if len(absent) and name not in hints.category:
        word = str(words[absent[0]])
        raise DataError(
            f"{table.where(absent[0])}, column {name}: {word!r} ({len(absent)} such rows); expected a class in every "
            f"row. Leave out records without one; where {word!r} is a class: {_command(table, hints)} "
            f"--category {name!r}"
        )
    values, bad = numbers_of(table, name, ())
    different = set(words)
    many = len(different) > FEW_ROWS and 5 * len(different) > len(words)
    if bad.any() and many:
        raise DataError(
            f"{table.path}: column {name}: {len(different)} different words in {len(words)} rows are names or texts, "
            "no classes; name another column as the label"
        )
    if not bad.any():
        broken = np.flatnonzero(values != np.round(values))
        if len(broken) or many:
            row = broken[0] if len(broken) else 0
            raise DataError(
                f"{table.where(row)}, column {name}: {words[row]!r}; expected an integer or text that "
                f"names a class: {len(different)} different numbers in {len(words)} rows are a measurement. Cut it "
                "into classes, or name another column as the label"
            )
    return _decided(table, Column(name, kind="category"), words, hints)


def _decided(table: Table, column: Column, words: Words, hints: Hints) -> Column:
    """The column with its words; spellings that somebody must decide about are an error."""
    same = {word: meant for word, meant in hints.same if word in words}
    different = sorted(set(words) - set(same))
    alike = [] if column.name in hints.distinct else lookalikes(different)
    if alike:
        group = alike[0]
        row = int(np.flatnonzero(words == group[-1])[0])
        raise DataError(
            f"{table.where(row)}, column {column.name}: {' and '.join(map(repr, group))} differ in "
            f"spelling only. Write them alike in the file; or make a schema that says what is meant: "
            f"{_command(table, hints)} --same {group[-1]!r}={group[0]!r}, or, if they are different, --distinct "
            f"{column.name!r}"
        )
    names = encode(np.array(different, dtype=np.str_))[1]
    pairs = tuple(sorted((word, meant) for word, meant in same.items() if meant in names and word not in names))
    return Column(column.name, column.kind, words=names, same=pairs)


def _command(table: Table, hints: Hints) -> str:
    """The command that makes a schema of this table, up to what it is to be told."""
    label = f" --label {shlex.quote(hints.label)}" if hints.label else ""
    return f"fedballot data schema {shlex.quote(str(table.path))}{label}"


def _no_feature(table: Table, name: str, missing: Sequence[str], hints: Hints) -> str:
    """Why a column is no feature, or nothing."""
    if name in hints.category:
        return ""
    if name == "" or name.startswith("Unnamed:"):
        return "a row number without a name, as pandas writes its index"
    values, bad = numbers_of(table, name, tuple(missing))
    if not bad.any():
        refuse_unsure(table, name, missing)
        there = values[np.isfinite(values)]
        if not len(there):
            return "empty in every row"
        if len(there) == len(values) >= FEW_ROWS and (there == np.round(there)).all():
            if (np.diff(there) == 1).all():
                return "integers that count the rows"
            if len(np.unique(there)) == len(there):
                return "another integer in every row, as an id has; where it is a measurement, add it to the schema"
        return ""
    if np.isfinite(values).sum() > bad.sum():
        return ""  # numbers, and cells that are none: an error later
    words = words_of(table, name)
    words = words[~np.isin(words.astype(str), missing)]
    different = len(set(words))
    if any(different <= most and each * different <= len(words) for most, each in CATEGORIES) or are_dates(words):
        return ""
    return f'{different} different words in {len(words)} rows; kind = "text" in the schema makes features of its words'


def _column(table: Table, name: str, missing: tuple[str, ...], hints: Hints) -> tuple[Column, list[str]]:
    values, bad = numbers_of(table, name, missing)
    if name not in hints.category and not bad.any():
        if holds_truths(table, name):
            return Column(name, "boolean"), []
        return _number(table, name, values)
    words = words_of(table, name)
    present = ~np.isin(words.astype(str), missing)
    if name not in hints.category and np.isfinite(values).sum() > bad.sum():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"{table.where(row)}, column {name}: {words[row]!r} is no number, as {np.isfinite(values).sum()}"
            f" other cells are. Where it stands for missing: {_command(table, hints)} --missing "
            f"{words[row]!r}; where the cells are words: --category {name!r}"
        )
    there = words[present]
    if {word.casefold() for word in there} <= {"true", "false"}:
        return Column(name, "boolean"), []
    if are_dates(there):
        return Column(name, "date"), []
    return _decided(table, Column(name, "category"), there, hints), []


def _number(table: Table, name: str, values: Floats) -> tuple[Column, list[str]]:
    wild = np.flatnonzero(np.isinf(values) | (np.abs(values) > LARGEST))
    if len(wild):
        raise DataError(
            f"{table.where(wild[0])}, column {name}: {table.frame[name].iloc[wild[0]]!r}; "
            "expected a finite float32 number"
        )
    there = values[~np.isnan(values)]
    suspects = np.isin(there, list(FILLS)) | (np.abs(there) >= HUGE)
    others = there[~suspects]
    low, high = (others.min(), others.max()) if len(others) else (there.min(), there.max())
    width = max(high - low, abs(low) / 10, 1.0)
    fills = tuple(sorted({float(one) for one in there[suspects] if one < low - width or one > high + width}))
    notes = [
        f"column {name!r}: {fill:g} stands in {int((there == fill).sum())} of {len(values)} rows, far from all other "
        "values, and is taken for missing (fills)"
        for fill in fills
    ]
    rest = there[~np.isin(there, fills)]
    low, high = (float(f"{end:.4g}") for end in (rest.min() - MARGIN * width, rest.max() + MARGIN * width))
    return Column(name, low=low, high=high, fills=fills), notes

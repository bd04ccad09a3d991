"""The contract that a public table suggests, and a sentence for everything that people should look at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from fedballot.core.errors import DataError, did_you_mean
from fedballot.datasets.readers.pictures import SUFFIXES
from fedballot.datasets.readers.tables import Table
from fedballot.datasets.schema.cells import LARGEST, Floats, are_dates, holds_truths, numbers_of, words_of
from fedballot.datasets.schema.contract import MISSING, Column, Schema
from fedballot.datasets.schema.dates import PERHAPS, are_numbers_of_dates, date_form
from fedballot.datasets.schema.hints import Hints, schema_command
from fedballot.datasets.schema.labels import (
    FEW_ROWS,
    LABELS,
    decided,
    has_gaps,
    infer_label,
    label_if_any,
    label_name,
    notes_of_label,
)
from fedballot.datasets.schema.marks import UNSURE, mark_of, read_marked
from fedballot.datasets.schema.signs import refuse_unsure
from fedballot.datasets.schema.words import listed

GROUP = "group"
_EMPTY = ("", "nan", "none")  # as str() writes what a cell lacks
FILLS = {sign * value for sign in (1, -1) for value in (999, 9999, 99999, 999999, 32768)}
HUGE = 1e19  # no measurement; fill values such as 1e20 and netCDF's 9.97e36 are
CATEGORIES = ((20, 0), (100, 10), (500, 100))  # so many words at most, if each stands in so many rows on average
_BESIDE = re.compile(r"[(<>~+-]?\d[\d.,'’ \xa0\u202f]*\D{0,12}")  # 3 mg, 1'200, 0,5 between commas
_CODE = re.compile(r"0\d+")
FIRST_DATE, LAST_DATE = 19000101, 20991231  # as numbers
MOST_TEXT = 4096  # bytes that are kept of each text, where people do not say more
MARGIN = 10  # how many times its own width a public range is widened at both ends


def infer_schema(table: Table, hints: Hints, labels: bool = True) -> tuple[Schema, tuple[str, ...]]:
    """The contract of a table, and what was decided on the way.

    Parameters
    ----------
    labels : whether classes must stand in the table; else it may have no column of them, or one with gaps, and the
        contract then has no classes.

    Raises
    ------
    DataError
        No label, a label that is a measurement, no feature, words that differ in spelling only, or a cell that does not
        fit its column: names the file, the place and the fix.
    """
    missing = (*MISSING, *hints.missing)
    names = list(table.frame.columns)
    label = (label_name if labels else label_if_any)(table, hints.label, hints.no_label)
    for name in filter(None, (hints.id, *hints.drop, *hints.category, *hints.distinct, *hints.text)):
        if name not in names:
            raise DataError(f"{table.path}: no column {name!r}{did_you_mean(name, names)}; found {listed(names)}")
        if name in (hints.id, *hints.drop, *hints.text) and name == label:
            raise DataError(
                f"{table.path}: column {name!r} holds the classes, so it is neither an id nor dropped nor text"
            )
    dropped = dict.fromkeys(hints.drop, "named as no feature") | ({hints.id: "an id"} if hints.id else {})
    image = image_column(table, (label, GROUP, *dropped, *hints.category))
    columns: list[Column] = []
    excluded: dict[str, str] = {}
    notes: list[str] = []
    for name in names:
        if name == GROUP or (label and name == label):
            continue
        kept, kind = ((image,), "images") if image else (hints.text, "texts")
        beside = f"the records are {kind}" if any(kept) and name not in kept else ""
        why = dropped.get(name) or beside or ("" if any(kept) else _no_feature(table, name, missing, hints))
        if why:
            excluded[name] = why
            if name not in dropped:
                notes.append(f"column {name!r} is left out: {why}")
            continue
        column, words = (Column(name, "image", missing="refuse"), []) if image else _column(table, name, missing, hints)
        columns.append(column)
        notes += words
    if not columns:
        reasons = "; ".join(f"column {name!r} is left out: {why}" for name, why in [*excluded.items()][:3])
        raise DataError(
            f"{table.path}: no feature column beside {listed(filter(None, [label, *excluded]))}; expected at least "
            f"one{'. ' * bool(reasons)}{reasons}"
        )
    size = hints.image_size if image else ()
    classes = Column(label or hints.label or LABELS[0], "category")
    if label and (labels or not has_gaps(table, label, missing)):
        classes = infer_label(table, hints)
        features = [column.name for column in columns if column.kind in ("category", "number", "boolean")]
        notes = [*notes_of_label(table, label, features), *notes]
    elif label:
        notes.append(f"column {label!r} is empty in some rows: all records count as having no label")
    return Schema(classes, tuple(columns), tuple(excluded.items()), missing, image_size=size), tuple(notes)


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


def _no_feature(table: Table, name: str, missing: Sequence[str], hints: Hints) -> str:
    """Why a column is no feature, or nothing."""
    if name in hints.category:
        return ""
    if name == "" or name.startswith("Unnamed:"):
        if set(words_of(table, name)) <= {*missing}:
            return "empty in every row"
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
    if mark := mark_of(words):
        return _unsure_marks(table, name, missing, mark)
    form, why = date_form(words)
    different = len(set(words))
    few = any(different <= most and each * different <= len(words) for most, each in CATEGORIES)
    if form or are_dates(words) or (few and (not why or why.startswith(PERHAPS))):
        return ""
    if why:
        return why
    if all(_BESIDE.fullmatch(word) for word in words):
        return f"numbers with something in or beside them ({words[0]!r}); write them alone, decimals with a point"
    return (
        f'{different} different words in {len(words)} rows; kind = "text" in the schema makes features of its words, '
        f"--text {name!r} of `fedballot data schema` keeps its texts for encoder=minilm"
    )


def _unsure_marks(table: Table, name: str, missing: Sequence[str], mark: str) -> str:
    """Why numbers with a mark cannot be read, or nothing."""
    try:
        read_marked(table, name, missing, mark)
    except DataError:  # its place is no business of the contract
        return f"numbers with {mark!r}, of which {UNSURE}"
    return ""


def _column(table: Table, name: str, missing: tuple[str, ...], hints: Hints) -> tuple[Column, list[str]]:
    if name in hints.text:
        longest = max(len(word.encode()) for word in words_of(table, name).astype(str))
        return Column(name, "text", bytes=min(max(1 << (longest - 1).bit_length(), 64), MOST_TEXT)), []
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
            f" other cells are. Where it stands for missing: {schema_command(table, hints)} --missing "
            f"{words[row]!r}; where the cells are words: --category {name!r}"
        )
    there = words[present]
    if {word.casefold() for word in there} <= {"true", "false"}:
        return Column(name, "boolean"), []
    if are_dates(there):
        return Column(name, "date"), []
    if name not in hints.category and (form := date_form(there)[0]):
        return Column(name, "date", format=form), []
    if name not in hints.category and (mark := mark_of(there)):
        column, notes = _number(table, name, read_marked(table, name, missing, mark)[0])
        return replace(column, unit=mark, mark=mark), notes
    return decided(table, Column(name, "category"), there, hints), []


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
    usual = len(there) >= FEW_ROWS and there.min() >= FIRST_DATE and there.max() <= LAST_DATE
    if usual and are_numbers_of_dates(words_of(table, name)[~np.isnan(values)]):
        notes.append(
            f"column {name!r} is read as numbers; where {there[0]:.0f} and the like are dates, write into the schema "
            'kind = "date" and format = "%Y%m%d"'
        )
    codes = [word for word in map(str, table.frame[name].iloc[:1000]) if _CODE.fullmatch(word.strip())]
    if codes:
        notes.append(
            f"column {name!r} is read as numbers, but {codes[0]!r} and the like begin with a zero, as codes do: leave "
            "it out with --drop, or make words of it with --category"
        )
    rest = there[~np.isin(there, fills)]
    low, high = (float(f"{end:.4g}") for end in (rest.min() - MARGIN * width, rest.max() + MARGIN * width))
    return Column(name, low=low, high=high, fills=fills), notes

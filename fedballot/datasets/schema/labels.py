"""Which column of a table holds the classes, and what people should look at in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from fedballot.core.errors import DataError, did_you_mean
from fedballot.datasets.readers.tables import Table
from fedballot.datasets.schema.cells import are_dates, numbers_of, words_of
from fedballot.datasets.schema.words import listed

LABELS = ("label", "class", "target", "outcome", "y")
MOST_NAMED = 20  # columns that may hold the classes, the last ones, where labels mostly stand
FEW_ROWS = 20  # below that, different integers say nothing
_NUMBER = re.compile(r"[+-]?\d*[.,]?\d+")


def label_name(table: Table, asked: str = "") -> str:
    """The column of the classes.

    Raises
    ------
    DataError
        None, or a first line that is a record.
    """
    names = [str(name) for name in table.frame.columns]
    matches = _matches(names, asked)
    values = [name for name in names if _NUMBER.fullmatch(name) or are_dates(np.array([name], dtype=object))]
    what = (
        f". {listed(values[:3])} in the header look like values: if the first line is a record, write a header above it"
    )
    no_header = what if values else ""
    measured = not all(name.isdigit() for name in values)  # 0, 1, 2 may be names of columns
    if asked and matches and measured and asked in set(words_of(table, asked)):
        raise DataError(f"{table.path}: column {asked!r} has {asked!r} in its own rows{no_header}")
    if matches:
        return matches[0]
    if asked:
        raise DataError(
            f"{table.path}: no column {asked!r}{did_you_mean(asked, names)}; found {listed(names)}{no_header}"
        )
    few = [f"{name!r} ({count} different)" for name, count in _may_be_classes(table).items()]
    raise DataError(
        f"{table.path}: no column 'label' in the header ({shortened(names)}); name the one with the "
        f"classes: label=COLUMN, or, for fedballot try and data schema, --label COLUMN ({'/'.join(LABELS)} is found). "
        f"Few different words or whole numbers stand in {', '.join(few[-MOST_NAMED:]) or 'no column'}{no_header}"
    )


def shortened(names: Sequence[str], most: int = 8) -> str:
    """The first names of a header, and "…" where there are more."""
    return ", ".join(names[:most]) + (f", … ({len(names)} in all)" if len(names) > most else "")


def _matches(names: Sequence[str], asked: str = "") -> list[str]:
    """Columns that are called as asked, or as labels are; the one that is taken comes first."""
    if asked:
        return [name for name in names if name == asked]
    return [name for word in LABELS for name in names if name.casefold() == word]


def notes_of_label(table: Table, label: str, asked: bool, features: Sequence[str]) -> list[str]:
    """Features that may be labels, too, where nobody has ``asked`` for this one, and those that give the class away."""
    notes = []
    others = [name for name in _matches(features) if name != label]
    if others and not asked:
        notes.append(
            f"column {label!r} is taken for the classes; {listed(others)} may hold them, too, and would be "
            "features: say which with --label, and leave out the rest with --drop"
        )
    if len(table.frame) < FEW_ROWS:
        return notes
    classes = words_of(table, label)
    count = len(set(classes))
    for name in features:
        if table.frame[name].iloc[:1000].nunique() > 2 * count:  # twice: 1 and 1.0 are one word
            continue
        words = words_of(table, name)
        different = len(set(words))
        if 2 <= different == count == len(set(zip(words, classes, strict=True))):
            notes.append(
                f"column {name!r} gives the class away: each of its {different} words stands with one class of "
                f"{label!r} alone. Where it is not known beforehand, leave it out with --drop"
            )
    return notes


def _may_be_classes(table: Table) -> dict[str, int]:
    """Columns of few different words or whole numbers in every row, and how many."""
    counts = {}
    for name in table.frame.columns:
        words = words_of(table, name)
        values, bad = numbers_of(table, name, ())
        different = set(words)
        whole = bad.any() or bool((values == np.round(values)).all())
        if "" not in different and 2 <= len(different) <= min(FEW_ROWS, len(words) // 2) and whole:
            counts[str(name)] = len(different)
    return counts

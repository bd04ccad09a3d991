"""Which column of a table holds the classes, and what people should look at in it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence

import numpy as np

from fedballot.core.errors import DataError, did_you_mean
from fedballot.datasets.checks import encode
from fedballot.datasets.readers.tables import Table
from fedballot.datasets.schema.cells import Words, are_dates, numbers_of, words_of
from fedballot.datasets.schema.contract import MISSING, Column
from fedballot.datasets.schema.hints import Hints, schema_command
from fedballot.datasets.schema.words import listed, lookalikes

LABELS = ("label", "class", "target", "outcome", "y")
# what results are called, too: beside one of LABELS, nobody can say which of the two is meant
OUTCOMES = (
    *("survived", "survival", "alive", "died", "dead", "death", "mortality", "deceased", "relapse", "recurrence"),
    *("diagnosis", "diagnose", "disease", "malignant", "prognosis", "readmitted", "species", "sentiment", "spam"),
    *("churn", "churned", "exited", "default", "defaulted", "fraud", "is_fraud", "approved", "attrition", "income"),
)
MOST_NAMED = 20  # columns that may hold the classes, the last ones, where labels mostly stand
FEW_ROWS = 20  # below that, different integers say nothing
_NUMBER = re.compile(r"[+-]?\d*[.,]?\d+")


def label_name(table: Table, asked: str = "", left_out: Collection[str] = ()) -> str:
    """The column of the classes; of those that are ``left_out``, none.

    Raises
    ------
    DataError
        None, several that may be meant, or a first line that is a record.
    """
    names = [str(name) for name in table.frame.columns]
    open_names = [name for name in names if name not in left_out]
    matches = _matches(names, asked) if asked else _matches(open_names) or _matches(names)
    values = [name for name in names if _NUMBER.fullmatch(name) or are_dates(np.array([name], dtype=object))]
    what = (
        f". {listed(values[:3])} in the header look like values: if the first line is a record, write a header above it"
    )
    no_header = what if values else ""
    measured = not all(name.isdigit() for name in values)  # 0, 1, 2 may be names of columns
    if asked and matches and measured and asked in set(words_of(table, asked)):
        raise DataError(f"{table.path}: column {asked!r} has {asked!r} in its own rows{no_header}")
    if matches:
        _refuse_rivals(table, matches[0], [] if asked else open_names)
        return matches[0]
    if asked:
        raise DataError(
            f"{table.path}: no column {asked!r}{did_you_mean(asked, names)}; found {listed(names)}{no_header}"
        )
    few = [f"{name!r} ({count} different)" for name, count in _may_be_classes(table, names).items()]
    raise DataError(
        f"{table.path}: no column 'label' in the header ({shortened(names)}); name the one with the "
        f"classes: label=COLUMN, or, for fedballot try and data schema, --label COLUMN ({'/'.join(LABELS)} is found). "
        f"Few different words or whole numbers stand in {', '.join(few[-MOST_NAMED:]) or 'no column'}{no_header}"
    )


def label_if_any(table: Table, asked: str = "", left_out: Collection[str] = ()) -> str:
    """As :func:`label_name`, but empty where no column is called so."""
    names = [str(name) for name in table.frame.columns]
    found = _matches([name for name in names if name not in left_out], asked)
    return label_name(table, asked, left_out) if found else ""


def has_gaps(table: Table, name: str, missing: Sequence[str]) -> bool:
    """Whether some cells of a column are empty or words for "missing"."""
    return bool(np.isin(words_of(table, name).astype(str), ("", *missing)).any())


def infer_label(table: Table, hints: Hints) -> Column:
    """The column of the classes, with its words.

    Raises
    ------
    DataError
        See :func:`infer_schema`.
    """
    name = label_name(table, hints.label, hints.no_label)
    words = words_of(table, name)
    for row in np.flatnonzero(words == "")[:1]:
        raise DataError(f"{table.where(row)}, column {name}: empty; expected a class in every row")
    absent = np.flatnonzero(np.isin(words.astype(str), (*MISSING, *hints.missing)))
    if len(absent) and name not in hints.category:
        word = str(words[absent[0]])
        raise DataError(
            f"{table.where(absent[0])}, column {name}: {word!r} ({len(absent)} such rows); expected a class in every "
            f"row. Leave out records without one; where {word!r} is a class: {schema_command(table, hints)} "
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
    return decided(table, Column(name, kind="category"), words, hints)


def decided(table: Table, column: Column, words: Words, hints: Hints) -> Column:
    """The column with its words.

    Raises
    ------
    DataError
        Spellings that somebody must decide about.
    """
    same = {word: meant for word, meant in hints.same if word in words}
    different = sorted(set(words) - set(same))
    alike = [] if column.name in hints.distinct else lookalikes(different)
    if alike:
        counts = {word: int((words == word).sum()) for word in alike[0]}
        meant = max(counts, key=lambda word: counts[word])
        group = [word for word in counts if word != meant]
        row = int(np.flatnonzero(words == group[0])[0])
        same_words = " ".join(f"--same {word!r}={meant!r}" for word in group)
        raise DataError(
            f"{table.where(row)}, column {column.name}: {' and '.join(map(repr, counts))} differ in "
            f"spelling only. Write them alike in the file; or make a schema that says what is meant: "
            f"{schema_command(table, hints)} {same_words}, or, if they are different, --distinct {column.name!r}"
        )
    names = encode(np.array(different, dtype=np.str_))[1]
    pairs = tuple(sorted((word, meant) for word, meant in same.items() if meant in names and word not in names))
    return Column(column.name, column.kind, words=names, same=pairs)


def shortened(names: Sequence[str], most: int = 8) -> str:
    """The first names of a header, and "…" where there are more."""
    return ", ".join(names[:most]) + (f", … ({len(names)} in all)" if len(names) > most else "")


def _matches(names: Sequence[str], asked: str = "") -> list[str]:
    """Columns that are called as asked, or as labels are; the one that is taken comes first."""
    if asked:
        return [name for name in names if name == asked]
    return [name for word in LABELS for name in names if name.casefold() == word]


def _refuse_rivals(table: Table, first: str, names: Sequence[str]) -> None:
    """Stop where other columns have names of results, too, and hold few different words."""
    others = [name for name in names if name != first and name.casefold() in (*LABELS, *OUTCOMES)]
    rivals = _may_be_classes(table, others)
    if not rivals:
        return
    counts = {first: len(set(words_of(table, first))), **rivals}
    columns = ", ".join(f"{name!r} ({count} different words)" for name, count in counts.items())
    ways = " or ".join(f"--label {shlex.quote(name)}" for name in counts)
    raise DataError(
        f"{table.path}: by their names, each of the columns {columns} may hold the classes, and nothing is guessed. "
        f"Say which: fedballot try {shlex.quote(str(table.path))} {ways} (data schema takes it, too; in "
        f"settings: label={shlex.quote(first)}). The others are features then, unless they are dropped: --set "
        f"drop={shlex.quote(','.join(rivals))} (data schema: --drop)"
    )


def notes_of_label(table: Table, label: str, features: Sequence[str]) -> list[str]:
    """Features that give the class away."""
    notes: list[str] = []
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


def _may_be_classes(table: Table, names: Sequence[str]) -> dict[str, int]:
    """Those columns of few different words or whole numbers in every row, and how many."""
    counts = {}
    for name in names:
        words = words_of(table, name)
        values, bad = numbers_of(table, name, ())
        different = set(words)
        whole = bad.any() or bool((values == np.round(values)).all())
        if "" not in different and 2 <= len(different) <= min(FEW_ROWS, len(words) // 2) and whole:
            counts[str(name)] = len(different)
    return counts

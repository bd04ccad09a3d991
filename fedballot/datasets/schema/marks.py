"""Numbers with a mark in every cell: ``45 %``, ``$1,200``, ``1.200,50 €``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError
from fedballot.datasets.readers.tables import Table
from fedballot.datasets.schema.cells import Floats, words_of

PERCENT = "%"
MARKS = (PERCENT, "$", "€", "£", "¥", "USD", "EUR", "GBP", "CHF")
UNSURE = (
    "nobody can say which sign stands before decimals: write thousands without a sign between them, and decimals with "
    "a point in the whole file"
)
_MARK = "|".join(map(re.escape, MARKS))
_CELL = re.compile(rf"([+-]?)\s*({_MARK}|)\s*([+-]?\d[\d.,]*|[+-]?[.,]\d+)\s*({_MARK}|)")
_POINT = re.compile(r"[+-]?([1-9]\d{0,2}(,\d{3})+|\d*)(\.\d+)?")  # 1,200.50
_COMMA = re.compile(r"[+-]?([1-9]\d{0,2}(\.\d{3})+|\d*)(,\d+)?")  # 1.200,50


def mark_of(words: Iterable[str]) -> str:
    """The mark that all these words carry; empty where there is none, or another one.

    Examples
    --------
    >>> mark_of(["$1,200", "$950"]), mark_of(["45 %", "7"])
    ('$', '')
    """
    mark = ""
    for word in set(words):
        own = _taken_apart(word)[0]
        if not own or (mark and own != mark):
            return ""
        mark = own
    return mark


def read_marked(table: Table, name: str, missing: Sequence[str], mark: str) -> tuple[Floats, NDArray[np.bool_]]:
    """A column's numbers without their mark, NaN where there is none, and which cells are no such numbers.

    Sums of money may lack their mark. Percentages may not: 0.45 may be 45 %.

    Raises
    ------
    DataError
        Cells of which nobody can say whether a sign stands before decimals or between thousands.
    """
    words = words_of(table, name)
    empty = np.isin(words.astype(str), list(missing))
    different, place = np.unique(words[~empty].astype(str), return_inverse=True)
    parts = [_taken_apart(str(word)) for word in different]
    texts = [number if own in ((mark,) if mark == PERCENT else (mark, "")) else "" for own, number in parts]
    wrong = np.array([not text for text in texts], dtype=np.bool_)
    plain = decimals([text for text in texts if text], table.decimal_comma)
    if plain is None:
        row = int(np.flatnonzero(~empty)[next(n for n, at in enumerate(place) if re.search("[.,]", texts[at]))])
        raise DataError(f"{table.where(row)}, column {name}: {words[row]!r}; {UNSURE}")
    numbers = np.full(len(texts), np.nan)
    numbers[~wrong] = plain
    values, bad = np.full(len(words), np.nan), np.zeros(len(words), np.bool_)
    values[~empty], bad[~empty] = numbers[place], wrong[place]
    return values, bad


def decimals(texts: Sequence[str], decimal_comma: bool) -> list[float] | None:
    """Texts of digits, points and commas as numbers; None where the whole column leaves a doubt.

    Parameters
    ----------
    decimal_comma : whether commas may stand before decimals in a table; where they part cells, they do not.

    Examples
    --------
    >>> decimals(["1,200", "950.5"], False), decimals(["1.200", "950"], True)
    ([1200.0, 950.5], None)
    """
    point, comma = (all(form.fullmatch(text) for text in texts) for form in (_POINT, _COMMA))
    if point and comma and any("." in text or "," in text for text in texts):
        if decimal_comma or any("." in text for text in texts):
            return None
    elif not point and not comma:
        return None
    if point:
        return [float(text.replace(",", "")) for text in texts]
    return [float(text.replace(".", "").replace(",", ".")) for text in texts]


def _taken_apart(word: str) -> tuple[str, str]:
    """The mark and the number of a cell; both empty where it is none, or carries two marks."""
    match = _CELL.fullmatch(word.strip())
    if match is None or (match[2] and match[4]) or match[2] == PERCENT:
        return "", ""
    number = match[3] if match[3][0] in "+-" else match[1] + match[3]
    return (match[2] or match[4], number) if not (match[1] and match[3][0] in "+-") else ("", "")

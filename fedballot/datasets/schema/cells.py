"""Cells of a table's column as numbers, dates or words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError

if TYPE_CHECKING:
    from fedballot.datasets.readers.tables import Table

Floats = NDArray[np.float64]
Words = NDArray[np.object_]
LARGEST = float(np.finfo(np.float32).max)

_WHOLE = re.compile(r"([+-]?\d+)\.0+")
_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?|[+-]?\d+([eE][+-]?\d+)?")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d{2}:?\d{2})?")
_TRUTH = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}


def words_of(table: Table, name: str) -> Words:
    """Cells as text without spaces around; what is empty is "". 2.0 is 2, so that files agree however they are saved.

    Raises
    ------
    DataError
        Cells that are lists or the like.
    """
    import pandas as pd

    series = table.frame[name]
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(series.cat.categories.dtype)
    if pd.api.types.is_datetime64_any_dtype(series):
        series = series.map(lambda cell: "" if pd.isna(cell) else cell.isoformat())
    try:
        codes, values = pd.factorize(series.to_numpy(dtype=object, na_value=None), use_na_sentinel=True)
    except TypeError as error:  # lists have no hash
        raise DataError(f"{table.path}: column {name} holds lists or the like; expected numbers or text") from error
    texts = np.array([*(_text(value) for value in values), ""], dtype=object)
    words: Words = texts[codes]
    return words


def _text(value: Any) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer() and abs(float(value)) < 1e15:
        value = int(value)
    text = str(value).strip()
    whole = _WHOLE.fullmatch(text)
    return str(int(whole[1])) if whole and len(whole[1]) < 20 else text


def numbers_of(table: Table, name: str, missing: tuple[str, ...]) -> tuple[Floats, NDArray[np.bool_]]:
    """Cells as numbers, NaN where there is none, and which of them are no number although they are not missing."""
    import pandas as pd

    series = table.frame[name]
    if pd.api.types.is_numeric_dtype(series) and not pd.api.types.is_complex_dtype(series):
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return values, np.zeros(len(values), np.bool_)
    try:  # whole columns of numbers are most of a large table
        values = series.to_numpy(dtype=object, na_value="nan").astype(np.float64)
        return values, np.zeros(len(values), np.bool_)
    except (ValueError, TypeError):
        pass
    codes, words = pd.factorize(words_of(table, name))  # each word once: a column of categories has few
    empty = np.isin(words.astype(str), missing)
    texts = np.where(empty, "nan", words)
    bad: NDArray[np.bool_] = np.zeros(len(texts), np.bool_)
    try:
        return texts.astype(np.float64)[codes], bad[codes]
    except ValueError:
        pass
    if table.decimal_comma and all(_COMMA.fullmatch(text) for text in texts[~empty]):
        return np.array([text.replace(",", ".") for text in texts], dtype=np.float64)[codes], bad[codes]
    parsed = np.array([_float(text) for text in texts])
    bad = np.array([value is None for value in parsed])
    return np.where(bad, np.nan, parsed).astype(np.float64)[codes], bad[codes]


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def dates_of(table: Table, name: str, missing: tuple[str, ...], form: str) -> tuple[Floats, NDArray[np.bool_]]:
    """Dates as days since 1970, NaN where there is none, and which cells are no date although they are not missing."""
    import pandas as pd

    words = words_of(table, name)
    empty = np.isin(words.astype(str), missing)
    series = pd.Series(np.where(empty, "", words), dtype=object)
    times = pd.to_datetime(series, format=form or "ISO8601", errors="coerce", utc=True)
    if form:  # where a date is one in the file, as in Parquet and Excel, it has no form of its own
        iso = series.map(lambda word: _ISO_DATE.fullmatch(word) is not None)
        times = times.where(~iso, pd.to_datetime(series.where(iso), format="ISO8601", errors="coerce", utc=True))
    days = (times - pd.Timestamp("1970-01-01", tz="UTC")) / pd.Timedelta(days=1)
    values = days.to_numpy(dtype=np.float64, na_value=np.nan)
    return values, np.isnan(values) & ~empty


def are_dates(words: Words) -> bool:
    """Whether all these words are ISO 8601 dates."""
    return bool(len(words)) and all(_ISO_DATE.fullmatch(word) for word in words)


def holds_truths(table: Table, name: str) -> bool:
    """Whether cells are no text and no numbers but true and false, as Parquet and Excel have them; some may lack."""
    import pandas as pd

    series = table.frame[name]
    if series.dtype != object:
        return bool(pd.api.types.is_bool_dtype(series))
    there = series.dropna()
    return len(there) > 0 and all(isinstance(cell, bool | np.bool_) for cell in there)


def truths_of(words: Words, missing: tuple[str, ...]) -> tuple[Floats, NDArray[np.bool_]]:
    """True and false as 1 and 0, NaN where there is none, and which words are neither."""
    empty = np.isin(words.astype(str), missing)
    values = np.array([_TRUTH.get(word.casefold(), np.nan) for word in words])
    return values, np.isnan(values) & ~empty

"""Reading a user's CSV or Parquet table: a `label` column, an optional `group` column, the rest numeric features."""

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError
from fedballot.datasets.checks import label_texts
from fedballot.datasets.readers.raw import Raw

_LARGEST = float(np.finfo(np.float32).max)
_DECIMAL = re.compile(r"[+-]?\d+\.\d+")


def read_csv(path: Path, person: str = "") -> Raw:
    """Read a comma-separated UTF-8 file with a header line; the column ``person`` says whose record each is.

    Raises
    ------
    DataError
        No header, no `label` column, a ragged line, an empty, non-numeric or infinite cell (names line and column).
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return _parse(csv.reader(file, strict=True), path, person)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read as CSV ({error}); expected comma-separated UTF-8 text") from error


def _parse(reader: Any, path: Path, person: str) -> Raw:
    header = [name.strip() for name in next(reader, [])]
    features = _feature_columns(header, path, person)
    at = [header.index(name) for name in features]
    label_at, group_at = header.index("label"), header.index("group") if "group" in header else None
    person_at = header.index(person) if person else None
    rows: list[NDArray[np.float32]] = []
    labels: list[str] = []
    groups: list[str] = []
    persons: list[str] = []
    for row in reader:
        if not row:
            continue
        line = f"{path}: line {reader.line_num}"
        if len(row) != len(header):
            raise DataError(f"{line}: {len(row)} cells; expected {len(header)}, as in the header")
        labels.append(_text(row[label_at], f"{line}, column label"))
        if group_at is not None:
            groups.append(_text(row[group_at], f"{line}, column group"))
        if person_at is not None:
            persons.append(_text(row[person_at], f"{line}, column {person}"))
        rows.append(_numbers([row[i] for i in at], features, line))
    if not rows:
        raise DataError(f"{path}: a header but no rows; expected at least one")
    return Raw(
        np.stack(rows),
        np.array(labels),
        np.array(groups) if groups else None,
        features,
        persons=np.array(persons) if person else None,
    )


def _feature_columns(header: Sequence[str], path: Path, person: str) -> tuple[str, ...]:
    if "label" not in header:
        columns = ", ".join(header[:8]) or "nothing"
        raise DataError(
            f"{path}: no column 'label' in the header ({columns}); expected a comma-separated header with it"
        )
    if person and person not in header:
        raise DataError(f"{path}: no column {person!r} with the persons in the header ({', '.join(header[:8])})")
    for name in header:
        if header.count(name) > 1:
            raise DataError(f"{path}: column {name!r} stands {header.count(name)} times in the header; expected once")
    features = tuple(name for name in header if name not in ("label", "group", person))
    if not features:
        raise DataError(f"{path}: no feature column beside label and group; expected at least one")
    return features


def _text(cell: str, where: str) -> str:
    text = cell.strip()
    if not text:
        raise DataError(f"{where}: empty; expected an integer or text")
    if not _DECIMAL.fullmatch(text):
        return text
    # 1.0 in one client's file and 1 in another's are one class; 1.5 is a measurement, not a class
    whole, _, rest = text.partition(".")
    if rest.strip("0"):
        raise DataError(f"{where}: {text!r}; expected an integer or text")
    return str(int(whole))


def _numbers(cells: Sequence[str], columns: Sequence[str], line: str) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):
            values = np.fromiter(map(float, cells), np.float32, len(cells))
        if np.isfinite(values).all():
            return values
    except ValueError:
        pass
    for column, cell in zip(columns, cells, strict=True):
        if not _is_number(cell):
            raise DataError(f"{line}, column {column}: {cell!r}; expected a finite float32 number")
    raise DataError(f"{line}: expected finite float32 numbers")


def _is_number(cell: str) -> bool:
    try:
        return abs(float(cell)) <= _LARGEST
    except ValueError:
        return False


def read_parquet(path: Path, person: str = "") -> Raw:
    """Read a Parquet table; the column ``person`` says whose record each is.

    Raises
    ------
    DataError
        pyarrow is missing, the file is damaged, a column is missing, not numeric, or has a null (names row and column).
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise DataError(f"{path}: Parquet needs pyarrow; run pip install 'fedballot[parquet]'") from error
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read as Parquet ({error}); expected a complete Parquet file") from error
    features = _feature_columns(table.column_names, path, person)
    if not table.num_rows:
        raise DataError(f"{path}: no rows; expected at least one")
    x = np.empty((table.num_rows, len(features)), np.float32)
    for i, name in enumerate(features):
        cells = _filled(table, name, path)
        if not (pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type) or pa.types.is_boolean(cells.type)):
            raise DataError(f"{path}: column {name} has type {cells.type}; expected numbers")
        with np.errstate(over="ignore"):
            x[:, i] = cells.to_numpy()
        bad = np.flatnonzero(~np.isfinite(x[:, i]))
        if len(bad):
            raise DataError(f"{path}: row {bad[0]}, column {name}: {cells[bad[0]]}; expected a finite float32 number")
    texts = {}
    for name in {"label", "group", person} & set(table.column_names):
        cells = _filled(table, name, path)
        if pa.types.is_nested(cells.type):
            raise DataError(f"{path}: column {name} has type {cells.type}; expected integers or text")
        texts[name] = label_texts(np.asarray(cells.to_pylist()), f"{path}: column {name}")
    return Raw(x, texts["label"], texts.get("group"), features, persons=texts.get(person))


def _filled(table: Any, name: str, path: Path) -> Any:
    cells = table.column(name)
    if cells.null_count:
        row = cells.is_null().index(True).as_py()
        raise DataError(f"{path}: row {row}, column {name}: null; expected a value (fill or drop the row)")
    return cells

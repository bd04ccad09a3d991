"""A user's table as a data frame: CSV and TSV however they are written, Parquet, Feather, Excel."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zipfile
import zlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedballot.core.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".tsv", ".parquet", ".feather", ".xlsx")
PACKED = (".gz", ".zip")
_SEPARATORS = ",;\t|"
_SEPARATOR = re.compile(r'"?sep=(.)"?\r?\n')


@dataclass(frozen=True, eq=False)
class Table:
    """A table as it stands in its file.

    Attributes
    ----------
    frame : all columns; of a text file, every cell as text.
    where : the file, and where in it a row stands, as an editor shows it: "own.csv: line 7".
    decimal_comma : whether a comma may stand for the decimal point.
    """

    path: Path
    frame: pd.DataFrame
    where: Callable[[int], str]
    decimal_comma: bool = False


def is_table(path: Path) -> bool:
    """Whether a file's name is that of a table."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes and suffixes[-1] in PACKED:
        return len(suffixes) == 2 and suffixes[0] in SUFFIXES[:2]
    return bool(suffixes) and suffixes[-1] in SUFFIXES


def read_table(path: Path) -> Table:
    """Read a table with a header.

    A text file may be packed (.gz, .zip), be UTF-8, UTF-16 with its mark, or else Windows' Latin letters, and have its
    cells between commas, semicolons, tabs or bars; where commas do not separate, they may stand in a number.

    Raises
    ------
    DataError
        Not readable, no header, a column twice, a line with another number of cells, or no rows.
    """
    suffix = path.suffix.lower()
    table = _binary(path, suffix) if suffix in SUFFIXES[2:] else _text_table(path)
    names = [str(name).strip() for name in table.frame.columns]
    table.frame.columns = names
    for name in names:
        if names.count(name) > 1:
            raise DataError(
                f"{path}: column {name!r} stands {names.count(name)} times in the header; expected once. Where the "
                "first line is a record, write a header above it"
            )
    if not len(table.frame):
        raise DataError(f"{path}: {'a header but no rows' if names else 'empty'}; expected a header and a row at least")
    return table


def _text_table(path: Path) -> Table:
    import pandas as pd

    text = _decoded(path)
    named = _SEPARATOR.match(text)  # a first line that Excel writes for itself; empty, it leaves lines their numbers
    if named:
        text = "\n" + text[named.end() :]
    header = next((line for line in io.StringIO(text) if line.strip()), "")
    unquoted = re.sub(r'"[^"]*"', "", header)
    separator = named[1] if named else ("\t" if ".tsv" in path.suffixes else max(_SEPARATORS, key=unquoted.count))
    try:
        frame = pd.read_csv(
            io.StringIO(text), sep=separator, header=None, dtype=str, keep_default_na=False, na_values=[]
        )
    except pd.errors.EmptyDataError:
        raise DataError(f"{path}: empty; expected a header and a row at least") from None
    except (pd.errors.ParserError, ValueError) as error:
        words = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        match = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", words)
        if match:
            wanted, line, cells = match.groups()
            raise DataError(f"{path}: line {line}: {cells} cells; expected {wanted}, as in the header") from error
        raise DataError(f"{path}: cannot be read as a table ({words})") from error
    if (frame.iloc[:, -1] == "").any():  # pandas fills up a line that ends early
        _check_lengths(path, text, separator, frame.shape[1])
    names, frame = list(frame.iloc[0]), frame.iloc[1:].reset_index(drop=True)
    frame.columns = names

    def where(row: int) -> str:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        lines = (reader.line_num for cells in reader if cells)
        return f"{path}: line {next(line for number, line in enumerate(lines) if number == row + 1)}"

    return Table(path, frame, where, decimal_comma=separator != ",")


def _check_lengths(path: Path, text: str, separator: str, width: int) -> None:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    for cells in reader:
        if cells and len(cells) != width:
            raise DataError(f"{path}: line {reader.line_num}: {len(cells)} cells; expected {width}, as in the header")


def _decoded(path: Path) -> str:
    try:
        content = _unpacked(path)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{path}: cannot be read ({error}); expected a complete file") from error
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", errors="replace")
    if b"\x00" in content:
        raise DataError(f"{path}: holds zero bytes; expected a table as text")
    for encoding in ("utf-8-sig", "cp1252"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1")


def _unpacked(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix.lower() == ".gz":
        return gzip.decompress(content)
    if path.suffix.lower() != ".zip":
        return content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
        if len(names) != 1:
            raise DataError(f"{path}: holds {len(names)} files ({', '.join(names[:5])}); expected one table")
        return archive.read(names[0])


_NEEDS = {".parquet": "pyarrow", ".feather": "pyarrow", ".xlsx": "openpyxl"}


def _binary(path: Path, suffix: str) -> Table:
    import pandas as pd

    read: dict[str, Callable[[Path], Any]] = {
        ".parquet": lambda file: pd.read_parquet(file, engine="pyarrow"),
        ".feather": pd.read_feather,
        ".xlsx": lambda file: pd.read_excel(
            file, engine="openpyxl", dtype=object, keep_default_na=False, na_values=[""]
        ),
    }
    try:
        frame = read[suffix](path)
    except ImportError as error:
        extra = "excel" if suffix == ".xlsx" else "parquet"
        raise DataError(f"{path}: {suffix} needs {_NEEDS[suffix]}; run pip install 'fedballot[{extra}]'") from error
    except Exception as error:  # of each library another kind
        kind = {".parquet": "Parquet", ".feather": "Feather", ".xlsx": "Excel"}[suffix]
        raise DataError(f"{path}: cannot be read as {kind} ({error}); expected a complete {kind} file") from error
    if frame.index.names != [None] or not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index()  # pandas keeps an index that has a name as a column; it is one like any other
    first = 2 if suffix == ".xlsx" else 1
    return Table(path, frame, lambda row: f"{path}: row {row + first}")


def joined(tables: Sequence[Table]) -> Table:
    """One table of the rows of several: the columns of the first, wherever they stand in the others.

    Raises
    ------
    DataError
        A column that another file lacks.
    """
    import pandas as pd

    if len(tables) == 1:
        return tables[0]
    names = list(tables[0].frame.columns)
    for table in tables[1:]:
        lacking = [name for name in names if name not in table.frame.columns]
        if lacking:
            raise DataError(
                f"{table.path}: no column {lacking[0]!r}, which {tables[0].path} has; expected the same columns, in "
                f"any order, but found {', '.join(map(str, table.frame.columns))}"
            )
    ends = list(accumulate(len(table.frame) for table in tables))

    def where(row: int) -> str:
        number = bisect_right(ends, row)
        return tables[number].where(row - (ends[number - 1] if number else 0))

    frame = pd.concat([table.frame[names] for table in tables], ignore_index=True)
    return Table(tables[0].path, frame, where, any(table.decimal_comma for table in tables))

"""Numbers of which nobody can say whether a sign stands before decimals or between thousands."""

from __future__ import annotations

import re
from collections.abc import Collection

from fedballot.core.errors import DataError
from fedballot.datasets.readers.tables import Table

_NUMBER = re.compile(r"[+-]?(?=[.,]?\d)\d*([.,]?)\d*([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")


def refuse_unsure(table: Table, name: str, missing: Collection[str]) -> None:
    """Stop at a column of `1,660` or `1.660` where the other columns do not say that the sign stands before decimals.

    A table has one decimal sign. A point is taken for it where no column has decimal commas; a comma only where
    another column has decimal commas beyond doubt and none has decimal points.

    Raises
    ------
    DataError
        Names the file, the line, the column and the fix.
    """
    if not table.decimal_comma or any(map(_surely_decimal, table.frame[name].iloc[:1000])):  # most columns, quickly
        return
    sign, sure = _decimal_sign(table, name, missing)
    if not sign or sure:
        return
    by_column = {str(other): _decimal_sign(table, other, missing) for other in table.frame.columns}
    points, commas = ([other for other, use in by_column.items() if use == (each, True)] for each in ".,")
    if (sign == "." and not commas) or (sign == "," and commas and not points):
        return
    cells = [str(cell).strip() for cell in table.frame[name]]
    row = next(row for row, cell in enumerate(cells) if _THOUSANDS.fullmatch(cell))
    signs = [
        f"column {some[0]!r} has decimal {what}" for some, what in ((points, "points"), (commas, "commas")) if some
    ]
    why = " and ".join(signs) or "no column says which sign stands before decimals"
    whole, decimal = re.sub("[.,]", "", cells[row]), cells[row].replace(",", ".")
    raise DataError(
        f"{table.where(row)}, column {name}: {cells[row]!r} may be {whole} or {float(decimal):g}: {why}. Write "
        "thousands without a sign between them, and decimals with a point in the whole file"
    )


def _surely_decimal(cell: object) -> bool:
    """Whether a cell is a number with a sign that cannot stand between thousands."""
    text = cell.strip() if isinstance(cell, str) else ""
    number = _NUMBER.fullmatch(text)
    return number is not None and bool(number[1]) and not _THOUSANDS.fullmatch(text)


def _decimal_sign(table: Table, name: str, missing: Collection[str]) -> tuple[str, bool]:
    """The sign in a column of numbers, empty where there is none or two, and whether it surely is before decimals."""
    signs, sure = set(), False
    series = table.frame[name]
    if series.dtype.kind in "biufcmM":
        return "", False
    for cell in series.unique():
        text = cell.strip() if isinstance(cell, str) else ""
        number = _NUMBER.fullmatch(text)
        if number is None and text and text not in missing:
            return "", False
        if number is not None and number[1]:
            signs.add(number[1])
            sure = sure or _surely_decimal(text)
    return (signs.pop(), sure) if len(signs) == 1 else ("", False)

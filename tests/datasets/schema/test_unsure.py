"""Tables that can be read in two ways: each is an error that names the place, or a sentence in the notes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedballot.core.errors import DataError
from fedballot.datasets.readers.files import load_path
from fedballot.datasets.schema.infer import Hints
from fedballot.datasets.schema.reading import Reading


def table(path: Path, head: str, *lines: str, times: int = 10) -> str:
    path.write_text("\n".join([head, *lines * times]) + "\n")
    return str(path)


@pytest.mark.parametrize(
    ("other", "cell", "beside", "words"),
    [
        ("29.2", "1,660", "229", r"'1,660' may be 1660 or 1\.66: column 'bmi' has decimal points"),
        ("29,2", "1.660", "229", r"'1\.660' may be 1660 or 1\.66: column 'bmi' has decimal commas"),
        ("29,2", "1.000", "2.000", r"'1\.000' may be 1000 or 1: "),
        ("29", "1,660", "229", r"'1,660' may be 1660 or 1\.66: no column says"),
    ],
)
def test_thousands_are_no_decimals(tmp_path: Path, other: str, cell: str, beside: str, words: str) -> None:
    """`1,660` was read as 1.66 and `229` as 229, in one column, without a word."""
    file = table(tmp_path / "own.csv", "bmi;leuko;label", f"{other};{cell};a", f"{other};{beside};b")
    with pytest.raises(DataError, match=rf"own\.csv: line 2, column leuko: {words}.*Write thousands without"):
        load_path(file)
    assert load_path(file, Reading(hints=Hints(drop=("leuko",)))).schema is not None


@pytest.mark.parametrize(("other", "cell"), [("29,2", "1,660"), ("29.2", "1.660"), ("29", "1.660"), ("29", "0,660")])
def test_three_decimals_are_read_where_the_sign_is_sure(tmp_path: Path, other: str, cell: str) -> None:
    file = table(tmp_path / "own.csv", "bmi;leuko;label", f"{other};{cell};a", f"{other};229;b")
    np.testing.assert_allclose(load_path(file).train.x[:2, 1], [float(cell.replace(",", ".")), 229])


def test_a_private_file_with_thousands_is_an_error(tmp_path: Path) -> None:
    schema = load_path(table(tmp_path / "public.csv", "bmi;leuko;label", "29.2;1660;a", "29.2;229;b")).schema
    private = table(tmp_path / "private.csv", "bmi;leuko;label", "29.2;1,660;a", "29.2;229;b")
    with pytest.raises(DataError, match=r"private\.csv: line 2, column leuko: '1,660' may be 1660"):
        load_path(private, Reading(schema=schema))

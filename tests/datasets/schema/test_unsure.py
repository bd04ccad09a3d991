"""Tables that can be read in two ways: each is an error that names the place, or a sentence in the notes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedballot.core.errors import DataError
from fedballot.datasets.readers.files import load_path
from fedballot.datasets.schema.hints import Hints
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


@pytest.mark.parametrize("other", ["Outcome", "survived", "Diagnosis"])
def test_of_several_columns_that_may_be_labels_none_is_taken(tmp_path: Path, other: str) -> None:
    """Of the passengers of the Titanic `class` was learned, and `survived` was a feature."""
    file = table(tmp_path / "own.csv", f"age,class,{other}", "1,a,u", "2,b,u", "3,a,v", "4,b,v")
    message = rf"'class' \(2 different words\), '{other}' \(2 .*own.csv --label class or --label {other} .*drop={other}"
    with pytest.raises(DataError, match=message):
        load_path(file)
    for hints in (Hints(label="class"), Hints(drop=(other,)), Hints(id=other)):
        assert load_path(file, Reading(hints=hints)).classes == ("a", "b")
    assert load_path(file, Reading(hints=Hints(drop=("class",), label=other))).classes == ("u", "v")


@pytest.mark.parametrize("other", ["y", "default"])
def test_a_measurement_is_no_rival_of_the_label(tmp_path: Path, other: str) -> None:
    file = table(tmp_path / "own.csv", f"x,{other},label", "1,0.5,a", "2,0.25,b", "3,0.75,a")
    assert load_path(file).classes == ("a", "b")


def test_dropping_the_only_label_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="column 'class' holds the classes, so it is neither an id nor dropped"):
        load_path(table(tmp_path / "own.csv", "x,class", "1,a", "2,b"), Reading(hints=Hints(drop=("class",))))


@pytest.mark.parametrize(
    ("last", "times", "leaks"), [("1", 10, True), ("0", 10, False), ("1", 4, False), ("2", 10, False)]
)
def test_a_column_that_gives_the_class_away_is_named(tmp_path: Path, last: str, times: int, leaks: bool) -> None:
    """`outcome` 0 and 1 beside `diagnosis` gesund and krank: 100 % right, of nothing."""
    rows = ("30,1,krank", "31,0,gesund", "32,0,gesund", f"33,{last},krank")
    file = table(tmp_path / "own.csv", "age,outcome,diagnosis", *rows, times=times)
    notes = load_path(file, Reading(hints=Hints(label="diagnosis"))).notes
    assert any("'outcome' gives the class away" in note for note in notes) is leaks
    assert not any("'age' gives" in note for note in notes)


@pytest.mark.parametrize("label", ["krank", "outcome", ""])
def test_a_first_line_that_is_a_record_is_an_error(tmp_path: Path, label: str) -> None:
    file = table(
        tmp_path / "own.csv", "79,29.2,m,2020-09-15,krank", "64,25.8,w,2020-04-09,gesund", "5,2.5,m,2020-04-08,krank"
    )
    with pytest.raises(DataError, match=r"own\.csv: .*'79', '29\.2', '2020-09-15' in the header look like values"):
        load_path(file, Reading(hints=Hints(label=label)))


@pytest.mark.parametrize(("head", "label"), [("1100.5,1101.5,kind", "kind"), ("0,1,2", "2")])
def test_numbers_as_names_of_columns_are_fine(tmp_path: Path, head: str, label: str) -> None:
    file = table(tmp_path / "own.csv", head, "1,2,2", "2,3,1")
    assert load_path(file, Reading(hints=Hints(label=label))).classes == ("1", "2")


def test_a_header_that_is_cut_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"header \(a, b, c, d, e, f, g, h, … \(9 in all\)\)"):
        load_path(table(tmp_path / "own.csv", "a,b,c,d,e,f,g,h,i", "1,2,3,4,5,6,7,8,9"))


def test_the_rarer_spelling_is_taken_for_the_other_one_and_hints_stay(tmp_path: Path) -> None:
    file = table(tmp_path / "own.csv", "sex,label", "W,a", "w,b", "w,A", "w,a", times=5)
    hints = Hints(missing=("-",))
    with pytest.raises(DataError, match=r"line 2, column sex: 'W' and 'w' .* --missing - --same 'W'='w', or") as wrong:
        load_path(file, Reading(hints=hints))
    assert "--label" not in str(wrong.value)
    hints = Hints(label="label", same=(("W", "w"),))
    with pytest.raises(DataError, match=r"line 4, column label: 'A' and 'a' .*--label label --same W=w --same 'A'='a'"):
        load_path(file, Reading(hints=hints))

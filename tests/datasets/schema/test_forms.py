"""Dates and numbers as people write them: read where a whole column leaves no doubt, else named with what to do."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import numpy as np
import pytest

from fedballot.core.errors import DataError
from fedballot.datasets.examples import Source
from fedballot.datasets.readers.files import load_path
from fedballot.datasets.schema.contract import Column, Schema
from fedballot.datasets.schema.dates import date_form
from fedballot.datasets.schema.marks import decimals, mark_of
from fedballot.datasets.schema.reading import Reading
from fedballot.datasets.schema.toml import parse_schema, to_toml


def table(path: Path, cells: list[str], separator: str = ";") -> str:
    """A table of a number, a column of these cells over and over, and two classes."""
    half = ",5" if separator == ";" else ".5"
    rows = [(f"{row}{half}", f'"{cells[row % len(cells)]}"', "ab"[row % 2]) for row in range(40)]
    path.write_text("\n".join(separator.join(row) for row in (("x", "c", "label"), *rows)), encoding="utf-8")
    return str(path)


def column(source: Source) -> Column | None:
    assert source.schema is not None
    return next((one for one in source.schema.columns if one.name == "c"), None)


def days(*dates: tuple[int, int, int]) -> list[int]:
    return [(datetime.date(*date) - datetime.date(1970, 1, 1)).days for date in dates]


NEW_YEARS_EVE, SECOND = (2020, 12, 31), (2021, 2, 1)


@pytest.mark.parametrize(
    ("cells", "form"),
    [
        (["31.12.2020", "1.2.2021"], "%d.%m.%Y"),
        (["12/31/2020", "02/01/2021"], "%m/%d/%Y"),
        (["31/12/2020 00:00", "01/02/2021 00:00"], "%d/%m/%Y %H:%M"),
        (["12-31-2020T00:00:00", "02-01-2021T00:00:00"], "%m-%d-%YT%H:%M:%S"),
        (["12/31/2020 12:00 AM", "02/01/2021 12:00 am"], "%m/%d/%Y %I:%M %p"),
        (["2020/12/31", "2021/2/1"], "%Y/%m/%d"),
        (["31 Dec 2020", "1 Feb 2021"], "%d %b %Y"),
        (["December 31, 2020", "February 1, 2021"], "%B %d, %Y"),
        (["2020-12-31", "2021-02-01"], ""),
    ],
)
def test_dates_whose_order_the_column_shows(tmp_path: Path, cells: list[str], form: str) -> None:
    source = load_path(table(tmp_path / "own.csv", [*cells, ""]))
    assert column(source) == Column("c", "date", format=form)
    values = source.train.x[:, 1]
    np.testing.assert_array_equal(values[:2], days(NEW_YEARS_EVE, SECOND))
    assert np.isnan(values[2])


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        (["01/02/2020", "03/04/2021"], 'day and month cannot be told apart .*format = "%d/%m/%Y" or "%m/%d/%Y"'),
        (["1.2.2020", "3.4.2021"], 'day and month cannot be told apart .*format = "%d.%m.%Y" or "%m.%d.%Y"'),
        (["31/12/2020", "12/31/2020"], "some with the day first and some with the month"),
        (["31.12.2020", "2020.12.31"], "dates in several forms"),
        (["31.12.2020", "31.12.2020 10:00"], "dates in several forms"),
        (["31.02.2020", "01.02.2020"], "one does not exist"),
    ],
)
def test_what_leaves_a_doubt_is_named_and_never_guessed(tmp_path: Path, cells: list[str], why: str) -> None:
    source = load_path(table(tmp_path / "own.csv", cells))
    assert column(source) is None
    (note,) = [note for note in source.notes if "'c'" in note]
    assert re.search(why, note), note


def test_few_words_that_are_no_dates_stay_a_category(tmp_path: Path) -> None:
    """1.10.20 may be a date or a version."""
    found = column(load_path(table(tmp_path / "own.csv", ["1.10.20", "1.10.21"])))
    assert found is not None and found.kind == "category"
    assert "two digits" in date_form(["1.10.20", "1.10.21"])[1]
    assert (
        date_form(["1.2.3", "10.0.4"]) == date_form(["99/99/2020"]) == date_form(["Bern"]) == date_form([]) == ("", "")
    )


def test_a_form_that_the_schema_names_is_read(tmp_path: Path) -> None:
    path = table(tmp_path / "own.csv", ["01/02/2020", "03/04/2021"])
    text = to_toml(load_path(path).schema or Schema(Column("")))
    text = text.partition("[excluded]")[0] + '[columns.c]\nkind = "date"\nformat = "%d/%m/%Y"\n'
    source = load_path(path, Reading(parse_schema(text, tmp_path / "schema.toml")))
    np.testing.assert_array_equal(source.train.x[:2, 1], days((2020, 2, 1), (2021, 4, 3)))
    other = table(tmp_path / "other.csv", ["01/02/2020", "12/31/2021"])
    with pytest.raises(DataError, match=r"other.csv: line 3, column c: '12/31/2021'; expected a date as '%d/%m/%Y'"):
        load_path(other, Reading(source.schema))


def test_dates_of_a_binary_file_fit_a_form(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    schema = load_path(table(tmp_path / "own.csv", ["31.12.2020", "1.2.2021"])).schema
    times = pd.to_datetime(["2020-12-31", "2021-02-01"])
    pd.DataFrame({"x": [1.0, 2.0], "c": times, "label": ["a", "b"]}).to_parquet(tmp_path / "own.parquet")
    x = load_path(str(tmp_path / "own.parquet"), Reading(schema)).train.x
    np.testing.assert_array_equal(x[:, 1], days(NEW_YEARS_EVE, SECOND))


def test_numbers_that_may_be_dates_are_named(tmp_path: Path) -> None:
    source = load_path(table(tmp_path / "own.csv", ["20201231", "20210201"]))
    assert any('format = "%Y%m%d"' in note for note in source.notes)
    assert not any("%Y" in note for note in load_path(table(tmp_path / "own.csv", ["20201331", "20210201"])).notes)


@pytest.mark.parametrize(
    ("separator", "cells", "mark", "values"),
    [
        (",", ["45%", "7.5 %"], "%", [45, 7.5]),
        (";", ["45,5 %", "-7%"], "%", [45.5, -7]),
        (",", ["$1,200", "$950.50"], "$", [1200, 950.5]),
        (",", ["$1,200", "$-950"], "$", [1200, -950]),
        (";", ["1.200,50 €", "950 €"], "€", [1200.5, 950]),
        (";", ["EUR 1200", "EUR 9"], "EUR", [1200, 9]),
    ],
)
def test_numbers_with_a_mark(tmp_path: Path, separator: str, cells: list[str], mark: str, values: list[float]) -> None:
    source = load_path(table(tmp_path / "own.csv", [*cells, ""], separator))
    found = column(source)
    assert found is not None and (found.kind, found.mark, found.unit) == ("number", mark, mark)
    np.testing.assert_allclose(source.train.x[:2, 1], values)
    assert np.isnan(source.train.x[2, 1])
    schema = source.schema
    assert schema is not None and parse_schema(to_toml(schema), tmp_path).digest == schema.digest


@pytest.mark.parametrize(("separator", "cells"), [(";", ["1.200 €", "950 €"]), (",", ["€1.200", "€950"])])
def test_money_whose_sign_is_unsure_is_left_out(tmp_path: Path, separator: str, cells: list[str]) -> None:
    source = load_path(table(tmp_path / "own.csv", cells, separator))
    assert column(source) is None
    assert any("nobody can say which sign stands before decimals" in note for note in source.notes)


def test_a_share_without_its_mark_is_an_error(tmp_path: Path) -> None:
    """0.45 at one site and 45 % at another were one number for fifty years."""
    schema = load_path(table(tmp_path / "own.csv", ["45%", "7%"])).schema
    with pytest.raises(DataError, match=r"line 2, column c: '0,45'; expected a number with '%' beside it"):
        load_path(table(tmp_path / "private.csv", ["0,45", "0,07"]), Reading(schema))
    money = load_path(table(tmp_path / "own.csv", ["$45", "$7"])).schema
    assert load_path(table(tmp_path / "private.csv", ["45", "7"]), Reading(money)).train.x[1, 1] == 7
    with pytest.raises(DataError, match=r"line 2, column c: '45 €'; expected a number with"):
        load_path(table(tmp_path / "private.csv", ["45 €", "7 €"]), Reading(money))


def test_a_mark_is_a_number_s_alone(tmp_path: Path) -> None:
    text = '[label]\nwords = ["a", "b"]\n[columns.c]\nkind = "{}"\nmark = "{}"\n'
    for kind, mark in (("date", "%"), ("number", "kg")):
        with pytest.raises(DataError, match=r"columns\.c\.mark = "):
            parse_schema(text.format(kind, mark), tmp_path)


def test_contracts_without_a_mark_have_the_digest_of_before() -> None:
    schema = Schema(Column("y", "category", words=("0", "1")), (Column("c", low=0.0, high=1.0),))
    assert schema.digest == "sha256:6fbb70686acc07aa186eca4f3e56d59d0aa96cfa21c94d54a92045a62ccb0dbe"


@pytest.mark.parametrize("words", [["45%", "7"], ["$5", "€5"], ["$5%"], ["%5"], ["a"], ["$"], ["-$-5"]])
def test_no_mark(words: list[str]) -> None:
    assert mark_of(words) == ""


@pytest.mark.parametrize("text", ["1,2,3", "1.2.3", "12,34.5", "1.000,2.3"])
def test_no_number(text: str) -> None:
    assert decimals([text], decimal_comma=False) is None


@pytest.mark.parametrize(
    "cells", [["3 mg", "12 mg"], ["1'200", "950"], ["1 200", "950"], ["(3)", "4"], ["0,3", "9,25"], ["1,300", "2,900"]]
)
def test_numbers_with_something_beside_them_are_named(tmp_path: Path, cells: list[str]) -> None:
    many = [cell.replace("3", str(row)).replace("9", str(row)) for row in range(20, 50) for cell in cells]
    source = load_path(table(tmp_path / "own.csv", many, ","))
    assert column(source) is None and any("numbers with something in or beside them" in one for one in source.notes)


def test_where_no_column_is_left_each_says_why(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("dose,label\n" + "\n".join(f"{row} mg,{'ab'[row % 2]}" for row in range(40)))
    with pytest.raises(
        DataError, match=r"expected at least one\. column 'dose' is left out: numbers with something in"
    ):
        load_path(str(tmp_path / "own.csv"))


def test_codes_with_a_zero_in_front_are_named(tmp_path: Path) -> None:
    source = load_path(table(tmp_path / "own.csv", ["00501", "10001", "0"]))
    assert any("'00501' and the like begin with a zero, as codes do" in note for note in source.notes)
    assert not any("zero" in note for note in load_path(table(tmp_path / "own.csv", ["0.5", "0", "501"])).notes)


def test_a_column_without_a_name_or_content_says_so(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("x,label,\n" + "\n".join(f"{row % 30},{'ab'[row % 2]}," for row in range(40)))
    assert load_path(str(tmp_path / "own.csv")).notes == ("column '' is left out: empty in every row",)

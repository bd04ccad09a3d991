"""A client's own records: they have no order, and a column may bind them to persons, of whom only so many are used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedballot.core.errors import DataError
from fedballot.datasets.examples import Examples, Source
from fedballot.datasets.fingerprint import records_fingerprint, row_hashes
from fedballot.datasets.own import Persons, load_own, used_rows
from fedballot.datasets.schema.contract import Column, Schema

SCHEMA = Schema(Column("label", "category", words=("no", "yes")), (Column("u"), Column("v")))
X = np.array([[1, 2], [5, 8]], np.float32)
PUBLIC = Source("public", ("no", "yes"), Examples(X, np.array([0, 1])), schema=SCHEMA)
ARRAYS = Source("public", ("no", "yes"), Examples(X, np.array([0, 1])))
ROWS = ["a,1,2,no", "b,3,4,yes", "a,5,6,no", "a,7,8,yes", "b,9,10,no"]


def csv(path: Path, rows: list[str] = ROWS, header: str = "patient,u,v,label") -> Path:
    path.write_text("\n".join([header, *rows, ""]))
    return path


def test_sorting_a_file_changes_nothing(tmp_path: Path) -> None:
    one = load_own(csv(tmp_path / "one.csv", [row[2:] for row in ROWS], "u,v,label"), PUBLIC)
    other = load_own(csv(tmp_path / "other.csv", [row[2:] for row in ROWS[::-1]], "u,v,label"), PUBLIC)
    assert one.fingerprint == other.fingerprint
    assert one.examples.x.tobytes() != other.examples.x.tobytes()  # records keep their places in the file
    assert one.examples.x[one.ranks].tobytes() == other.examples.x[other.ranks].tobytes()
    assert one.examples.y[one.ranks].tobytes() == other.examples.y[other.ranks].tobytes()


@pytest.mark.parametrize("row", ["b,3,4,no", "b,3,5,yes"])
def test_any_change_of_a_row_or_label_is_another_version(tmp_path: Path, row: str) -> None:
    one = load_own(csv(tmp_path / "one.csv", [each[2:] for each in ROWS], "u,v,label"), PUBLIC)
    changed = [row[2:] if each == ROWS[1] else each[2:] for each in ROWS]
    assert load_own(csv(tmp_path / "one.csv", changed, "u,v,label"), PUBLIC).fingerprint != one.fingerprint


def test_moving_a_label_from_one_row_to_another_is_a_change() -> None:
    x, y = np.arange(4, dtype=np.float32).reshape(2, 2), np.array([0, 1])
    assert records_fingerprint(row_hashes(x, y)) != records_fingerprint(row_hashes(x, y[::-1]))
    assert records_fingerprint(row_hashes(x, y)) != records_fingerprint(row_hashes(x.reshape(2, 1, 2), y))


def test_a_file_that_changes_under_a_running_process_is_read_again(tmp_path: Path) -> None:
    """Also inside a folder of images, whose own time stamp stays as it is."""
    from PIL import Image

    public = Source("public", ("no", "yes"), Examples(np.zeros((2, 4, 4), np.uint8), np.array([0, 1])))
    for name in ("no", "yes"):
        (tmp_path / "own" / name).mkdir(parents=True)
        Image.new("L", (4, 4), 7).save(tmp_path / "own" / name / "1.png")
    before = load_own(tmp_path / "own", public).fingerprint
    Image.new("L", (4, 4), 200).save(tmp_path / "own" / "no" / "1.png")
    assert load_own(tmp_path / "own", public).fingerprint != before


@pytest.mark.parametrize("kind", ["csv", "npz", "parquet"])
def test_a_column_says_whose_a_record_is_and_is_no_feature(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"own.{kind}"
    if kind == "csv":
        csv(path)
    else:
        cells = [row.split(",") for row in ROWS]
        x = np.array([row[1:3] for row in cells], np.float32)
        if kind == "npz":
            np.savez(path, x=x, y=np.array([row[3] for row in cells]), patient=np.array([row[0] for row in cells]))
        else:
            pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
            columns = {"patient": [row[0] for row in cells], "u": x[:, 0], "v": x[:, 1], "label": [r[3] for r in cells]}
            pq.write_table(pa.table(columns), path)
    public = ARRAYS if kind == "npz" else PUBLIC
    own = load_own(path, public, Persons("patient", 2))
    assert (own.examples.x.shape, own.persons, own.dropped) == ((4, 2), 2, 1)
    assert load_own(path, public, Persons("patient", 3)).dropped == 0


@pytest.mark.parametrize(
    ("rows", "column", "words"),
    [
        (ROWS, "person", "no column 'person' with the persons in the header (patient, u, v, label)"),
        ([*ROWS, " ,1,2,no"], "patient", "line 7, column patient: empty"),
    ],
)
def test_a_table_that_does_not_say_whose_its_rows_are_is_named(
    tmp_path: Path, rows: list[str], column: str, words: str
) -> None:
    with pytest.raises(DataError) as caught:
        load_own(csv(tmp_path / "own.csv", rows), PUBLIC, Persons(column, 1))
    assert words in str(caught.value) and "own.csv" in str(caught.value)


def test_image_folders_and_npz_files_without_the_key_have_no_persons(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    with pytest.raises(DataError, match=r"has no columns.* expected \.npz, \.csv"):
        load_own(tmp_path / "own", ARRAYS, Persons("patient", 1))
    np.savez(tmp_path / "own.npz", x=np.zeros((2, 2)), y=[0, 1], patient=["a"])
    for column, words in (("person", "no key 'person'"), ("patient", "1 entries for 2 rows")):
        with pytest.raises(DataError, match=words):
            load_own(tmp_path / "own.npz", ARRAYS, Persons(column, 1))


records = st.lists(st.tuples(st.sampled_from("abcd"), st.binary(min_size=1, max_size=2)), max_size=30)


@given(records, records, st.integers(1, 4), st.randoms())
def test_replacing_a_person_changes_nobody_else_s_records(mine: list, theirs: list, most: int, random) -> None:
    """Two worlds that differ in one person differ in at most ``most`` records on either side."""

    def used(world: list) -> list:
        random.shuffle(world)
        rows = used_rows([each[1] for each in world], [each[0] for each in world], most)
        return [world[row] for row in rows]

    others = [each for each in mine if each[0] != "a"]
    first = used(mine)
    second = used([*others, *(("a", each[1]) for each in theirs)])
    assert sorted(each for each in first if each[0] != "a") == sorted(each for each in second if each[0] != "a")
    for world in (first, second):
        assert [each[1] for each in world] == sorted(each[1] for each in world)
        assert all(sum(each[0] == person for each in world) <= most for person in "abcd")
    assert len(first) == sum(min(most, sum(each[0] == person for each in mine)) for person in "abcd")

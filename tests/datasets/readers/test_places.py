"""A folder of tables or arrays: each file is a client, but for the public one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedballot.core.errors import DataError
from fedballot.datasets.readers.files import load_path
from fedballot.datasets.readers.places import places, public_in
from fedballot.datasets.schema.reading import Reading
from tests.datasets.readers.test_folders import GREY, put

ROWS = "x,label\n" + "1,a\n2,b\n" * 3


def fill(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(ROWS)
    return folder


@pytest.mark.parametrize("public", ["public.csv", "my-public_pool.csv", "Test.csv", "iris.test.csv"])
def test_each_file_is_a_client_but_for_the_public_one(tmp_path: Path, public: str) -> None:
    folder = fill(tmp_path / "sites", "a.csv", "b.csv", "b.2.tsv", public, ".hidden.csv", "notes.txt")
    (folder / "b.2.tsv").write_text(ROWS.replace(",", "\t"))
    assert public_in(str(folder)) == folder / public
    source = load_path(str(folder))
    assert source.group_names == ("a", "b.2", "b") and len(source.train) == 18
    assert folder / public not in {Path(one) for one in source.origin}


def test_one_file_beside_the_public_one_is_no_group(tmp_path: Path) -> None:
    source = load_path(str(fill(tmp_path / "sites", "train.csv", "test.csv")))
    assert source.group_names == () and len(source.train) == 6
    alone = fill(tmp_path / "alone", "public.csv")
    assert public_in(str(alone)) is None and len(load_path(str(alone)).train) == 6


def test_two_public_files_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'public.csv', 'test.csv' are all called public or test; expected one"):
        load_path(str(fill(tmp_path / "sites", "a.csv", "public.csv", "test.csv")))


def test_one_client_twice_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="another file of the folder has this name, too"):
        load_path(str(fill(tmp_path / "sites", "a.csv", "a.tsv")))


def test_arrays_may_be_clients(tmp_path: Path) -> None:
    for name in "ab":
        np.savez(tmp_path / f"{name}.npz", x=np.eye(4), y=[0, 1, 0, 1])
    assert load_path(str(tmp_path)).group_names == ("a", "b")


def test_tables_beside_images_are_passed_over(tmp_path: Path) -> None:
    for name in "ab":
        put(tmp_path / name / "1.png", GREY)
    fill(tmp_path, "labels.csv")
    assert places(str(tmp_path))[1] == [tmp_path]
    assert load_path(str(tmp_path)).classes == ("a", "b")


def test_columns_that_the_schema_lacks_are_named_once_for_all_files(tmp_path: Path) -> None:
    fill(tmp_path, "a.csv", "b.csv", "c.csv")
    schema = load_path(str(tmp_path)).schema
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("id,x,label\n" + "8,1,a\n9,2,b\n" * 3)
    (note,) = load_path(str(tmp_path), Reading(schema)).notes
    assert note == f"{tmp_path / 'a.csv'} and 1 more: 'id': not in the schema, left out"

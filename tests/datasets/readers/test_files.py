from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedballot.core.errors import DataError
from fedballot.datasets.readers.files import load_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_one_csv(tmp_path: Path) -> None:
    source = load_path(str(write(tmp_path / "own.csv", "a,label,group\n1,10,n\n2,9,s\n3,10,s\n")))
    assert source.name == str(tmp_path / "own.csv") and source.classes == ("9", "10") and source.test is None
    assert source.train.y.tolist() == [1, 0, 1] and source.train.y.dtype == np.int64
    assert source.train.groups is not None and source.train.groups.tolist() == [0, 1, 1]
    assert source.group_names == ("n", "s")


def test_each_file_of_a_pattern_is_a_client(tmp_path: Path) -> None:
    write(tmp_path / "sites" / "b.csv", "a,label\n3,yes\n")
    write(tmp_path / "sites" / "a.csv", "a,label\n1,no\n2,no\n")
    source = load_path(str(tmp_path / "sites" / "*.csv"))
    assert source.classes == ("no", "yes") and source.group_names == ("a", "b")
    assert source.train.groups is not None and source.train.groups.tolist() == [0, 0, 1]
    np.testing.assert_array_equal(source.train.x, [[1], [2], [3]])
    assert source.train.y.tolist() == [0, 0, 1]


def test_clients_in_folders_of_their_own(tmp_path: Path) -> None:
    for site in ("north", "south"):
        write(tmp_path / site / "data.csv", "a,label\n1,0\n2,1\n")
    source = load_path(str(tmp_path / "*" / "data.csv"))
    assert len(set(source.group_names)) == 2 and "north" in source.group_names[0]


def test_image_folders_as_clients(tmp_path: Path) -> None:
    for site in ("north", "south"):
        for kind in ("cat", "dog"):
            (tmp_path / site / kind).mkdir(parents=True)
            Image.new("L", (4, 4), 9).save(tmp_path / site / kind / "a.png")
    source = load_path(str(tmp_path / "*"))
    assert source.group_names == ("north", "south") and source.train.x.shape == (4, 4, 4)


def test_home_and_links_lead_to_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "own.csv", "a,label\n1,0\n2,1\n")
    (tmp_path / "link.csv").symlink_to(path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    names = {load_path(name).name for name in ("~/own.csv", "own.csv", "link.csv", str(path))}
    assert names == {str(path)}


def test_test_split_of_an_npz(tmp_path: Path) -> None:
    x, y = np.zeros((3, 2), np.float32), np.array([5, 7, 5])
    np.savez(tmp_path / "own.npz", x_train=x, y_train=y, x_test=x[:2], y_test=y[:2])
    source = load_path(str(tmp_path / "own.npz"))
    assert source.test is not None and source.test.y.tolist() == [0, 1] and source.classes == ("5", "7")
    np.savez(tmp_path / "bad.npz", x_train=x, y_train=y, x_test=x, y_test=np.array([5, 6, 7]))
    with pytest.raises(DataError, match="y_test: row 1 has the label '6', which no row of y_train has"):
        load_path(str(tmp_path / "bad.npz"))


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"{tmp_path}/none.csv: no such file"):
        load_path(str(tmp_path / "none.csv"))
    with pytest.raises(DataError, match="no file matches this pattern"):
        load_path(str(tmp_path / "*.csv"))
    with pytest.raises(DataError, match=r"unknown kind of file '.txt'; expected a .npz, .json, .csv"):
        load_path(str(write(tmp_path / "own.txt", "hello")))


def test_one_class_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="every row has the label 'x'"):
        load_path(str(write(tmp_path / "own.csv", "a,label\n1,x\n2,x\n")))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("a,c,label\n1,2,0\n", "no column 'b', which .*1.csv has"),
        ("a,label\n1,0\n", "no column 'b', which .*1.csv has"),
        ("a,b,label,group\n1,2,0,n\n", "holds groups of its own, but each file"),
    ],
)
def test_files_that_do_not_fit_together(tmp_path: Path, second: str, message: str) -> None:
    write(tmp_path / "1.csv", "a,b,label\n1,2,0\n3,4,1\n")
    write(tmp_path / "2.csv", second)
    with pytest.raises(DataError, match=f"{tmp_path}/2.csv: {message}"):
        load_path(str(tmp_path / "*.csv"))


def test_files_of_a_pattern_agree_by_name(tmp_path: Path) -> None:
    write(tmp_path / "1.csv", "a,b,label\n1,2,0\n3,4,1\n")
    write(tmp_path / "2.csv", "label,b,extra,a\n1,6,9,5\n")
    np.testing.assert_array_equal(load_path(str(tmp_path / "*.csv")).train.x, [[1, 2], [3, 4], [5, 6]])
    np.savez(tmp_path / "3.npz", x=np.zeros((2, 2)), y=[0, 1])
    with pytest.raises(DataError, match=r"3\.npz: is no table, but .*1\.csv is"):
        load_path(str(tmp_path / "*"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("deep.json", "[" * 10**5),  # RecursionError
        (
            "large.json",
            '{"users": ["a"], "user_data": {"a": {"x": [[' + "9" * 400 + ']], "y": [1]}}}',
        ),  # OverflowError
    ],
)
def test_whatever_a_reader_raises_names_the_file(name: str, content: str, tmp_path: Path) -> None:
    """One record may make a reader raise in a way that nobody foresaw: it is a fault of the file like any other."""
    with pytest.raises(DataError, match=name):
        load_path(str(write(tmp_path / name, content)))

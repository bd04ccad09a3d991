import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedballot.core.errors import DataError
from fedballot.datasets.checks import checked_x, encode, label_texts


def test_good_arrays_pass() -> None:
    assert checked_x(np.zeros((2, 3, 4), np.uint8), "f").shape == (2, 3, 4)
    assert checked_x(np.zeros((2, 3, 4, 1), np.uint8), "f").shape == (2, 3, 4)
    assert checked_x(np.zeros((2, 3, 4, 3), np.uint8), "f").shape == (2, 3, 4, 3)
    for dtype in (np.uint8, np.int64, np.float64, np.bool_):
        assert checked_x(np.ones((2, 3), dtype), "f").dtype == np.float32


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((0, 3)), "empty"),
        (np.zeros((3, 0)), "empty"),
        (np.zeros(3), r"shape \(3,\)"),
        (np.zeros((2, 3, 8, 8), np.uint8), r"\(n, height, width, 3\)"),
        (np.zeros((2, 8, 8), np.float32), "expected uint8"),
        (np.zeros((2, 3), np.complex64), "complex64"),
        (np.array([["a", "b"]]), "expected numbers"),
        (np.array([[0, 1], [2, np.nan]]), "row 1, column 1 is nan"),
        (np.array([[0, np.inf], [2, 3]]), "row 0, column 1 is inf"),
        (np.array([[0, 1e300], [2, 3]]), r"row 0, column 1 is 1e\+300"),
    ],
)
def test_bad_arrays_name_the_place(x: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=f"file.npz: key x.*{message}"):
        checked_x(x, "file.npz: key x")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros((2, 2), int), r"shape \(2, 2\)"),
        (np.array([0, 1.5]), "row 1 is 1.5"),
        (np.array([0, np.nan]), "row 1 is nan"),
        (np.array(["a", " "]), "row 1 is empty"),
        (np.array([1j]), "complex"),
        (np.array([b"\xff"]), "UTF-8"),
    ],
)
def test_bad_labels_name_the_place(labels: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=f"y: .*{message}"):
        label_texts(labels, "y")


def test_every_dtype_of_labels_becomes_the_same_text() -> None:
    for labels in ([1, 0, 2], [1.0, 0.0, 2.0], ["1", " 0", "2 "], [b"1", b"0", b"2"]):
        assert label_texts(np.array(labels), "y").tolist() == ["1", "0", "2"]
    assert label_texts(np.array([True, False]), "y").tolist() == ["True", "False"]


def test_integers_sort_as_numbers_and_words_as_text() -> None:
    assert encode(np.array(["10", "9", "-1", "9"]))[1] == ("-1", "9", "10")
    assert encode(np.array(["b10", "b9", "a"]))[1] == ("a", "b10", "b9")


@given(st.lists(st.text("abc019-", min_size=1, max_size=3), min_size=1) | st.lists(st.integers().map(str), min_size=1))
def test_encoding_is_lossless(labels: list[str]) -> None:
    indices, names = encode(np.array(labels))
    assert [names[i] for i in indices] == labels
    assert sorted(set(labels)) == sorted(names)

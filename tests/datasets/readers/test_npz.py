from pathlib import Path

import numpy as np
import pytest

from fedballot.core.errors import DataError
from fedballot.datasets.readers.npz import read_npz

X = np.arange(24, dtype=np.uint8).reshape(4, 2, 3)
Y = np.array([3, 1, 3, 1])


def save(folder: Path, **arrays: np.ndarray) -> Path:
    path = folder / "own.npz"
    np.savez(path, **arrays)
    return path


def test_whole_set(tmp_path: Path) -> None:
    raw = read_npz(save(tmp_path, x=X, y=Y, groups=np.array(["a", "a", "b", "b"])))
    np.testing.assert_array_equal(raw.x, X)
    assert raw.labels.tolist() == ["3", "1", "3", "1"] and raw.test is None
    assert raw.groups is not None and raw.groups.tolist() == ["a", "a", "b", "b"]


def test_split_set(tmp_path: Path) -> None:
    raw = read_npz(save(tmp_path, x_train=X, y_train=Y, x_test=X[:2], y_test=Y[:2]))
    assert raw.test is not None and len(raw.test[0]) == len(raw.test[1]) == 2


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "no key 'x', found none"),
        ({"x": X}, "no key 'y', found x; expected keys x, y or x_train"),
        ({"images": X, "y": Y}, "no key 'x', found images, y"),
        ({"x_train": X, "y_train": Y}, "no key 'x_test'"),
        ({"x": X, "y": Y[:3]}, "key y: 3 entries for 4 rows"),
        ({"x": X, "y": Y, "groups": Y[:1]}, "key groups: 1 entries for 4 rows"),
        ({"x": X, "y": np.eye(4)}, r"key y: shape \(4, 4\)"),
        ({"x": X, "y": Y + 0.5}, "key y: row 0 is 3.5"),
        ({"x": X.astype(np.float32), "y": Y}, "key x: .*expected uint8"),
        ({"x": np.full((4, 2), np.nan), "y": Y}, "key x: row 0, column 0 is nan"),
        ({"x": X[:0], "y": Y[:0]}, "key x: empty"),
        (
            {"x_train": X, "y_train": Y, "x_test": X[:, :1], "y_test": Y},
            r"x_test has rows of shape \(1, 3\), x_train of \(2, 3\)",
        ),
        ({"x": np.array([[1], [2, 3]], dtype=object), "y": Y}, "without object arrays"),
    ],
)
def test_bad_content_names_the_key(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    path = save(tmp_path, **arrays)
    with pytest.raises(DataError, match=rf"{path}: .*{message}"):
        read_npz(path)


@pytest.mark.parametrize("keep", [0, 1, 100, 0.5, 0.999])
def test_truncated(tmp_path: Path, keep: float) -> None:
    path = save(tmp_path, x=X, y=Y)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep if keep >= 1 or not keep else keep * len(content))])
    with pytest.raises(DataError, match=rf"{path}: .*complete file"):
        read_npz(path)


def test_flipped_bytes(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    np.savez_compressed(path, x=np.random.default_rng(0).integers(0, 256, (50, 8, 8), dtype=np.uint8), y=np.arange(50))
    content = bytearray(path.read_bytes())
    content[1000:1100] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"{path}"):
        read_npz(path)


def test_single_array_and_text(tmp_path: Path) -> None:
    with (tmp_path / "one.npz").open("wb") as file:
        np.save(file, X)
    with pytest.raises(DataError, match="a single array"):
        read_npz(tmp_path / "one.npz")
    (tmp_path / "text.npz").write_text("x,y\n1,2\n")
    with pytest.raises(DataError, match="cannot be read as"):
        read_npz(tmp_path / "text.npz")

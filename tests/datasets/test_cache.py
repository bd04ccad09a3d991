from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from fedballot.core.errors import DataError
from fedballot.datasets import cache


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "arrays"


def test_made_once_then_memory_mapped(folder: Path) -> None:
    calls = []

    def make() -> dict[str, np.ndarray]:
        calls.append(1)
        return {"x": np.arange(6, dtype=np.uint8).reshape(2, 3)}

    cache.cached("a", [1], make)
    x = cache.cached("a", [1], make)["x"]
    assert len(calls) == 1
    assert isinstance(x, np.memmap) and not x.flags.writeable
    np.testing.assert_array_equal(x, [[0, 1, 2], [3, 4, 5]])
    assert [entry.stat().st_mode & 0o777 for entry in folder.iterdir()] == [0o700]


def test_another_key_is_another_entry() -> None:
    cache.cached("a", [1], lambda: {"x": np.zeros(1)})
    assert cache.cached("a", [2], lambda: {"x": np.ones(1)})["x"][0] == 1


def test_file_key_follows_the_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"1")
    before = cache.file_key(path)
    path.write_bytes(b"12")
    assert cache.file_key(path) != before


def test_a_failing_make_leaves_nothing(folder: Path) -> None:
    def make() -> dict[str, np.ndarray]:
        raise DataError("bad file")

    with pytest.raises(DataError, match="bad file"):
        cache.cached("a", [1], make)
    assert not folder.exists()


def test_race_has_one_winner_and_no_leftovers(folder: Path) -> None:
    together = Barrier(4)

    def make() -> dict[str, np.ndarray]:
        together.wait(timeout=10)  # all four find no entry and then write at once
        return {"x": np.arange(1000), "y": np.arange(10)}

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: cache.cached("a", [1], make), range(4)))
    for result in results:
        np.testing.assert_array_equal(result["x"], np.arange(1000))
    assert len(list(folder.iterdir())) == 1


def test_damaged_entry_names_the_folder_to_delete(folder: Path) -> None:
    cache.cached("a", [1], lambda: {"x": np.arange(1000)})
    (path,) = folder.glob("*/x.npy")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=rf"{path.parent}.*delete this folder"):
        cache.cached("a", [1], lambda: {"x": np.arange(1000)})


def test_unwritable_folder_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match="FEDBALLOT_CACHE"):
        cache.cached("a", [1], lambda: {"x": np.arange(3)})

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedballot.core.errors import DataError
from fedballot.datasets.readers.folders import read_folder


def put(path: Path, image: np.ndarray, mode: str | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.fromarray(image)
    (picture.convert(mode) if mode else picture).save(path)


GREY = np.arange(48, dtype=np.uint8).reshape(6, 8)


def test_grey_images(tmp_path: Path) -> None:
    put(tmp_path / "cat" / "b.png", GREY)
    put(tmp_path / "cat" / "a.PNG", GREY + 1)
    put(tmp_path / "dog" / "a.png", GREY + 2, "LA")
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    (tmp_path / ".hidden").mkdir()
    raw = read_folder(tmp_path)
    np.testing.assert_array_equal(raw.x, [GREY + 1, GREY, GREY + 2])
    assert raw.labels.tolist() == ["cat", "cat", "dog"]


def test_one_coloured_image_makes_all_rgb(tmp_path: Path) -> None:
    put(tmp_path / "cat" / "a.png", GREY)
    put(tmp_path / "dog" / "a.jpg", np.full((6, 8, 3), (200, 10, 10), np.uint8))
    raw = read_folder(tmp_path)
    assert raw.x.shape == (2, 6, 8, 3) and raw.x.dtype == np.uint8
    np.testing.assert_array_equal(raw.x[0], np.repeat(GREY[..., None], 3, axis=2))
    assert raw.x[1, ..., 0].min() > 150 > 60 > raw.x[1, ..., 1].max()


def test_bad_folders_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"{tmp_path}: holds no class folder"):
        read_folder(tmp_path)
    put(tmp_path / "cat" / "a.png", GREY)
    (tmp_path / "dog").mkdir()
    with pytest.raises(DataError, match=f"{tmp_path / 'dog'}: holds no image"):
        read_folder(tmp_path)
    put(tmp_path / "dog" / "a.png", GREY[:, :5])
    with pytest.raises(DataError, match=r"dog/a.png: 5x6 pixels, but .*cat/a.png has 8x6"):
        read_folder(tmp_path)
    content = (tmp_path / "cat" / "a.png").read_bytes()
    (tmp_path / "dog" / "a.png").write_bytes(content[:45])
    with pytest.raises(DataError, match=r"dog/a.png: cannot be read as an image"):
        read_folder(tmp_path)
    (tmp_path / "dog" / "a.png").write_text("no image")
    with pytest.raises(DataError, match=r"dog/a.png: cannot be read as an image"):
        read_folder(tmp_path)
    put(tmp_path / "dog" / "a.png", GREY.astype(np.uint16) * 256)
    with pytest.raises(DataError, match=r"dog/a.png: image mode I;16"):
        read_folder(tmp_path)

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedballot.core.errors import DataError
from fedballot.datasets.own import load_own
from fedballot.datasets.readers.files import load_path
from fedballot.datasets.readers.folders import read_folder
from fedballot.datasets.readers.pictures import ImageSpec
from fedballot.datasets.schema.hints import Hints
from fedballot.datasets.schema.reading import Reading


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
    Image.fromarray(GREY.astype(np.float32)).save(tmp_path / "dog" / "a.tiff")
    (tmp_path / "dog" / "a.png").unlink()
    with pytest.raises(DataError, match=r"dog/a.tiff: image mode F"):
        read_folder(tmp_path)
    (tmp_path / "dog" / "a.tiff").rename(tmp_path / "dog" / "a.nii.gz")
    with pytest.raises(DataError, match=r"dog/a.nii.gz: no image that can be read; .*image_reader=package.module:f"):
        read_folder(tmp_path)


def test_nested_folders_are_refused(tmp_path: Path) -> None:
    """Half of the images were dropped, and train and test were the classes."""
    for part in ("train", "test"):
        put(tmp_path / part / "cat" / "a.png", GREY)
    put(tmp_path / "train" / "b.png", GREY)
    with pytest.raises(DataError, match=r"(train|test)/cat: a folder in a class folder"):
        read_folder(tmp_path)
    put(tmp_path / "flat" / "cat" / "a.png", GREY)
    put(tmp_path / "flat" / "loose.png", GREY)
    with pytest.raises(DataError, match=r"loose.png: lies beside the class folders"):
        read_folder(tmp_path / "flat")


@pytest.mark.parametrize("suffix", ["png", "bmp", "tif", "tiff", "webp", "gif"])
def test_kinds_of_files(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "cat").mkdir()
    Image.fromarray(GREY).save(tmp_path / "cat" / f"a.{suffix}", **({"lossless": True} if suffix == "webp" else {}))
    (tmp_path / "cat" / f"._a.{suffix}").write_bytes(b"of a Mac")
    (tmp_path / "__MACOSX" / "cat").mkdir(parents=True)
    (tmp_path / "cat" / ".DS_Store").write_bytes(b"x")
    (tmp_path / "cat" / "Thumbs.db").write_bytes(b"x")
    x = read_folder(tmp_path, ImageSpec(channels=1)).x
    assert x.shape == (1, 6, 8) and abs(x[0].astype(int) - GREY).max() <= 1


def test_images_are_turned_as_they_say(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees to the right
    Image.fromarray(GREY).save(tmp_path / "cat" / "a.png", exif=exif)
    np.testing.assert_array_equal(read_folder(tmp_path).x[0], np.rot90(GREY, -1))


def test_the_upper_8_of_16_bits(tmp_path: Path) -> None:
    put(tmp_path / "cat" / "a.png", GREY.astype(np.uint16) * 256 + 255)
    np.testing.assert_array_equal(read_folder(tmp_path).x[0], GREY)


def test_mixed_sizes_and_colours_as_the_public_images(tmp_path: Path) -> None:
    put(tmp_path / "public" / "cat" / "a.png", np.full((6, 8, 3), (200, 10, 10), np.uint8))
    put(tmp_path / "public" / "dog" / "a.png", np.full((9, 4, 3), (10, 10, 200), np.uint8))
    put(tmp_path / "own" / "cat" / "a.png", np.full((12, 12), 77, np.uint8))
    with pytest.raises(DataError, match="expected one size: set image_size=64"):
        load_path(str(tmp_path / "public"))
    public = load_path(str(tmp_path / "public"), Reading(hints=Hints(image_size=(5, 5))))
    assert public.train.x.shape == (2, 5, 5, 3)
    own = load_own(tmp_path / "own", public).examples
    assert own.x.shape == (1, 5, 5, 3) and (own.x == 77).all() and own.y.tolist() == [0]


def test_several_images_in_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    pictures = [Image.fromarray(GREY + shift) for shift in range(3)]
    pictures[0].save(tmp_path / "cat" / "a.gif", save_all=True, append_images=pictures[1:])
    with pytest.raises(DataError, match=r"a.gif: 3 images in one file"):
        read_folder(tmp_path)

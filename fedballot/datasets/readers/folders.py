"""Reading a user's image folder: root/<class>/*.png, *.jpg or *.jpeg."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError
from fedballot.datasets.readers.raw import Raw

_SUFFIXES = (".png", ".jpg", ".jpeg")
_GREY, _COLOUR = ("1", "L", "LA"), ("RGB", "RGBA", "P", "CMYK", "YCbCr")


def read_folder(root: Path) -> Raw:
    """Read 8-bit images of one size; each sub-folder is a class. All become RGB if any has colour, else grey.

    Raises
    ------
    DataError
        No class folders, a class without images, an unreadable image, or images of different sizes.
    """
    names = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    files = {name: _images(root / name) for name in names}
    empty = [name for name in names if not files[name]]
    if not names or empty:
        where = f"{root / empty[0]}: holds no image" if empty else f"{root}: holds no class folder"
        raise DataError(f"{where}; expected images at {root}/<class>/*.png, *.jpg or *.jpeg")
    everything = [path for name in names for path in files[name]]
    images = [_decode(path) for path in everything]
    grey = all(image.ndim == 2 for image in images)
    if not grey:
        images = [image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2) for image in images]
    for path, image in zip(everything, images, strict=True):
        if image.shape != images[0].shape:
            raise DataError(
                f"{path}: {image.shape[1]}x{image.shape[0]} pixels, but {everything[0]} has "
                f"{images[0].shape[1]}x{images[0].shape[0]}; expected one size, resize them first"
            )
    return Raw(np.stack(images), np.array([path.parent.name for path in everything]))


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)


def _decode(path: Path) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(path) as image:
            if image.mode not in _GREY + _COLOUR:
                raise DataError(f"{path}: image mode {image.mode}; expected 8-bit grey or colour")
            return np.asarray(image.convert("L" if image.mode in _GREY else "RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{path}: cannot be read as an image ({error}); expected a complete PNG or JPEG") from error

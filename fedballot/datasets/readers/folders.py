"""Reading a user's images: a folder root/<class>/*.png and the like, or a table of paths and labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError
from fedballot.datasets.readers.raw import Raw

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".gif")
EXPECTED = f"images at ROOT/<class>/*, with {', '.join(SUFFIXES)}"
_GREY, _COLOUR = ("1", "L", "LA"), ("RGB", "RGBA", "P", "PA", "CMYK", "YCbCr")
_DEEP = ("I;16", "I;16B", "I;16L", "I;16N", "I")
LARGEST, RESIZED = 96, 64  # pixels a side: a first look needs no more
_TURNED = (5, 6, 7, 8)  # of EXIF's orientations, those that lie on their side
_ORIENTATION = 0x0112
_BESIDE = (".txt", ".md", ".csv", ".json", ".xml", ".db", ".ini")  # what often lies beside images and is none


def read_folder(root: Path, size: tuple[int, ...] = (), channels: int = 0) -> Raw:
    """Read images; each sub-folder is a class. All become RGB if any has colour, else grey.

    Images are turned as their EXIF data say; of 16 bits the upper 8 are taken; transparency is left out. Hidden files
    and folders, ``__MACOSX``, and texts or tables beside the images are passed over; anything else is an error.

    Parameters
    ----------
    size : height and width that images are resized to; empty: they must have one size.
    channels : 1 or 3: all become grey, or RGB.

    Raises
    ------
    DataError
        No class folders, a class without images, folders in a class folder, a file of another kind, an unreadable
        image, or images of different sizes.
    """
    names = sorted(path.name for path in root.iterdir() if path.is_dir() and not _hidden(path))
    files = {name: _images(root / name) for name in names}
    empty = [name for name in names if not files[name]]
    loose = [path for path in root.iterdir() if path.suffix.lower() in SUFFIXES and not _hidden(path)]
    if loose and names:
        raise DataError(f"{loose[0]}: lies beside the class folders, in none of them; expected {EXPECTED}")
    if not names or empty:
        where = f"{root / empty[0]}: holds no image" if empty else f"{root}: holds no class folder"
        raise DataError(f"{where}; expected {EXPECTED}")
    everything = [path for name in names for path in files[name]]
    return Raw(
        read_images(everything, size, channels), np.array([path.parent.name for path in everything], dtype=np.str_)
    )


def fitting_size(root: Path) -> int:
    """Pixels a side to which images have to be resized for a first look; 0: they have one size that is small enough."""
    from PIL import Image

    sizes: set[tuple[int, int]] = set()
    folders = sorted(root.iterdir()) if root.is_dir() else []
    for path in (path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())):
        if path.suffix.lower() in SUFFIXES and not _hidden(path):
            try:
                with Image.open(path) as file:
                    turned = file.getexif().get(_ORIENTATION) in _TURNED
                    sizes.add(file.size[::-1] if turned else file.size)
            except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
                continue  # reading says what is wrong with it
    return RESIZED if len(sizes) > 1 or max((max(size) for size in sizes), default=0) > LARGEST else 0


def read_images(paths: Sequence[Path], size: tuple[int, ...] = (), channels: int = 0) -> NDArray[np.uint8]:
    """Images uint8 (n, h, w) or (n, h, w, 3); see :func:`read_folder`."""
    images = [_decode(path, size) for path in paths]
    if channels == 1 or (channels == 0 and all(image.ndim == 2 for image in images)):
        images = [image if image.ndim == 2 else _grey(image) for image in images]
    else:
        images = [image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2) for image in images]
    for path, image in zip(paths, images, strict=True):
        if image.shape != images[0].shape:
            raise DataError(
                f"{path}: {image.shape[1]}x{image.shape[0]} pixels, but {paths[0]} has "
                f"{images[0].shape[1]}x{images[0].shape[0]}; expected one size: set image_size=64, or the schema's "
                "image_size, and all are resized"
            )
    return np.stack(images)


def _hidden(path: Path) -> bool:
    return path.name.startswith(".") or path.name == "__MACOSX"


def _images(folder: Path) -> list[Path]:
    images = []
    for path in sorted(folder.iterdir()):
        if _hidden(path):
            continue
        if path.is_dir():
            raise DataError(
                f"{path}: a folder in a class folder; expected {EXPECTED}. Name the folder whose sub-folders are the "
                "classes, such as ROOT/train, or move the images up"
            )
        if path.suffix.lower() in SUFFIXES:
            images.append(path)
        elif path.suffix.lower() not in _BESIDE:
            raise DataError(f"{path}: no image that can be read; expected {EXPECTED}")
    return images


def _decode(path: Path, size: tuple[int, ...]) -> NDArray[np.uint8]:
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as file:
            if getattr(file, "n_frames", 1) > 1:
                raise DataError(f"{path}: {getattr(file, 'n_frames', 1)} images in one file; expected one")
            if file.mode not in (*_GREY, *_COLOUR, *_DEEP):
                raise DataError(f"{path}: image mode {file.mode}; expected grey or colour of 8 or 16 bits")
            image: Any = ImageOps.exif_transpose(file)
            if file.mode in _DEEP:
                deep = np.asarray(image).astype(np.int64)
                if deep.min() < 0 or deep.max() >= 1 << 16:
                    raise DataError(f"{path}: values {deep.min()} to {deep.max()}; expected 16 bits, 0 to 65535")
                image = Image.fromarray((deep >> 8).astype(np.uint8))
            image = image.convert("L" if image.mode in _GREY else "RGB")
            if size:
                image = image.resize((size[1], size[0]), Image.Resampling.BICUBIC)
            return np.asarray(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{path}: cannot be read as an image ({error}); expected a complete image") from error


def _grey(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    from PIL import Image

    return np.asarray(Image.fromarray(image).convert("L"))

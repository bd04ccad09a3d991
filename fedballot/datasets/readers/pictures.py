"""Image files as uint8 pixels of one size: Pillow's kinds, DICOM, or what a function of the user's reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedballot.core import plugins
from fedballot.core.errors import DataError, FedballotError
from fedballot.datasets.readers import dicom

Pixels = NDArray[np.uint8]
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".gif", *dicom.SUFFIXES)
_GREY, _COLOUR = ("1", "L", "LA"), ("RGB", "RGBA", "P", "PA", "CMYK", "YCbCr")
_DEEP = ("I;16", "I;16B", "I;16L", "I;16N", "I")
GROUP = "fedballot.image_readers"


@dataclass(frozen=True)
class ImageSpec:
    """How image files become records.

    Attributes
    ----------
    size : height and width that images are resized to; empty: they must have one size.
    channels : 1 or 3: all become grey, or RGB; 0: RGB if any has colour, else grey.
    reader : ``package.module:function`` that makes pixels of a file's path; empty: Pillow and pydicom.
    """

    size: tuple[int, ...] = ()
    channels: int = 0
    reader: str = ""


PLAIN = ImageSpec()


def read_images(paths: Sequence[Path], spec: ImageSpec, where: Callable[[int], str] | None = None) -> Pixels:
    """Images uint8 (n, h, w) or (n, h, w, 3).

    They are turned as their EXIF data say; of 16 bits the upper 8 are taken; transparency is left out. DICOM: see
    :func:`dicom.read_dicom`.

    Parameters
    ----------
    where : the place that names image ``i`` in an error; its path stands there in any case.

    Raises
    ------
    DataError
        An unreadable image, one of another kind than expected, or images of different sizes.
    """
    decode = _users(spec.reader) if spec.reader else _decode
    images = []
    for place, path in enumerate(paths):
        try:
            images.append(_resized(decode(path), spec.size))
        except DataError as error:
            raise (DataError(f"{where(place)}: {error}") if where else error) from error
    if spec.channels == 1 or (spec.channels == 0 and all(image.ndim == 2 for image in images)):
        images = [image if image.ndim == 2 else _grey(image) for image in images]
    else:
        images = [image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2) for image in images]
    for place, (path, image) in enumerate(zip(paths, images, strict=True)):
        if image.shape != images[0].shape:
            raise DataError(
                f"{f'{where(place)}: ' if where else ''}{path}: {image.shape[1]}x{image.shape[0]} pixels, but "
                f"{paths[0]} has {images[0].shape[1]}x{images[0].shape[0]}; expected one size: set image_size=64, or "
                "the schema's image_size, and all are resized"
            )
    return np.stack(images)


def is_image(path: Path) -> bool:
    """Whether a file is one of the kinds that are read here; DICOM files need no suffix."""
    return path.suffix.lower() in SUFFIXES or (not path.suffix and path.is_file() and dicom.is_dicom(path))


def _decode(path: Path) -> Pixels:
    from PIL import Image, ImageOps

    try:
        if dicom.is_dicom(path):
            return dicom.read_dicom(path)
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
            return np.asarray(image.convert("L" if image.mode in _GREY else "RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{path}: cannot be read as an image ({error}); expected a complete image") from error


def _users(name: str) -> Callable[[Path], Pixels]:
    """A function of the user's, whose results are looked at."""
    read = plugins.load(name, group=GROUP, kind=Callable)

    def decode(path: Path) -> Pixels:
        try:
            image = np.asarray(read(path))
        except FedballotError:
            raise
        except Exception as error:  # foreign code: whatever it raises, the file is named
            raise DataError(f"{path}: {name} cannot read it ({type(error).__name__}: {error})") from error
        if image.dtype != np.uint8 or image.size == 0 or image.ndim not in (2, 3) or image.shape[2:] not in ((), (3,)):
            raise DataError(
                f"{path}: {name} gave {image.dtype} of shape {image.shape}; expected uint8 (h, w) or (h, w, 3)"
            )
        return image

    return decode


def _resized(image: Pixels, size: tuple[int, ...]) -> Pixels:
    from PIL import Image

    if not size or image.shape[:2] == size:
        return image
    return np.asarray(Image.fromarray(image).resize((size[1], size[0]), Image.Resampling.BICUBIC))


def _grey(image: Pixels) -> Pixels:
    from PIL import Image

    return np.asarray(Image.fromarray(image).convert("L"))

"""Reading a folder of a user's images: root/<class>/*.png and the like."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from fedballot.core.errors import DataError
from fedballot.datasets.readers.pictures import PLAIN, SUFFIXES, ImageSpec, is_image, read_images
from fedballot.datasets.readers.raw import Raw

EXPECTED = f"images at ROOT/<class>/*, with {', '.join(SUFFIXES)}"
LARGEST, RESIZED = 96, 64  # pixels a side: a first look needs no more
_TURNED = (5, 6, 7, 8)  # of EXIF's orientations, those that lie on their side
_ORIENTATION = 0x0112
_BESIDE = (".txt", ".md", ".csv", ".json", ".xml", ".db", ".ini")  # what often lies beside images and is none
_VOLUMES = (".nii", ".nii.gz", ".mgz", ".nrrd", ".mha")


def read_folder(root: Path, spec: ImageSpec = PLAIN) -> Raw:
    """Read images; each sub-folder is a class. All become RGB if any has colour, else grey.

    Hidden files and folders, ``__MACOSX``, and texts or tables beside the images are passed over; anything else is an
    error, but for a reader of the user's, which gets every other file.

    Raises
    ------
    DataError
        No class folders, a class without images, folders in a class folder, a file of another kind, or what
        :func:`read_images` says.
    """
    names = sorted(path.name for path in root.iterdir() if path.is_dir() and not _hidden(path))
    files = {name: images_in(root / name, spec) for name in names}
    empty = [name for name in names if not files[name]]
    loose = [path for path in root.iterdir() if path.suffix.lower() in SUFFIXES and not _hidden(path)]
    if loose and names:
        raise DataError(f"{loose[0]}: lies beside the class folders, in none of them; expected {EXPECTED}")
    if not names or empty:
        where = f"{root / empty[0]}: holds no image" if empty else f"{root}: holds no class folder"
        raise DataError(f"{where}; expected {EXPECTED}")
    everything = [path for name in names for path in files[name]]
    return Raw(read_images(everything, spec), np.array([path.parent.name for path in everything], dtype=np.str_))


def images_of(root: Path) -> list[Path]:
    """What seem to be the images of an image folder, whatever else lies in it."""
    folders = [path for path in sorted(root.iterdir()) if path.is_dir()] if root.is_dir() else []
    everything = (path for folder in folders for path in sorted(folder.iterdir()))
    return [path for path in everything if path.suffix.lower() in SUFFIXES and not _hidden(path)]


def fitting_size(images: Iterable[Path]) -> int:
    """Pixels a side to which images have to be resized for a first look; 0: they have one size that is small enough."""
    from PIL import Image

    sizes: set[tuple[int, int]] = set()
    for path in images:
        try:
            with Image.open(path) as file:
                turned = file.getexif().get(_ORIENTATION) in _TURNED
                sizes.add(file.size[::-1] if turned else file.size)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
            continue  # reading says what is wrong with it
    return RESIZED if len(sizes) > 1 or max((max(size) for size in sizes), default=0) > LARGEST else 0


def _hidden(path: Path) -> bool:
    return path.name.startswith(".") or path.name == "__MACOSX"


def images_in(folder: Path, spec: ImageSpec) -> list[Path]:
    """The images of one folder, sorted by name.

    Raises
    ------
    DataError
        A folder in it, or a file of another kind.
    """
    images = []
    for path in sorted(folder.iterdir()):
        if _hidden(path):
            continue
        if path.is_dir():
            raise DataError(
                f"{path}: a folder in a class folder; expected {EXPECTED}. Name the folder whose sub-folders are the "
                "classes, such as ROOT/train, or move the images up"
            )
        if (spec.reader and path.suffix.lower() not in _BESIDE) or is_image(path):
            images.append(path)
        elif path.suffix.lower() not in _BESIDE:
            volume = path.name.lower().endswith(_VOLUMES)
            more = "; of a volume, image_reader=package.module:function makes an image" if volume else ""
            raise DataError(f"{path}: no image that can be read; expected {EXPECTED}{more}")
    return images

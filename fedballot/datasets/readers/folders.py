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
BESIDE = (".txt", ".md", ".csv", ".json", ".xml", ".db", ".ini")  # what often lies beside images and is none
_VOLUMES = (".nii", ".nii.gz", ".mgz", ".nrrd", ".mha")


def read_folder(root: Path, spec: ImageSpec = PLAIN, labels: bool = True) -> Raw:
    """Read images; each sub-folder is a class. All become RGB if any has colour, else grey.

    Without ``labels``, they may lie in the folder itself: their labels are empty then.

    Hidden files and folders, ``__MACOSX``, and texts or tables beside the images are passed over; anything else is an
    error, but for a reader of the user's, which gets every other file.

    Raises
    ------
    DataError
        No class folders, a class without images, folders in a class folder, a file of another kind, or what
        :func:`read_images` says.
    """
    images = classified(root, spec, loose=not labels)
    words = ["" if path.parent == root else path.parent.name for path in images]
    return Raw(read_images(images, spec), np.array(words, dtype=np.str_))


def classified(root: Path, spec: ImageSpec, loose: bool = False) -> list[Path]:
    """The images of all class folders, or, where that is allowed and there are none, those in the folder itself.

    Raises
    ------
    DataError
        See :func:`read_folder`.
    """
    names = sorted(path.name for path in root.iterdir() if path.is_dir() and not hidden(path))
    if loose and not names and (images := images_in(root, spec)):
        return images
    files = {name: images_in(root / name, spec) for name in names}
    empty = [name for name in names if not files[name]]
    beside = [path for path in root.iterdir() if path.suffix.lower() in SUFFIXES and not hidden(path)]
    if beside and names:
        raise DataError(f"{beside[0]}: lies beside the class folders, in none of them; expected {EXPECTED}")
    if not names or empty:
        where = f"{root / empty[0]}: holds no image" if empty else f"{root}: holds no class folder"
        raise DataError(f"{where}; expected {EXPECTED}")
    return [path for name in names for path in files[name]]


def images_of(root: Path) -> list[Path]:
    """What seem to be the images of an image folder, whatever else lies in it."""
    folders = [path for path in sorted(root.iterdir()) if path.is_dir()] if root.is_dir() else []
    everything = (path for folder in folders for path in sorted(folder.iterdir()))
    return [path for path in everything if path.suffix.lower() in SUFFIXES and not hidden(path)]


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


def hidden(path: Path) -> bool:
    """Whether a file or folder is passed over."""
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
        if hidden(path):
            continue
        if path.is_dir():
            raise DataError(
                f"{path}: a folder in a class folder; expected {EXPECTED}. Name the folder whose sub-folders are the "
                "classes, such as ROOT/train, or move the images up"
            )
        if (spec.reader and path.suffix.lower() not in BESIDE) or is_image(path):
            images.append(path)
        elif path.suffix.lower() not in BESIDE:
            volume = path.name.lower().endswith(_VOLUMES)
            more = "; of a volume, image_reader=package.module:function makes an image" if volume else ""
            raise DataError(f"{path}: no image that can be read; expected {EXPECTED}{more}")
    return images

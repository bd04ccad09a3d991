"""Public images with the labels that were released for them, ready for a page."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fedballot.runs.results import Release

MOST_PICTURES = 60
LARGEST_SIDE = 96  # pixels; larger images are scaled down so that the page stays small


@dataclass(frozen=True)
class Picture:
    """One public image, its released label, and the truth where it is known."""

    source: str
    alt: str
    label: str
    truth: str | None
    lead: float | None
    wrong: bool


def pictures(release: Release, classes: Sequence[str]) -> list[Picture]:
    """Pair the images of a release with their labels, leads and, where known, true labels.

    Parameters
    ----------
    release : Release
        Needs `images` and `labels`; without them the list is empty.
    classes : sequence of str, (C,)
        Names of the classes.

    Returns
    -------
    list of Picture
        At most 60, in the order of the release.
    """
    if release.images is None or release.image_rows is None or release.labels is None:
        return []
    found, leads = [], release.leads
    for image, row in zip(release.images[:MOST_PICTURES], release.image_rows, strict=False):
        label = class_name(classes, int(release.labels[row]))
        known = release.true_labels is not None and release.true_labels[row] >= 0
        truth = class_name(classes, int(release.true_labels[row])) if known else None  # type: ignore[index]
        lead = None if leads is None else float(leads[row])
        alt = f"Public image of query {int(row) + 1}, released as {label}"
        if truth is not None:
            alt += ", correctly" if truth == label else f", in truth {truth}"
        found.append(Picture(data_uri(image), alt, label, truth, lead, truth is not None and truth != label))
    return found


def class_name(classes: Sequence[str], index: int) -> str:
    """Name a class; one outside the list is shown by its number."""
    return classes[index] if 0 <= index < len(classes) else f"class {index}"


def data_uri(image: NDArray[Any]) -> str:
    """Write a uint8 image, (h, w) or (h, w, 3), as a PNG in a data: URI."""
    picture = Image.fromarray(np.ascontiguousarray(image))
    picture.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")

"""Changed copies of public images, the same for everybody who knows the pool and the run's seed."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import SettingsError
from fedballot.core.seeds import Stream, generator
from fedballot.datasets.examples import Array

Augment = Literal["usual", "none", "shift", "flip", "rotate"]
"""How images are changed while a network trains, see `LearnerOptions`."""

GREY_REACH, COLOUR_REACH = 1 / 14, 1 / 8  # farthest shift, as a share of the height: 2 of 28 pixels, 4 of 32


def check_images(shape: tuple[int, ...], answers: int) -> None:
    """Refuse several answers to records (of this shape) that are not images."""
    if answers > 1 and len(shape) not in (2, 3):
        raise SettingsError(
            f"answers={answers} asks about shifted copies of public images, but the public records are vectors of "
            f"{shape[0]} features: set answers=1"
        )


def public_copy(x: Array, rows: NDArray[np.integer], number: int, seed: int, *, mirror: bool = True) -> Array:
    """Copy ``number`` of some images of a pool.

    Copy 0 is the images themselves. In each other one every image is shifted by a random whole number of pixels in both
    directions, what comes in from outside is black, and with ``mirror`` colour images are mirrored in half of the
    cases. Nothing is interpolated, so that clients and server have the same copies to the last bit.

    Parameters
    ----------
    x : uint8 (P, h, w) or (P, h, w, 3)
        The whole pool: which change an image gets depends on its row alone, not on the other rows asked for.
    rows : (n,) rows of the pool.

    Returns
    -------
    uint8 (n, h, w) or (n, h, w, 3)
    """
    images = np.asarray(x[rows])
    if number == 0:
        return images
    check_images(x.shape[1:], number + 1)
    colour = x.ndim == 4
    height, width = x.shape[1:3]
    reach = max(1, round((COLOUR_REACH if colour else GREY_REACH) * height))
    drawn = generator(seed, Stream.COPIES, number)
    shifts = drawn.integers(0, 2 * reach + 1, size=(len(x), 2))[rows]
    if colour and mirror:
        mirrored = drawn.integers(0, 2, size=len(x))[rows] == 1
        images = np.where(mirrored[:, None, None, None], images[:, :, ::-1], images)
    framed = np.pad(images, [(0, 0), (reach, reach), (reach, reach)] + [(0, 0)] * colour)
    out = np.empty_like(images)
    for down, right in np.unique(shifts, axis=0):
        same = (shifts == (down, right)).all(axis=1)
        out[same] = framed[same, down : down + height, right : right + width]
    return out

"""The weights of a network as one vector, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedballot.core.errors import DataError

Floats = npt.NDArray[np.float32]


def flatten(weights: Sequence[Floats]) -> Floats:
    """All weights one after the other, float32 (d,)."""
    return np.concatenate([w.ravel() for w in weights]).astype(np.float32, copy=False)


def unflatten(vector: npt.NDArray[np.floating], shapes: Sequence[tuple[int, ...]]) -> list[Floats]:
    """The arrays of these shapes that :func:`flatten` joined.

    Raises
    ------
    DataError
        If the vector has another length.
    """
    sizes = [math.prod(shape) for shape in shapes]
    if vector.shape != (sum(sizes),):
        raise DataError(f"the weights are {sum(sizes)} numbers, but the vector has shape {vector.shape}")
    parts = np.split(vector.astype(np.float32, copy=False), np.cumsum(sizes)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

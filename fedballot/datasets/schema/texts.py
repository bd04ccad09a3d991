"""Texts as rows of bytes, for learners that read texts: an array holds them as they are, and so does a fingerprint."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError
from fedballot.datasets.examples import Array

LONGEST = 100_000  # bytes of one text


def bytes_of(texts: Iterable[str], width: int) -> NDArray[np.float64]:
    """UTF-8 of each text (n, width), zeros behind it; a longer one is cut between two characters.

    Examples
    --------
    >>> bytes_of(["né"], 4).tolist()
    [[110.0, 195.0, 169.0, 0.0]]
    """
    rows = [text.replace("\0", " ").encode()[:width].decode(errors="ignore").encode() for text in texts]
    return np.array([np.frombuffer(row.ljust(width, b"\0"), np.uint8) for row in rows], np.float64).reshape(-1, width)


def texts_of(x: Array) -> list[str]:
    """The texts of such rows; of several columns those that are not empty, with a space between.

    Raises
    ------
    DataError
        Other numbers than :func:`bytes_of` writes.
    """
    if x.ndim != 2 or not np.isin(x, np.arange(256)).all():
        raise DataError(
            "the records are no texts: expected a table whose columns are all of kind text, with bytes in the schema: "
            'kind = "text" and bytes = 512'
        )
    rows = (row.tobytes().split(b"\0") for row in x.astype(np.uint8))
    return [" ".join(part.decode(errors="replace") for part in parts if part) for parts in rows]

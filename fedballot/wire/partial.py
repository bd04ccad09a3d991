"""Ballots that are about some of the records asked about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.wire.codec import Array, Codec
from fedballot.wire.messages import Arrays
from fedballot.wire.packing import WireError, pack_labels, unpack_labels


@dataclass(frozen=True)
class Partial:
    """Which rows (Q,) are answered, a bit each, then those rows alone; read as (Q, C), 0 where nothing was said.

    The size of an answer tells how many rows it has, as its bits do.

    Parameters
    ----------
    shape
        (Q, C).
    rows
        How rows of a shape are sent.
    """

    shape: tuple[int, int]
    rows: Callable[[tuple[int, int]], Codec]

    @property
    def array_count(self) -> int:
        """How many arrays a value takes."""
        return 1 + self.rows(self.shape).array_count

    def pack(self, values: tuple[npt.NDArray[np.bool_], npt.NDArray[Any]]) -> Arrays:
        """The arrays of rows (Q, C) of which the marked ones (Q,) are sent."""
        answered, rows = values
        sent = rows[answered]
        return [pack_labels(answered.astype(np.int64), 2), *self.rows((len(sent), self.shape[1])).pack(sent)]

    def read(self, arrays: Sequence[Array]) -> npt.NDArray[Any]:
        """The rows, 0 where nothing was said.

        Raises
        ------
        WireError
            If the arrays hold something else.
        """
        if len(arrays) != self.array_count:
            raise WireError("count", f"expected {self.array_count} arrays, got {len(arrays)}")
        answered = unpack_labels(arrays[0], self.shape[0], 2).astype(bool)
        sent = self.rows((int(answered.sum()), self.shape[1])).read(arrays[1:])
        out = np.zeros(self.shape, dtype=sent.dtype)
        out[answered] = sent
        return out

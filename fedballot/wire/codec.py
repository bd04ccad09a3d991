"""Kinds of ballots as they cross the network: one object packs a value at a client and reads it at the server.

A :class:`Codec` is a value made of public numbers, so that both sides make the same one from the settings. What it
packs is small and exact to its stated error; what it reads is refused when damaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fedballot.core.arrays import from_halves, row_sums
from fedballot.wire.messages import Arrays
from fedballot.wire.packing import WireError, pack_labels, unpack_labels

Array = npt.NDArray[np.generic]
Floats = npt.NDArray[np.float32]

_NON_FINITE = "the answer holds NaN or infinity"


class Codec(Protocol):
    """A kind of ballot.

    Examples
    --------
    >>> import numpy as np
    >>> codec = Integers((2, 2))
    >>> arrays = codec.pack(np.array([[1, -2], [300, 0]]))
    >>> arrays[0].dtype, codec.read(arrays).tolist()
    (dtype('int16'), [[1, -2], [300, 0]])
    """

    @property
    def array_count(self) -> int:
        """How many arrays a value takes."""
        ...

    def pack(self, values: Any) -> Arrays:
        """The arrays that are sent.

        Raises
        ------
        ValueError, OverflowError
            If the value is none of this kind.
        """
        ...

    def read(self, arrays: Sequence[Array]) -> npt.NDArray[Any]:
        """The value in arrays that came.

        Raises
        ------
        WireError
            With reason ``count``, ``dtype``, ``shape``, ``non-finite`` or ``range``.
        """
        ...


def one_array(arrays: Sequence[Array]) -> npt.NDArray[Any]:
    """The array of an answer that must hold one.

    Raises
    ------
    WireError
        With reason ``count``.
    """
    _require_count(arrays, 1)
    return arrays[0]


def _require_count(arrays: Sequence[Array], count: int) -> None:
    if len(arrays) != count:
        raise WireError("count", f"expected {count} array{'s' if count > 1 else ''}, got {len(arrays)}")


def _require(array: Array, shape: tuple[int, ...], *dtypes: npt.DTypeLike) -> None:
    if array.dtype not in dtypes:
        words = [str(np.dtype(dtype)) for dtype in dtypes]
        listed = " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
        raise WireError("dtype", f"expected {listed}, got {array.dtype}")
    if array.shape != shape:
        raise WireError("shape", f"expected {shape}, got {array.shape}")


def _require_finite(array: Array) -> None:
    if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
        raise WireError("non-finite", _NON_FINITE)


@dataclass(frozen=True)
class Integers:
    """Integers in the smallest signed type that holds them all (8, 16 or 32 bits); read as int32.

    The type is a function of what is released, so it tells nothing more than the release does. ``largest`` is the
    largest magnitude that is read: whoever sends more is no client that keeps to the method.
    """

    shape: tuple[int, ...]
    largest: int = 2**31
    array_count = 1

    def pack(self, values: npt.NDArray[np.integer]) -> Arrays:
        low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
        for dtype in (np.int8, np.int16, np.int32):
            if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
                return [values.astype(dtype)]
        raise OverflowError(f"integers from {low} to {high} do not fit 32 bits")

    def read(self, arrays: Sequence[Array]) -> npt.NDArray[np.int32]:
        array = one_array(arrays)
        _require_finite(array)
        _require(array, self.shape, np.int8, np.int16, np.int32)
        if array.size and (farthest := max(int(array.max()), -int(array.min()))) > self.largest:
            raise WireError("range", f"an integer is {farthest} large; a client that keeps to it sends {self.largest}")
        return array.astype(np.int32)


@dataclass(frozen=True)
class Choices:
    """One class for each row (Q, C), the largest, at ceil(log2 C) bits; read as one-hot rows, int32.

    With ``blank`` a row of zeros chooses nothing, which takes a label of its own.
    """

    shape: tuple[int, int]
    blank: bool = False
    array_count = 1

    @property
    def labels(self) -> int:
        """How many labels there are."""
        return self.shape[1] + self.blank

    def pack(self, values: npt.NDArray[Any]) -> Arrays:
        labels = values.argmax(axis=1)
        if self.blank:
            labels = np.where(values.any(axis=1), labels, self.shape[1])
        return [pack_labels(labels, self.labels)]

    def read(self, arrays: Sequence[Array]) -> npt.NDArray[np.int32]:
        labels = unpack_labels(one_array(arrays), self.shape[0], self.labels)
        return np.asarray(labels[:, None] == np.arange(self.shape[1]), dtype=np.int32)


@dataclass(frozen=True)
class Singles:
    """Numbers as float32."""

    shape: tuple[int, ...]
    array_count = 1

    def pack(self, values: npt.NDArray[np.floating]) -> Arrays:
        return [values.astype(np.float32, copy=False)]

    def read(self, arrays: Sequence[Array]) -> Floats:
        array = one_array(arrays)
        _require(array, self.shape, np.float32)
        _require_finite(array)
        return array.astype(np.float32)


@dataclass(frozen=True)
class Halves:
    """Numbers as float16: 2 bytes each, relative error at most 2^-11; beyond its range they are cut to it."""

    shape: tuple[int, ...]
    array_count = 1

    def pack(self, values: npt.NDArray[np.floating]) -> Arrays:
        if not np.isfinite(values).all():
            raise ValueError("predictions must be finite")
        limit = float(np.finfo(np.float16).max)
        return [np.asarray(np.clip(values, -limit, limit), dtype=np.float16)]

    def read(self, arrays: Sequence[Array]) -> Floats:
        array = one_array(arrays)
        _require(array, self.shape, np.float16)
        values = from_halves(array)
        if values.size and not -(2.0**16) < float(values.min()) <= float(values.max()) < 2.0**16:
            raise WireError("non-finite", _NON_FINITE)
        return values


@dataclass(frozen=True)
class Levels:
    """Numbers of any size as int8 levels and the width of a level, float32 (1,): 1 byte each.

    The absolute error is at most half a level: the largest magnitude over 254.
    """

    shape: tuple[int, ...]
    array_count = 2

    def pack(self, values: npt.NDArray[np.floating]) -> Arrays:
        if not np.isfinite(values).all():
            raise ValueError("predictions must be finite")
        step = np.float32(max(float(np.abs(values).max(initial=0.0)) / 127, float(np.finfo(np.float32).tiny)))
        return [np.clip(np.rint(values / step), -127, 127).astype(np.int8), np.array([step])]

    def read(self, arrays: Sequence[Array]) -> Floats:
        _require_count(arrays, 2)
        levels, step = arrays[0], Singles((1,)).read(arrays[1:])
        _require(levels, self.shape, np.int8)
        if not 0 < step[0] <= np.finfo(np.float32).max / 128:
            raise WireError("range", f"a level is {step[0]} wide; expected a number above 0")
        return levels.astype(np.float32) * step


@dataclass(frozen=True)
class Fractions:
    """Numbers in [0, 1] as 256 levels: 1 byte each, absolute error at most 1/510."""

    shape: tuple[int, ...]
    array_count = 1

    def pack(self, values: npt.NDArray[np.floating]) -> Arrays:
        if values.size and not (float(values.min()) >= 0 and float(values.max()) <= 1):
            raise ValueError("probabilities must lie in 0..1")
        return [np.rint(255 * values.astype(np.float64)).astype(np.uint8)]

    def read(self, arrays: Sequence[Array]) -> Floats:
        array = one_array(arrays)
        _require(array, self.shape, np.uint8)
        return np.asarray(array.astype(np.float32) / 255, dtype=np.float32)


@dataclass(frozen=True)
class Probabilities:
    """Rows (Q, C) of probabilities, as :class:`Halves` or :class:`Fractions`; read with rows of sum 1."""

    numbers: Halves | Fractions
    array_count = 1

    def pack(self, values: npt.NDArray[np.floating]) -> Arrays:
        return self.numbers.pack(values)

    def read(self, arrays: Sequence[Array]) -> Floats:
        values = self.numbers.read(arrays)
        sums = row_sums(values)[:, None]
        # rounding to float16 or to levels moves the sum of C classes by little
        if values.min(initial=0) < 0 or (abs(sums - 1) > 2e-3 * values.shape[1] + 1e-3).any():
            raise WireError("range", "rows must be probabilities: at least 0, with sum 1")
        values /= sums
        return values


@dataclass(frozen=True)
class Counts:
    """How many records a client has of each class, exact, int32 (C,); read as int64."""

    classes: int
    array_count = 1

    def pack(self, values: npt.NDArray[np.integer]) -> Arrays:
        return [values.astype(np.int32)]

    def read(self, arrays: Sequence[Array]) -> npt.NDArray[np.int64]:
        counts = one_array(arrays)
        if counts.dtype != np.int32 or counts.shape != (self.classes,):
            raise WireError("shape", f"class counts must be {self.classes} int32, got {counts.dtype} {counts.shape}")
        numbers = counts.astype(np.int64)
        if numbers.min() < 0 or not numbers.any():
            raise WireError("range", "class counts must be at least 0, and not all 0")
        return numbers


@dataclass(frozen=True)
class Bundle:
    """Several values, one after the other."""

    parts: tuple[Codec, ...]

    @property
    def array_count(self) -> int:
        """How many arrays all of them take."""
        return sum(part.array_count for part in self.parts)

    def pack(self, values: Sequence[npt.NDArray[Any]]) -> Arrays:
        """The arrays of each value in turn."""
        return [array for part, value in zip(self.parts, values, strict=True) for array in part.pack(value)]

    def read(self, arrays: Sequence[Array]) -> list[npt.NDArray[Any]]:
        """The values, each in its own kind.

        Raises
        ------
        WireError
            If there are more or fewer arrays, or one of them cannot be read.
        """
        _require_count(arrays, self.array_count)
        values, start = [], 0
        for part in self.parts:
            values.append(part.read(arrays[start : start + part.array_count]))
            start += part.array_count
        return values

"""Predictions as the arrays that cross the network: small, exact, and refused when damaged.

A ballot is a list of ndarrays, since that is what Flower carries. ``payload_bytes`` counts what is sent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]


class WireError(ValueError):
    """An answer that cannot be read; ``reason`` is a short fixed word for counting."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


def pack_integers(values: npt.NDArray[np.integer]) -> npt.NDArray[np.signedinteger]:
    """The same integers in the smallest signed type that holds them all (8, 16 or 32 bits).

    The type is a function of what is released, so it tells nothing more than the release does.

    Raises
    ------
    OverflowError
        If a value does not fit 32 bits.
    """
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    for dtype in (np.int8, np.int16, np.int32):
        info = np.iinfo(dtype)
        if info.min <= low and high <= info.max:
            return values.astype(dtype)
    raise OverflowError(f"integers from {low} to {high} do not fit 32 bits")


def unpack_integers(array: Array, shape: tuple[int, ...]) -> npt.NDArray[np.int32]:
    """Integers of a known shape, int32.

    Raises
    ------
    WireError
        With reason ``non-finite``, ``dtype`` or ``shape``.
    """
    if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
        raise WireError("non-finite", "the answer holds NaN or infinity")
    if array.dtype not in (np.int8, np.int16, np.int32):
        raise WireError("dtype", f"expected int8, int16 or int32, got {array.dtype}")
    if array.shape != shape:
        raise WireError("shape", f"expected {shape}, got {array.shape}")
    return array.astype(np.int32)


def label_bits(n_values: int) -> int:
    """Bits that one of ``n_values`` different labels needs: ceil(log2), at least 1."""
    return max(1, (n_values - 1).bit_length())


def pack_labels(labels: npt.NDArray[np.integer], n_values: int) -> npt.NDArray[np.uint8]:
    """Labels in ``range(n_values)``, shape (n,), at ceil(log2 n_values) bits each, uint8.

    Raises
    ------
    ValueError
        If a label is outside the range.
    """
    if labels.size and not (int(labels.min()) >= 0 and int(labels.max()) < n_values):
        raise ValueError(f"labels must lie in 0..{n_values - 1}, got {labels.min()}..{labels.max()}")
    octets = labels.astype("<u8")[:, None].view(np.uint8)
    bits = np.unpackbits(octets, axis=1, count=label_bits(n_values), bitorder="little")
    return np.packbits(bits.ravel(), bitorder="little")


def unpack_labels(packed: Array, n: int, n_values: int) -> npt.NDArray[np.int64]:
    """The ``n`` labels that :func:`pack_labels` packed, int64.

    Raises
    ------
    WireError
        With reason ``dtype``, ``shape`` or ``range``.
    """
    width = label_bits(n_values)
    if packed.dtype != np.uint8:
        raise WireError("dtype", f"expected uint8, got {packed.dtype}")
    if packed.shape != (-(-n * width // 8),):
        raise WireError("shape", f"expected {-(-n * width // 8)} bytes for {n} labels, got shape {packed.shape}")
    bits = np.unpackbits(packed.astype(np.uint8), count=n * width, bitorder="little")
    octets = np.zeros((n, 8), dtype=np.uint8)
    octets[:, : -(-width // 8)] = np.packbits(bits.reshape(n, width), axis=1, bitorder="little")
    labels = octets.view("<u8")[:, 0].astype(np.int64)
    if n and int(labels.max()) >= n_values:
        raise WireError("range", f"a label is {labels.max()}, allowed are 0..{n_values - 1}")
    return labels


def pack_halves(values: npt.NDArray[np.floating]) -> npt.NDArray[np.float16]:
    """Numbers as float16: 2 bytes each, relative error at most 2^-11; beyond its range they are cut to it.

    Raises
    ------
    ValueError
        If a value is NaN or infinite.
    """
    if not np.isfinite(values).all():
        raise ValueError("predictions must be finite")
    limit = float(np.finfo(np.float16).max)
    return np.asarray(np.clip(values, -limit, limit), dtype=np.float16)


def unpack_halves(array: Array, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Numbers of a known shape, float32.

    Raises
    ------
    WireError
        With reason ``dtype``, ``shape`` or ``non-finite``.
    """
    return _floats(array, np.float16, shape)


def unpack_singles(array: Array, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """As :func:`unpack_halves`, for numbers sent as float32."""
    return _floats(array, np.float32, shape)


def _floats(array: Array, dtype: type[np.floating], shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    if array.dtype != dtype:
        raise WireError("dtype", f"expected {np.dtype(dtype)}, got {array.dtype}")
    if array.shape != shape:
        raise WireError("shape", f"expected {shape}, got {array.shape}")
    if not np.isfinite(array).all():
        raise WireError("non-finite", "the answer holds NaN or infinity")
    return array.astype(np.float32)


def pack_probabilities(values: npt.NDArray[np.floating]) -> npt.NDArray[np.uint8]:
    """Numbers in [0, 1] as 256 levels: 1 byte each, absolute error at most 1/510.

    Raises
    ------
    ValueError
        If a value lies outside.
    """
    if values.size and not (float(values.min()) >= 0 and float(values.max()) <= 1):
        raise ValueError("probabilities must lie in 0..1")
    return np.rint(255 * values.astype(np.float64)).astype(np.uint8)


def unpack_probabilities(array: Array, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """The numbers that :func:`pack_probabilities` packed, float32, to the nearest level.

    Raises
    ------
    WireError
        With reason ``dtype`` or ``shape``.
    """
    if array.dtype != np.uint8:
        raise WireError("dtype", f"expected uint8, got {array.dtype}")
    if array.shape != shape:
        raise WireError("shape", f"expected {shape}, got {array.shape}")
    return np.asarray(array.astype(np.float32) / 255, dtype=np.float32)


def pack_levels(values: npt.NDArray[np.floating]) -> list[Array]:
    """Numbers of any size as int8 levels and the width of a level, float32 (1,): 1 byte each.

    The absolute error is at most half a level: the largest magnitude over 254.

    Raises
    ------
    ValueError
        If a value is NaN or infinite.
    """
    if not np.isfinite(values).all():
        raise ValueError("predictions must be finite")
    width = np.float32(max(float(np.abs(values).max(initial=0.0)) / 127, float(np.finfo(np.float32).tiny)))
    return [np.clip(np.rint(values / width), -127, 127).astype(np.int8), np.array([width])]


def unpack_levels(arrays: Sequence[Array], shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """The numbers that :func:`pack_levels` packed, float32, to the nearest level.

    Raises
    ------
    WireError
        With reason ``count``, ``dtype``, ``shape``, ``non-finite`` or ``range``.
    """
    if len(arrays) != 2:
        raise WireError("count", f"expected 2 arrays, got {len(arrays)}")
    levels, width = arrays[0], unpack_singles(arrays[1], (1,))
    if levels.dtype != np.int8:
        raise WireError("dtype", f"expected int8, got {levels.dtype}")
    if levels.shape != shape:
        raise WireError("shape", f"expected {shape}, got {levels.shape}")
    if not 0 < width[0] <= np.finfo(np.float32).max / 128:
        raise WireError("range", f"a level is {width[0]} wide; expected a number above 0")
    return levels.astype(np.float32) * width


def payload_bytes(tensors: Sequence[bytes]) -> int:
    """Bytes of a message's arrays as Flower serialises them (NumPy format), without the gRPC frame around them."""
    return sum(len(tensor) for tensor in tensors)

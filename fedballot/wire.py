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
    shifts = np.arange(label_bits(n_values))
    bits = (labels.astype(np.int64)[:, None] >> shifts) & 1
    return np.packbits(bits.astype(np.uint8).ravel(), bitorder="little")


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
    labels = bits.reshape(n, width).astype(np.int64) @ (1 << np.arange(width))
    if n and int(labels.max()) >= n_values:
        raise WireError("range", f"a label is {labels.max()}, allowed are 0..{n_values - 1}")
    return labels


def payload_bytes(tensors: Sequence[bytes]) -> int:
    """Bytes of a message's arrays as Flower serialises them (NumPy format), without the gRPC frame around them."""
    return sum(len(tensor) for tensor in tensors)

"""Labels at as few bits as they need, and what is wrong with an answer that cannot be read."""

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
    groups = n // 8 + 1  # eight labels fill `width` bytes
    octets = np.zeros(groups * width + 9, dtype=np.uint8)
    octets[: packed.size] = packed
    out = np.empty((groups, 8), dtype=np.uint64)
    for place in range(8):
        first, shift = divmod(place * width, 8)
        out[:, place] = np.ndarray(groups, "<u8", octets, first, (width,)) >> np.uint64(shift)
        if shift + width > 64:  # the label ends in a ninth byte
            last = np.ndarray(groups, np.uint8, octets, first + 8, (width,))
            out[:, place] |= last.astype(np.uint64) << np.uint64(64 - shift)
    out &= np.uint64(2**width - 1)
    labels = out.ravel()[:n].astype(np.int64)
    if n and int(labels.max()) >= n_values:
        raise WireError("range", f"a label is {labels.max()}, allowed are 0..{n_values - 1}")
    return labels


def payload_bytes(tensors: Sequence[bytes]) -> int:
    """Bytes of a message's arrays as Flower serialises them (NumPy format), without the gRPC frame around them."""
    return sum(len(tensor) for tensor in tensors)

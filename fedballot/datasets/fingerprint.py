"""A fingerprint of an array, by which a server and its clients make sure that they hold the same public set."""

import hashlib

import numpy as np

from fedballot.datasets.examples import Array
from fedballot.errors import DataError

_CHUNK_BYTES = 1 << 24


def fingerprint(x: Array) -> str:
    """SHA-256 over dtype, shape and bytes (little-endian, row-major), as "sha256:<hex>".

    Raises
    ------
    DataError
        An object array: its bytes are addresses, not content.
    """
    if x.dtype.hasobject:
        raise DataError(f"fingerprint: dtype {x.dtype}; expected numbers")
    little = x.dtype.newbyteorder("<")
    digest = hashlib.sha256(f"{little.str} {x.shape} ".encode())
    rows = np.atleast_1d(x)
    step = max(1, _CHUNK_BYTES // max(1, rows[:1].nbytes))
    for start in range(0, len(rows), step):
        digest.update(np.ascontiguousarray(rows[start : start + step], dtype=little).data)
    return f"sha256:{digest.hexdigest()}"


def records_fingerprint(x: Array, y: Array) -> str:
    """Fingerprint of records with their labels: any change of either, or of their order, changes it."""
    both = hashlib.sha256(f"{fingerprint(x)} {fingerprint(y)}".encode()).hexdigest()
    return f"sha256:{both}"

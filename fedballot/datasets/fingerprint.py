"""Fingerprints: of an array, by which a server and its clients know that they hold the same public set; of records."""

import hashlib
from collections.abc import Sequence

import numpy as np

from fedballot.core.errors import DataError
from fedballot.datasets.examples import Array, Source

_CHUNK_BYTES = 1 << 24


def fingerprint(x: Array, *contract: str) -> str:
    """SHA-256 over dtype, shape and bytes (little-endian, row-major), as "sha256:<hex>".

    Parameters
    ----------
    contract : digests of what the numbers mean; empty ones count for nothing.

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
    digest.update("".join(contract).encode())
    return f"sha256:{digest.hexdigest()}"


def joined(*digests: str) -> str:
    """One fingerprint of several, in this order."""
    return f"sha256:{hashlib.sha256(' '.join(digests).encode()).hexdigest()}"


def source_fingerprint(source: Source) -> str:
    """Fingerprint of a source's training records and of its contract: what the parties of a federation agree on."""
    return fingerprint(source.train.x, "" if source.schema is None else source.schema.digest)


def row_hashes(x: Array, y: Array) -> list[bytes]:
    """SHA-256 of each record with its label: dtypes, the shape of a row, its bytes (little-endian) and its label's.

    Parameters
    ----------
    x : (n, ...)
    y : (n,) or (n, L)
    """
    kinds = [array.dtype.newbyteorder("<") for array in (x, y)]
    start = hashlib.sha256(f"{kinds[0].str} {x.shape[1:]} {kinds[1].str} {y.shape[1:]} ".encode())
    hashes = []
    for row, label in zip(x, y, strict=True):
        one = start.copy()
        one.update(np.ascontiguousarray(row, dtype=kinds[0]).tobytes())
        one.update(np.ascontiguousarray(label, dtype=kinds[1]).tobytes())
        hashes.append(one.digest())
    return hashes


def records_fingerprint(hashes: Sequence[bytes]) -> str:
    """Fingerprint of records by their :func:`row_hashes`: any change of one changes it, their order does not."""
    return f"sha256:{hashlib.sha256(b''.join(sorted(hashes))).hexdigest()}"

"""Features of records by an encoder, made once and kept on disk.

One record goes through the encoder at a time, also where batches would be faster: what others stand in a batch moves
the last bits of a record's features, and a mechanism's sensitivity rests on features that depend on their own record
alone. So each record's features are kept under the record's own hash, and serve whatever split a record is drawn into.
"""

from __future__ import annotations

import fcntl
import hashlib
import secrets
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from fedballot.core import progress
from fedballot.core.errors import DataError, SettingsError
from fedballot.core.files import is_half_written, write_atomic
from fedballot.datasets import cache
from fedballot.datasets.encoders.encoder import Encoder, Vector
from fedballot.datasets.examples import Array
from fedballot.datasets.fingerprint import fingerprint

_VERSION = 1  # part of every key: raise it when the same encoder makes other features here
SAVED_EVERY_S = 20.0  # so much work at most is lost where a process dies


def encoded(encoder: Encoder, x: Array) -> Vector:
    """Features (n, d) of records (n, ...), float32 and memory-mapped.

    What another process is making is waited for; what was made before is read. Where this is stopped, what is done
    stays. Whoever :func:`fedballot.core.progress.watched` names is told.

    Raises
    ------
    SettingsError
        If the encoder cannot take such records, or makes features that are not finite.
    DataError
        If the cache cannot be written or is damaged.
    """
    encoder.check(x.shape[1:], "the data set")
    if not len(x):
        return np.zeros((0, len(_width(encoder, x))), np.float32)
    key = [_VERSION, encoder.digest, sorted(encoder.versions.items()), fingerprint(x)]
    return np.asarray(cache.cached("encoded", key, lambda: {"x": _made(encoder, x)})["x"])


def _width(encoder: Encoder, x: Array) -> Vector:
    """Features of an empty record, of which only the number is of interest."""
    return encoder.one("" if encoder.takes == "texts" else np.zeros(x.shape[1:], np.uint8))


def _made(encoder: Encoder, x: Array) -> Vector:
    name = hashlib.sha256(repr((_VERSION, encoder.digest, sorted(encoder.versions.items()))).encode()).hexdigest()[:16]
    folder = cache.folder() / "encoded" / name
    hashes = [hashlib.sha256(f"{row.dtype.str} {row.shape} ".encode() + row.tobytes()).digest() for row in x]
    with _alone(folder):
        kept = _kept(folder)
        missing = {digest: index for index, digest in enumerate(hashes) if digest not in kept}
        if missing:
            kept |= _work(encoder, x, missing, folder)
    return np.stack([kept[digest] for digest in hashes])


def _work(encoder: Encoder, x: Array, missing: dict[bytes, int], folder: Path) -> dict[bytes, Vector]:
    """Features of the missing rows, saved from time to time, and where this is stopped."""
    records = encoder.rows(x[list(missing.values())])
    watcher = progress.watcher()
    watcher.start(f"encoding by {encoder.name}", len(missing))
    done: dict[bytes, Vector] = {}
    saved, since = 0, time.monotonic()
    try:
        for (digest, index), record in zip(missing.items(), records, strict=True):
            vector = encoder.one(record)
            if vector.ndim != 1 or not np.isfinite(vector).all():
                raise SettingsError(
                    f"encoder={encoder.name} makes an array of shape {vector.shape} of record {index + 1}; expected a "
                    "vector of finite numbers"
                )
            done[digest] = vector
            watcher.advance()
            if time.monotonic() - since > SAVED_EVERY_S:
                _save(folder, list(done.items())[saved:])
                saved, since = len(done), time.monotonic()
    finally:
        _save(folder, list(done.items())[saved:])
    return done


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Held by one process at a time: another waits, and then finds what this one has made."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # it holds features of private records
        handle = (folder / "lock").open("wb")
    except OSError as error:
        raise DataError(
            f"cannot write the cache folder {folder} ({error}); set FEDBALLOT_CACHE to a folder with free space that "
            "you may write to"
        ) from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _save(folder: Path, done: list[tuple[bytes, Vector]]) -> None:
    if not done:
        return
    hashes = np.frombuffer(b"".join(digest for digest, _ in done), np.uint8).reshape(-1, 32)
    rows = np.stack([vector for _, vector in done])
    path = folder / f"{secrets.token_hex(8)}.npz"
    write_atomic(path, lambda stream: np.savez(stream, hashes=hashes, rows=rows), mode=0o600)


def _kept(folder: Path) -> dict[bytes, Vector]:
    """Features by their records' hashes; what a process that died has left unfinished is removed."""
    kept: dict[bytes, Vector] = {}
    for path in sorted(folder.iterdir()):
        if is_half_written(path):
            path.unlink()
        elif path.suffix == ".npz":
            try:
                with np.load(path, allow_pickle=False) as arrays:
                    hashes, rows = arrays["hashes"], arrays["rows"]
            except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
                raise DataError(f"{path}: damaged cache ({error}); delete this file, it will be made again") from error
            kept |= {digest.tobytes(): row for digest, row in zip(hashes, rows, strict=True)}
    return kept

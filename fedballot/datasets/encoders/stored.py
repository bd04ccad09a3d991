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
PORTION_S = 20.0  # of work in a file: at most so much is lost where a process dies


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
    kept = _Kept(cache.folder() / "encoded" / name)
    hashes = [hashlib.sha256(f"{row.dtype.str} {row.shape} ".encode() + row.tobytes()).digest() for row in x]
    places = {digest: index for index, digest in enumerate(hashes)}
    if missing := [digest for digest in places if digest not in kept.rows]:
        watcher = progress.watcher()
        watcher.start(f"encoding by {encoder.name}", len(missing))
        while missing:
            with kept.alone():  # a portion at a time: others that need the same records, or few others, take turns
                done = kept.rows.keys() & missing  # by another process, meanwhile
                watcher.advance(len(done))
                missing = [digest for digest in missing if digest not in done]
                _work(encoder, x, places, missing, kept, watcher)
            missing = [digest for digest in missing if digest not in kept.rows]
            time.sleep(0.01)  # else who waits would find the lock taken again
    return np.stack([kept.rows[digest] for digest in hashes])


def _work(
    encoder: Encoder,
    x: Array,
    places: dict[bytes, int],
    missing: list[bytes],
    kept: _Kept,
    watcher: progress.Progress,
) -> None:
    """As many of the missing features as the time for a portion allows, saved also where this is stopped."""
    done: dict[bytes, Vector] = {}
    until = time.monotonic() + PORTION_S
    try:
        for digest in missing:
            (record,) = encoder.rows(x[places[digest]][None])
            vector = encoder.one(record)
            if vector.ndim != 1 or not np.isfinite(vector).all():
                raise SettingsError(
                    f"encoder {encoder.name!r} makes an array of shape {vector.shape} of record {places[digest] + 1}; "
                    "expected a vector of finite numbers"
                )
            done[digest] = vector
            watcher.advance()
            if time.monotonic() > until:
                break
    finally:
        kept.save(done)


class _Kept:
    """The features in an encoder's folder, by the hashes of their records."""

    def __init__(self, folder: Path) -> None:
        self.rows: dict[bytes, Vector] = {}
        self._folder, self._read = folder, set[str]()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # it holds features of private records
        except OSError as error:
            raise self._unwritable(error) from error
        self._look()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Held by one process at a time, which finds what others have made before it."""
        try:
            handle = (self._folder / "lock").open("wb")
        except OSError as error:
            raise self._unwritable(error) from error
        with handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            for path in self._folder.iterdir():
                if is_half_written(path):  # by a process that died
                    path.unlink()
            self._look()
            yield

    def save(self, done: dict[bytes, Vector]) -> None:
        """Keep more features."""
        if not done:
            return
        hashes = np.frombuffer(b"".join(done), np.uint8).reshape(-1, 32)
        rows = np.stack([*done.values()])
        path = self._folder / f"{secrets.token_hex(8)}.npz"
        write_atomic(path, lambda stream: np.savez(stream, hashes=hashes, rows=rows), mode=0o600)
        self._read.add(path.name)
        self.rows |= done

    def _look(self) -> None:
        """Read the files that are new."""
        for path in sorted(self._folder.glob("*.npz")):
            if path.name in self._read or is_half_written(path):
                continue
            try:
                with np.load(path, allow_pickle=False) as arrays:
                    hashes, rows = arrays["hashes"], arrays["rows"]
            except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
                raise DataError(f"{path}: damaged cache ({error}); delete this file, it will be made again") from error
            self._read.add(path.name)
            self.rows |= {digest.tobytes(): row for digest, row in zip(hashes, rows, strict=True)}

    def _unwritable(self, error: OSError) -> DataError:
        return DataError(
            f"cannot write the cache folder {self._folder} ({error}); set FEDBALLOT_CACHE to a folder with free space "
            "that you may write to"
        )

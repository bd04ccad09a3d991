"""The arrays that a ledger has released, one file for each request."""

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError
from fedballot.core.files import write_atomic

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Releases:
    """Releases in a folder; each file is there whole or not at all."""

    folder: Path

    def path(self, request: str) -> Path:
        """Return where the release of a request is, or would be."""
        return self.folder / f"{hashlib.sha256(request.encode()).hexdigest()[:32]}.npz"

    def names(self) -> set[str]:
        """Return the names of all files."""
        return {path.name for path in self.folder.glob("*.npz")}

    def store(self, request: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Put arrays on disk.

        Raises
        ------
        DataError
            If one of them holds Python objects.
        """
        for name, array in arrays.items():
            if np.asarray(array).dtype.hasobject:
                raise DataError(f"release: array {name!r} holds Python objects, which are not stored.")
        values: dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items()}
        buffer = io.BytesIO()
        np.savez(buffer, **values)
        write_whole(self.path(request), buffer.getvalue())

    def sha256(self, request: str) -> str:
        """Return the digest of a request's file."""
        return hashlib.sha256(self.path(request).read_bytes()).hexdigest()

    def load(self, request: str, sha256: str) -> Arrays:
        """Return the arrays of a release, which the ledger recorded with this digest.

        Raises
        ------
        DataError
            If the file is gone, or is another one.
        """
        path = self.path(request)
        if not path.exists():
            raise DataError(f"{path}: the release of request {request!r} is gone; it cannot be drawn again.")
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != sha256:
            raise DataError(f"{path}: not the release that the ledger recorded for {request!r}.")
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}


def write_whole(path: Path, content: bytes) -> None:
    """Put the content there whole or not at all."""
    write_atomic(path, lambda stream: stream.write(content))

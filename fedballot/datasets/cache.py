"""Decoded arrays, kept as .npy files and opened as read-only memory maps, so that worker processes share pages."""

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fedballot.core.errors import DataError
from fedballot.datasets.examples import Array


def folder() -> Path:
    """`$FEDBALLOT_CACHE`, or `~/.cache/fedballot`."""
    return Path(os.environ.get("FEDBALLOT_CACHE") or Path.home() / ".cache" / "fedballot").expanduser()


def cached(name: str, key: Sequence[object], make: Callable[[], dict[str, Array]]) -> dict[str, Array]:
    """Arrays of `make()`, computed once per `key` and memory-mapped from then on.

    Parameters
    ----------
    name : readable part of the folder's name.
    key : everything that the arrays depend on (see `file_key`); JSON values.
    make : computes the arrays; its errors pass through and leave nothing behind.

    Raises
    ------
    DataError
        The cache folder cannot be written, or holds a damaged array.
    """
    digest = hashlib.sha256(json.dumps([name, *key]).encode()).hexdigest()[:16]
    target = folder() / "arrays" / f"{name}-{digest}"
    if not target.is_dir():
        _write(target, make())
    try:
        return {path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in target.glob("*.npy")}
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{target}: damaged cache ({error}); delete this folder, it will be made again") from error


def file_key(path: Path) -> list[object]:
    """Identity of a file's content without reading it: absolute path, bytes, modification time in ns."""
    status = path.stat()
    return [str(path.resolve()), status.st_size, status.st_mtime_ns]


def _write(target: Path, arrays: dict[str, Array]) -> None:
    # A folder appears under its final name only when complete; of two processes that race, the first one wins.
    scratch = target.with_name(f".{target.name}-{uuid.uuid4().hex}")
    try:
        scratch.mkdir(mode=0o700, parents=True)  # it may hold features of private records
        for key, array in arrays.items():
            np.save(scratch / f"{key}.npy", array, allow_pickle=False)
        os.replace(scratch, target)
    except OSError as error:
        if not target.is_dir():
            raise DataError(
                f"cannot write the cache folder {target.parent} ({error}); "
                "set FEDBALLOT_CACHE to a folder with free space that you may write to"
            ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)

"""Files that are whole or absent: every write goes to a temporary neighbour first, then takes its place."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shlex
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from fedballot.core.errors import DataError, SettingsError

PROBE_BYTES = 1 << 20
TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}")


def with_home(name: str | Path) -> Path:
    """The path with ~ replaced by the home folder; an unknown user's ~name stays as it is: no file, but no error."""
    return Path(os.path.expanduser(name))


def write_atomic(path: Path, write: Callable[[BinaryIO], object], *, mode: int = 0o666) -> None:
    """Let ``write`` fill a file that replaces ``path`` only when it is complete and on disk; umask cuts ``mode``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def is_half_written(path: Path) -> bool:
    """Whether it is the temporary neighbour of a file; one that stays was left by a process that died."""
    return TEMPORARY.fullmatch(path.name) is not None


def check_ours(path: Path, mark: str = "fedballot") -> None:
    """Refuse to replace a file that fedballot did not write.

    Parameters
    ----------
    mark
        What all of fedballot's files of this kind hold: pages and pictures its name, a table in JSON one of its keys.

    Raises
    ------
    SettingsError
        Naming the file.
    """
    if path.is_file() and mark.encode() not in path.read_bytes():
        raise SettingsError(f"--out {path}: is there already and is none of fedballot's files; name another")


def check_folder(path: Path) -> None:
    """Refuse a file whose folder is not there: a mistyped path must not become folders.

    Raises
    ------
    SettingsError
        With the command that makes it.
    """
    if not path.parent.is_dir():
        folder = shlex.quote(str(path.parent))
        raise SettingsError(f"--out {path}: there is no folder {folder}; make it with: mkdir -p {folder}")


def check_writable(folder: Path) -> None:
    """Refuse a folder, there or to be made, in which nothing can be written: no right to, no room, no such disk.

    Raises
    ------
    SettingsError
        Naming the folder and what is wrong.
    """
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=place) as probe:
            probe.write(bytes(PROBE_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        raise SettingsError(f"--out {folder}: cannot be written: {error.strerror}; name another folder") from error


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sync_folder(path: Path) -> None:
    """Have the names in a folder survive a power cut."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_json(path: Path, value: Any) -> None:
    """``value`` as indented UTF-8 JSON; NaN and infinities are refused with ValueError."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomic(path, lambda stream: stream.write(text.encode()))


def read_json(path: Path) -> Any:
    """The value in a JSON file.

    Raises
    ------
    DataError
        If the file is missing, unreadable or not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise DataError(f"{path}: not valid JSON ({error}); the file is damaged or of another kind") from error


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]], *, mode: int = 0o666) -> None:
    """Arrays as a compressed ``.npz``, no pickle."""
    write_atomic(path, lambda stream: np.savez_compressed(stream, allow_pickle=False, **arrays), mode=mode)


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an ``.npz``.

    Raises
    ------
    DataError
        If the file is missing, truncated or holds anything but plain arrays.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except Exception as error:  # numpy and zipfile raise many kinds for a damaged file
        raise DataError(f"{path}: not a whole .npz file ({error})") from error

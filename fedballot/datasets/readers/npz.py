"""Reading a user's .npz file."""

import zipfile
import zlib
from pathlib import Path

import numpy as np

from fedballot.core.errors import DataError
from fedballot.datasets.checks import check_lengths, checked_x, label_texts
from fedballot.datasets.examples import Array
from fedballot.datasets.readers.raw import Raw

_EXPECTED = "keys x, y or x_train, y_train, x_test, y_test, and optionally groups"


def read_npz(path: Path, person: str = "", labels: bool = True) -> Raw:
    """Read `x, y`, or `x_train, y_train, x_test, y_test`, and optionally `groups` (of the training rows).

    With ``person``, the key of that name says whose record each training row is. Without ``labels``, a key `y` may
    lack: labels are empty then.

    Raises
    ------
    DataError
        Not a readable .npz, object arrays (they would be unpickled), a missing key, or bad content.
    """
    arrays = read_arrays(path)
    split = "x_train" in arrays or "y_train" in arrays
    x, words = _pair(arrays, path, "_train" if split else "", labels)
    groups = None
    if "groups" in arrays:
        groups = label_texts(arrays["groups"], f"{path}: key groups")
        check_lengths(len(x), len(groups), f"{path}: key groups")
    persons = None
    if person:
        if person not in arrays:
            raise DataError(f"{path}: no key {person!r} with the persons, found {', '.join(sorted(arrays))}")
        persons = label_texts(arrays[person], f"{path}: key {person}")
        check_lengths(len(x), len(persons), f"{path}: key {person}")
    test = None
    if split and (labels or "x_test" in arrays):
        test = _pair(arrays, path, "_test", labels)
        if test[0].shape[1:] != x.shape[1:]:
            raise DataError(
                f"{path}: x_test has rows of shape {test[0].shape[1:]}, x_train of {x.shape[1:]}; expected the same"
            )
    return Raw(x, words, groups, test=test, persons=persons)


def read_arrays(path: Path) -> dict[str, Array]:
    """All arrays of an .npz file; object arrays are refused.

    Raises
    ------
    DataError
        Missing, truncated or damaged file, no .npz file, or an array that needs pickle.
    """
    try:
        archive = np.load(path, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise DataError(f"{path}: a single array; expected an archive written by numpy.savez ({_EXPECTED})")
        with archive:
            return {key: archive[key] for key in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise DataError(
            f"{path}: cannot be read as .npz ({error}); expected a complete file written by numpy.savez without "
            "object arrays"
        ) from error


def _pair(arrays: dict[str, Array], path: Path, suffix: str, labels: bool) -> tuple[Array, Array]:
    for key in (f"x{suffix}", f"y{suffix}"):
        if key not in arrays and (labels or key.startswith("x")):
            raise DataError(
                f"{path}: no key {key!r}, found {', '.join(sorted(arrays)) or 'none'}; expected {_EXPECTED}"
            )
    x = checked_x(arrays[f"x{suffix}"], f"{path}: key x{suffix}")
    if f"y{suffix}" not in arrays:
        return x, np.full(len(x), "")
    words = label_texts(arrays[f"y{suffix}"], f"{path}: key y{suffix}")
    check_lengths(len(x), len(words), f"{path}: key y{suffix}")
    return x, words

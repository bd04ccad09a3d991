"""Reading FEMNIST as LEAF writes it: JSON files with the images of some writers each."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError
from fedballot.datasets.readers.raw import Raw

_SIDE = 28
_LABELS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_EXPECTED = "LEAF's FEMNIST: an object with 'users' and 'user_data', each user with 'x' (rows of 784) and 'y'"


def read_leaf(path: Path) -> Raw:
    """Read one file, or all `*.json` of a folder; the writer is the natural id of a record.

    LEAF stores dark ink on white as numbers from 0 to 1; here ink is bright on black, as in MNIST. Labels are the
    characters: digits, capitals, small letters.

    Raises
    ------
    DataError
        No such file, not LEAF's format, or an image or label out of range.
    """
    paths = sorted(path.glob("*.json")) if path.is_dir() else [path]
    images: list[NDArray[np.uint8]] = []
    labels: list[str] = []
    writers: list[str] = []
    for file in paths:
        for user, data in _users(file):
            x, y = _records(file, user, data)
            images.append(x)
            labels += [_LABELS[label] for label in y]
            writers += [user] * len(y)
    if not labels:
        raise DataError(f"{path}: holds no records; expected {_EXPECTED}")
    return Raw(np.concatenate(images), np.array(labels), np.array(writers))


def _users(file: Path) -> list[tuple[str, Any]]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return [(str(user), content["user_data"][user]) for user in content["users"]]
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror})") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{file}: {type(error).__name__} {error}; expected {_EXPECTED}") from error


def _records(file: Path, user: str, data: Any) -> tuple[NDArray[np.uint8], list[int]]:
    where = f"{file}: user {user}"
    try:
        x, y = np.asarray(data["x"], dtype=np.float64), [int(label) for label in data["y"]]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{where}: {type(error).__name__} {error}; expected {_EXPECTED}") from error
    if not y:
        return np.zeros((0, _SIDE, _SIDE), np.uint8), y
    if x.shape != (len(y), _SIDE * _SIDE):
        raise DataError(f"{where}: images of shape {x.shape} for {len(y)} labels; expected rows of {_SIDE * _SIDE}")
    bad = np.flatnonzero(~((x >= 0) & (x <= 1)).all(axis=1))
    if len(bad):
        raise DataError(f"{where}: image {bad[0]} has a value outside 0..1; expected grey levels from 0 to 1")
    wrong = [row for row, label in enumerate(y) if not 0 <= label < len(_LABELS)]
    if wrong:
        raise DataError(f"{where}: label {wrong[0]} is {y[wrong[0]]}; expected 0 to {len(_LABELS) - 1}")
    return np.rint(255 * (1 - x)).astype(np.uint8).reshape(-1, _SIDE, _SIDE), y

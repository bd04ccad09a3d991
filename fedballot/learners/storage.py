"""Reading saved learners: what is damaged or foreign is refused with the file's name."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError

if TYPE_CHECKING:
    from fedballot.learners.base import Learner


def read_bytes(path: Path) -> bytes:
    """Content of a saved learner.

    Raises
    ------
    DataError
        If it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot read the saved learner ({error.strerror or error})") from error


def check_owner(path: Path, description: Mapping[str, object], expected: Mapping[str, str]) -> None:
    """Refuse a file that another kind of learner has written; both mappings describe a learner.

    Raises
    ------
    DataError
        For the first key whose values differ.
    """
    for key, value in expected.items():
        if description.get(key) != value:
            raise DataError(
                f"{path}: saved by a learner whose {key} is {description.get(key, 'missing')}, but this one has {value}"
            )


def to_array(learner: "Learner") -> NDArray[np.uint8]:
    """The file of a trained learner as an array (n,), for a server's checkpoint."""
    with tempfile.TemporaryDirectory(prefix="fedballot-") as scratch:
        path = Path(scratch) / "learner"
        learner.save(path)
        return np.frombuffer(path.read_bytes(), dtype=np.uint8)


def from_array(learner: "Learner", content: NDArray[np.uint8]) -> "Learner":
    """Give a learner of the same kind the state that :func:`to_array` has taken.

    Raises
    ------
    DataError
        If the content is damaged, or of another learner.
    """
    with tempfile.TemporaryDirectory(prefix="fedballot-") as scratch:
        path = Path(scratch) / "learner"
        path.write_bytes(content.tobytes())
        return learner.load(path)

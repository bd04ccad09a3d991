"""Reading saved learners: what is damaged or foreign is refused with the file's name."""

from collections.abc import Mapping
from pathlib import Path

from fedballot.core.errors import DataError


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


def check_owner(path: Path, found: Mapping[str, object], expected: Mapping[str, str]) -> None:
    """Refuse a file that another kind of learner has written; both mappings describe a learner.

    Raises
    ------
    DataError
        For the first key whose values differ.
    """
    for key, value in expected.items():
        if found.get(key) != value:
            raise DataError(
                f"{path}: saved by a learner whose {key} is {found.get(key, 'missing')}, but this one has {value}"
            )

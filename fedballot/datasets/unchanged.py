"""What was made of files, for as long as they are the same: a notebook that mends its file reads it anew."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

from fedballot.core.files import with_home

P = ParamSpec("P")
R = TypeVar("R")
State = tuple[tuple[str, int, int, int], ...]


class WhileUnchanged(Generic[P, R]):
    """``lru_cache``, but a result is given again only while ``state`` of the arguments is what it was."""

    def __init__(self, function: Callable[P, R], state: Callable[P, State], maxsize: int) -> None:
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self._state = state
        self._cached: Any = lru_cache(maxsize=maxsize)(lambda _, *args, **words: function(*args, **words))

    def __call__(self, *args: P.args, **words: P.kwargs) -> R:
        result: R = self._cached(self._state(*args, **words), *args, **words)
        return result

    def cache_clear(self) -> None:
        """Forget all results."""
        self._cached.cache_clear()


def while_unchanged(state: Callable[P, State], maxsize: int) -> Callable[[Callable[P, R]], WhileUnchanged[P, R]]:
    """The decorator of :class:`WhileUnchanged`."""
    return lambda function: WhileUnchanged(function, state, maxsize)


def stat_of(path: Path, name: str) -> tuple[str, int, int, int]:
    """By which a file is known to be unchanged without reading it: its size, time and place on the disk."""
    stat = path.stat()
    return name, stat.st_size, stat.st_mtime_ns, stat.st_ino


def state_of(names: Iterable[str]) -> State:
    """Where the files lie that a data set's name or pattern means, their sizes and times; of folders those inside too.

    What is no path, or is not there, has none; an image written over in place is not noticed.
    """
    found: list[tuple[str, int, int, int]] = []
    for name in filter(None, names):
        path = with_home(name).absolute()
        paths = [path] if path.exists() else [Path(one) for one in glob.glob(str(path), recursive=True)]
        inside = [one for path in paths if path.is_dir() for one in path.iterdir()]
        found += [stat_of(one, str(one)) for one in (*paths, *inside)]
    return tuple(sorted(found))

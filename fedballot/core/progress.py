"""Progress of long work, told to whoever watches: a bar on a terminal, log lines in a deployment, or nobody."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

logger = logging.getLogger("fedballot")


class Progress(Protocol):
    """One stage at a time: ``start``, then ``advance`` up to the total, then the next ``start`` or ``stop``.

    ``note`` is a line beside it, such as which run of a study begins.
    """

    def start(self, label: str, total: int) -> None: ...

    def advance(self, steps: int = 1) -> None: ...

    def note(self, words: str) -> None: ...

    def stop(self) -> None: ...


class LogProgress:
    """A log line at the start of each stage and then at most every ``every_s`` seconds, with the time left."""

    def __init__(self, every_s: float = 10.0) -> None:
        self._every_s = every_s
        self._label, self._total, self._done, self._first = "", 0, 0, 0
        self._began = self._told = 0.0

    def start(self, label: str, total: int) -> None:
        self._label, self._total, self._done = label, total, 0
        self._began = self._told = time.monotonic()
        self._tell(f"{label}: 0 of {total}")

    def advance(self, steps: int = 1) -> None:
        now = time.monotonic()
        if self._done == 0:  # what comes before the first answer is start-up, not pace
            self._began, self._first = now, steps
        self._done += steps
        if self._done < self._total and now - self._told < self._every_s:
            return
        self._told = now
        paced = self._done - self._first
        left = (now - self._began) / paced * (self._total - self._done) if paced else float("nan")
        self._tell(f"{self._label}: {self._done} of {self._total}" + (f", {left:.0f} s left" if paced else ""))

    def note(self, words: str) -> None:
        self._tell(words)

    def stop(self) -> None:
        pass

    def _tell(self, text: str) -> None:
        logger.info("%s", text)


class Silent:
    """Nobody watches."""

    def start(self, label: str, total: int) -> None:
        pass

    def advance(self, steps: int = 1) -> None:
        pass

    def note(self, words: str) -> None:
        pass

    def stop(self) -> None:
        pass


_WATCHER: ContextVar[Progress | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(progress: Progress) -> Iterator[None]:
    """Have ``progress`` told of long work that gets none as an argument, such as the reading of data."""
    token = _WATCHER.set(progress)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def watcher() -> Progress:
    """Whom :func:`watched` has named; else the log."""
    return _WATCHER.get() or LogProgress()

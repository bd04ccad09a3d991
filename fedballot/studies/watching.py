"""What a study of many runs says while it works: which run of how many, and the time left."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from fedballot.core import numbers
from fedballot.core.progress import Progress
from fedballot.studies.sweep import WAS_DONE, Point


class Watch:
    """Tells a progress of each run that begins and ends; several threads may.

    Parameters
    ----------
    progress
        Who is told.
    total
        How many runs there are.
    jobs
        Runs at a time.
    """

    def __init__(self, progress: Progress, total: int, jobs: int) -> None:
        self._progress, self._total, self._jobs = progress, total, jobs
        self._numbered = self._timed = 0
        self._worked_s = 0.0
        self._began: dict[Path, float] = {}
        self._lock = threading.Lock()
        progress.start("runs", total)

    def begin(self, point: Point) -> None:
        """A run begins."""
        with self._lock:
            self._numbered += 1
            self._began[point.folder] = time.monotonic()
            left = self._left()
            self._progress.note(f"run {self._numbered} of {self._total}: {point.folder.name}{left}")

    def end(self, point: Point, outcome: str) -> None:
        """A run ended, or was done before."""
        with self._lock:
            if outcome == WAS_DONE:
                self._numbered += 1
            else:
                self._timed += 1
                self._worked_s += time.monotonic() - self._began.pop(point.folder)
            self._progress.note(point.told(outcome))
            self._progress.advance()

    def _left(self) -> str:
        """From the mean of the runs so far; nothing before the first is done."""
        if not self._timed:
            return ""
        runs = self._total - self._numbered + 1
        return f", about {numbers.seconds(self._worked_s / self._timed * runs / self._jobs)} left"

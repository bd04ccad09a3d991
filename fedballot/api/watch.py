"""Progress for people: a bar with the time left on a terminal or in a notebook, lines elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console

from fedballot.core.progress import LogProgress, Progress, Silent

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

err = Console(stderr=True, highlight=False, emoji=False)  # a path such as module:x: is no emoji


class Bars:
    """A progress bar with the time left, one per stage."""

    def __init__(self) -> None:
        self._bars: RichProgress | None = None
        self._task: Any = None

    def start(self, label: str, total: int) -> None:
        from rich import progress

        if self._bars is None:
            self._bars = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TimeElapsedColumn(),
                progress.TextColumn("left"),
                progress.TimeRemainingColumn(),
                console=err,
            )
            self._bars.start()
        self._task = self._bars.add_task(label, total=total)

    def advance(self, steps: int = 1) -> None:
        if self._bars is not None:
            self._bars.advance(self._task, steps)

    def note(self, words: str) -> None:
        err.print(words, soft_wrap=True, markup=False)

    def stop(self) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None


class Lines(LogProgress):
    """Progress as plain lines, for a log file or a pipe."""

    def _tell(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def listener(progress: bool | Progress) -> Progress:
    """Who is told of progress: people if true, nobody if false, or whoever is given."""
    return watcher(quiet=not progress) if isinstance(progress, bool) else progress


def watcher(*, quiet: bool) -> Progress:
    """A bar on a terminal or in a notebook, lines elsewhere, nothing if ``quiet``."""
    if quiet:
        return Silent()
    return Bars() if err.is_terminal or err.is_jupyter else Lines()

"""Tables on stdout, progress and words on stderr."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from fedballot.core import numbers
from fedballot.core.progress import LogProgress, Silent
from fedballot.core.progress import Progress as ProgressProtocol
from fedballot.privacy.words import tone, whom

if TYPE_CHECKING:
    from rich.progress import Progress

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)
STOPPED = 130  # the exit code that shells know for Ctrl-C


class Bars:
    """A progress bar with the time left, one per stage."""

    def __init__(self) -> None:
        self._bars: Progress | None = None
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

    def stop(self) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None


class Lines(LogProgress):
    """Progress as plain lines, for a log file or a pipe."""

    def _tell(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def watcher(*, quiet: bool) -> ProgressProtocol:
    """A bar on a terminal, lines elsewhere, nothing if ``quiet``."""
    if quiet:
        return Silent()
    return Bars() if err.is_terminal else Lines()


_COLOURS = {"good": "green", "warn": "yellow", "bad": "red"}


def toned(words: str, guarantee: Mapping[str, Any]) -> str:
    """Words in the colour of a guarantee, as a result holds it; they must hold no brackets."""
    return f"[{_COLOURS[tone(guarantee)]}]{words}[/]"


def print_guarantees(title: str, guarantees: Sequence[Mapping[str, Any]]) -> None:
    """Guarantees, as a result holds them, with all that an epsilon speaks of."""
    columns = ("protects", "ε", "δ", "against", "trust", "status", "accountant")
    rows = [
        [
            whom(one).replace(" (", "\n("),
            numbers.epsilon(one["epsilon"]),
            numbers.delta(one["delta"]),
            one["view"],
            one["trust"],
            toned(one["status"], one),
            one["accountant"],
        ]
        for one in guarantees
    ]
    print_table(title, columns, rows)


def print_json(value: Any) -> None:
    """``value`` as JSON on stdout."""
    json.dump(value, sys.stdout, indent=1, ensure_ascii=False, default=str)
    sys.stdout.write("\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout; words wrap, nothing is cut."""
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", show_lines=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    out.print(table)


def end(code: int) -> None:
    """End with this exit code, whatever still waits: where Ray died, Flower's server waits for its answers."""
    if any(not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate()):
        leave(code)
    sys.exit(code)


def leave(code: int) -> None:
    """End at once: after an interrupt, Flower's server thread still waits for answers that will not come."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

"""Tables on stdout, progress and words on stderr."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.markup import escape

from fedballot.api.watch import err, watcher
from fedballot.core import numbers
from fedballot.core.progress import Progress
from fedballot.privacy.words import tone, whom

out = Console(highlight=False, emoji=False)
__all__ = [
    "STOPPED",
    "end",
    "err",
    "leave",
    "out",
    "print_guarantees",
    "print_json",
    "print_table",
    "stop",
    "toned",
    "warn",
    "watcher",
    "watching",
]
STOPPED = 130  # the exit code that shells know for Ctrl-C
CARDS = 110  # columns of a terminal below which a table that does not fit becomes cards
WIDEST = 10_000


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


@contextmanager
def watching(label: str) -> Iterator[Progress]:
    """Progress that says at once what is being done, and stops where that fails."""
    progress = watcher(quiet=False)
    progress.start(label, 1)
    try:
        yield progress
    finally:
        progress.stop()


def warn(*sentences: str) -> None:
    """What a user should know, on stderr."""
    for sentence in sentences:
        err.print(f"[yellow]warning:[/yellow] {escape(sentence)}", soft_wrap=True)


def print_json(value: Any) -> None:
    """``value`` as JSON on stdout."""
    json.dump(value, sys.stdout, indent=1, ensure_ascii=False, default=str)
    sys.stdout.write("\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout; where it is too narrow for one, a card for each row. Words wrap, and none is cut.

    Parameters
    ----------
    columns
        Two empty names: rows are names and values.
    """
    from rich.measure import Measurement
    from rich.table import Table

    named = any(columns)
    table = Table(title=title or None, title_justify="left", show_lines=False, show_header=named)
    for place, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=place == 0 and not named)
    for row in rows:
        table.add_row(*row)
    size = Measurement.get(out, out.options.update(max_width=WIDEST), table)
    if named and (size.minimum > out.width or (out.width < CARDS and size.maximum > out.width)):
        _print_cards(title, columns, rows)
    else:
        out.print(table)


def _print_cards(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.padding import Padding
    from rich.table import Table

    if title:
        out.print(f"[italic]{title}[/]")
    for row in rows:
        out.print(f"[bold]{' '.join(row[0].split())}[/]")
        card = Table.grid(padding=(0, 2, 0, 0))
        card.add_column(no_wrap=True, style="dim")
        card.add_column(overflow="fold")
        for column, cell in zip(columns[1:], row[1:], strict=True):
            if cell:
                card.add_row(column, cell)
        out.print(Padding(card, (0, 0, 0, 2)))


def end(code: int) -> None:
    """End with this exit code, whatever still waits: where Ray died, Flower's server waits for its answers."""
    if any(not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate()):
        leave(code)
    sys.exit(code)


def stop(command: str = "", folder: Path | None = None) -> NoReturn:
    """End as Ctrl-C does.

    Parameters
    ----------
    command
        What does the run that was under way; empty: there is nothing to go on with.
    folder
        Of that run: it is taken up where it has begun.
    """
    from fedballot.core.folders import holds_run  # loads NumPy

    begun = folder is not None and holds_run(folder)
    words = f"; go on with: {command}{' --resume' if begun else ''}" if command else ""
    err.print(f"stopped{escape(words)}", soft_wrap=True)
    leave(STOPPED)


def leave(code: int) -> NoReturn:
    """End at once: after an interrupt, Flower's server thread still waits for answers that will not come."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

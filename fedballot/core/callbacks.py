"""Who is told what a run does: its start, each round, and its end. A tracker of experiments is one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Record = Mapping[str, Any]


class Callback:
    """Listens to runs; override what is of interest.

    It gets what ``result.json`` holds (``docs/result.md``) and nothing else. One that raises is warned about once and
    not called again in that run, which goes on.
    """

    def run_started(self, folder: Path, result: Record) -> None:
        """Before the first client is asked: settings, seed, data, versions, and ``guarantees`` as planned.

        A run that is taken up starts anew, and tells the rounds that were done before.
        """

    def round_ended(self, number: int, record: Record) -> None:
        """A round (from 1) is done: its entry of ``rounds``; what is measured at the end of the run is not in it."""

    def run_ended(self, folder: Path, result: Record) -> None:
        """The run is done, and its page is written."""

    def run_failed(self, folder: Path, result: Record) -> None:
        """The run failed or was stopped, as ``status`` says; ``error`` says why."""


class Callbacks(Callback):
    """Several callbacks as one that never raises.

    Parameters
    ----------
    callbacks
        Those that are called, in this order.
    warn
        Gets one sentence for each that raised and is dropped.
    """

    def __init__(self, callbacks: Sequence[Callback] = (), warn: Callable[[str], None] | None = None) -> None:
        self._left, self._warn = list(callbacks), warn or _warn

    def run_started(self, folder: Path, result: Record) -> None:
        self._tell(lambda one: one.run_started(folder, result))

    def round_ended(self, number: int, record: Record) -> None:
        self._tell(lambda one: one.round_ended(number, record))

    def run_ended(self, folder: Path, result: Record) -> None:
        self._tell(lambda one: one.run_ended(folder, result))

    def run_failed(self, folder: Path, result: Record) -> None:
        self._tell(lambda one: one.run_failed(folder, result))

    def _tell(self, say: Callable[[Callback], None]) -> None:
        for one in list(self._left):
            try:
                say(one)
            except Exception as error:
                self._left.remove(one)
                self._warn(f"{type(one).__name__} is dropped, the run goes on: {type(error).__name__}: {error}")


def _warn(words: str) -> None:
    with warnings.catch_warnings():  # a simulation silences those of libraries
        warnings.simplefilter("always")
        warnings.warn(words, RuntimeWarning, stacklevel=2)

"""The inside of ``studies/runner.py``: a line of JSON on stdin is a run, a line on stdout is what became of it."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from fedballot.api.experiment import carry_out, resolve
from fedballot.api.trackers import trackers
from fedballot.cli import terminal
from fedballot.core.callbacks import Callbacks
from fedballot.core.errors import FedballotError
from fedballot.core.folders import holds_run
from fedballot.core.progress import Silent
from fedballot.runs.workers import Workers
from fedballot.studies.runner import DONE


def main() -> None:
    """Carry out runs until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: whoever started this process stops its run
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers, Workers(1) as workers:
        os.dup2(2, 1)  # what libraries print is no answer
        for line in sys.stdin:
            print(json.dumps(outcome(json.loads(line), workers)), file=answers, flush=True)


def outcome(request: dict[str, Any], workers: Workers) -> str:
    """Carry out a run: ``DONE`` and what became of trackers, or why it failed."""
    warnings: list[str] = []
    out, config = Path(request["out"]), request["config"]
    resume = holds_run(out)
    try:
        settings = resolve(
            request["method"],
            request["values"],
            request["preset"],
            None if config is None else Path(config),
            out,
            resume,
        )
        told = Callbacks(trackers(request["track"]), warnings.append)
        carry_out(
            request["method"],
            settings,
            out,
            resume=resume,
            progress=Silent(),
            workers=workers,
            callbacks=told,
            preset=request["preset"],
        )
    except (FedballotError, OSError) as error:
        return str(error)
    return "; ".join([DONE, *warnings])


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        terminal.leave(terminal.STOPPED)

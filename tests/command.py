"""The command line as it is typed, in this process: a new one imports for seconds what is here already."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

from fedballot.cli import terminal
from fedballot.cli.main import main


def fedballot(*words: object, width: int = 160, cwd: Path | None = None) -> CompletedProcess[str]:
    """Exit code, stdout and stderr of ``fedballot WORDS`` in a terminal that is so wide."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    code: object = None
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(cwd or Path.cwd()))
        stack.enter_context(mock.patch.dict(os.environ, COLUMNS=str(width)))
        stack.enter_context(mock.patch.object(sys, "argv", ["fedballot", *map(str, words)]))
        for console in (terminal.out, terminal.err):  # they took their width when they were imported
            stack.callback(setattr, console, "width", console.width)
            console.width = width
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        try:
            main()
        except SystemExit as ending:
            code = ending.code
    said, told = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    return CompletedProcess(words, int(code) if isinstance(code, int) else bool(code), said, told)

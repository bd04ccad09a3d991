"""A process that carries out one run of a study after the other; ``cli/runner.py`` is its inside."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from fedballot.studies.sweep import Point, Shared

DONE = "done"
STOP_S = 30.0  # how long a run may take to say in its folder that it was stopped


def request_of(point: Point, shared: Shared) -> dict[str, Any]:
    """What the process is told of a run: plain values, for JSON."""
    return {
        "method": shared.method,
        "preset": shared.preset,
        "config": None if shared.config is None else str(shared.config),
        "values": {**shared.values, **point.values},
        "out": str(point.folder),
        "track": shared.track,
    }


class Runner:
    """The process, started when there is something to run, and anew where it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.communicate()
        self._errors.close()

    def run(self, point: Point, shared: Shared) -> str:
        """``DONE``, and which trackers were dropped; or why the run of a point failed."""
        if self._process is None or self._process.poll() is not None:
            self._errors.seek(0)
            self._errors.truncate()  # what another process said before
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fedballot.cli.runner"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                encoding="utf-8",
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            print(json.dumps(request_of(point, shared)), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        return str(json.loads(answer)) if answer else self._last_words()

    def stop(self) -> None:
        """Stop the run that is going on, as SIGTERM does: ``--resume`` can take it up."""
        self._stopped = True
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()

    def _last_words(self) -> str:
        """Of a process that has ended without an answer."""
        assert self._process is not None
        code = self._process.wait()
        if self._stopped:
            return "stopped"
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return f"its process ended: exit code {code}" + (f" ({' '.join(lines[-3:])})" if lines else "")

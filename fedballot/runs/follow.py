"""Progress of a deployed run, as lines in a file of its folder: whoever submitted the run follows them."""

from __future__ import annotations

import json
import time
from pathlib import Path

from fedballot.core.progress import LogProgress, Progress

PROGRESS_FILE = "progress.jsonl"


class FileProgress(LogProgress):
    """Log lines as :class:`LogProgress`, and each step as a JSON line: a stage's label, size and time, or steps."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def start(self, label: str, total: int) -> None:
        super().start(label, total)
        self._write({"label": label, "total": total, "at": time.time()})

    def advance(self, steps: int = 1) -> None:
        super().advance(steps)
        self._write({"steps": steps})

    def _write(self, event: dict[str, str | float]) -> None:
        # one short write in append mode: lines of several threads do not mix
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(event) + "\n")


def size(path: Path) -> int:
    """Bytes of a file; 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


class Follower:
    """Passes on what :class:`FileProgress` writes.

    Parameters
    ----------
    path
        The file, which need not be there yet.
    progress
        Who is told.
    offset
        Where to begin, in bytes: the file's size before the run; None for its size now.
    """

    def __init__(self, path: Path, progress: Progress, offset: int | None = None) -> None:
        self._path, self._progress = path, progress
        self._offset = size(path) if offset is None else offset

    def look(self) -> None:
        """Pass on the whole lines that have come since the last look."""
        if not self._path.exists():
            return
        with self._path.open("rb") as stream:
            stream.seek(self._offset)
            text = stream.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            event = json.loads(line)
            if "label" in event:
                self._progress.start(event["label"], event["total"])
            else:
                self._progress.advance(event["steps"])

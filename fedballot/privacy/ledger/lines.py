"""A ledger's lines on disk: one JSON object each, chained by the hash of the one before.

The chain shows edits and losses. Each line has a random salt, so a hash tells nothing but that a chain holds it.
"""

import hashlib
import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedballot.core.errors import DataError

Line = Mapping[str, Any]

FORMAT = 3  # a ledger of another format is refused, never guessed at
_START = "0" * 64


def parse(path: Path, content: bytes) -> tuple[Line, ...]:
    """Return all lines, verified; `path` is for the messages.

    Raises
    ------
    DataError
        If the file is torn or edited, or of another format; names the line.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise broken(path, 0, "is not text") from error
    previous, lines = _START, []
    for number, raw in enumerate(text.splitlines(), start=1):
        try:
            body = json.loads(raw)
            digest = body.pop("hash")
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise broken(path, number, "is not a ledger line") from error
        if digest != _hash(previous, body):
            raise broken(path, number, "does not follow from the line before it")
        previous = digest
        lines.append({**body, "hash": digest})
    if not text.endswith("\n") or not lines or lines[0].get("kind") != "open":
        raise broken(path, len(lines), "is torn, or the beginning is missing")
    if lines[0].get("format") != FORMAT:
        raise DataError(
            f"{path}: format {lines[0].get('format', 1)}, but this version writes and reads {FORMAT}. What it "
            "holds is spent: read it with the version that wrote it, and lower the new ledger's budget by that."
        )
    return tuple(lines)


def make_line(previous: Line | None, body: Line) -> Line:
    """Return the line that follows another one (None: the first)."""
    # salted: else a head would tell whoever guesses what the lines say
    line = {**body, "time": datetime.now(UTC).isoformat(timespec="seconds"), "salt": secrets.token_hex(16)}
    return {**line, "hash": _hash(previous["hash"] if previous else _START, line)}


def write_line(line: Line) -> bytes:
    """Return a line as it stands in the file."""
    return (json.dumps(line) + "\n").encode()


def broken(path: Path, number: int, what: str) -> DataError:
    """Return the error of a ledger that must not be used any more."""
    return DataError(
        f"{path}, line {number}: {what}. The ledger was cut or edited, so spending may be unknown; nothing "
        "more is released. Restore the newest backup, or retire the data set."
    )


def _hash(previous: str, body: Line) -> str:
    return hashlib.sha256((previous + json.dumps(body, sort_keys=True)).encode()).hexdigest()

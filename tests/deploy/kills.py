"""Processes that die as by ``kill -9``, in one process: at a chosen write to disk, and from then on nothing is written.

An audit hook sees each file before it is opened for writing, moved or removed. The error that it raises is no
``Exception``, so that no handler takes it for a fault of the work; blocks that clean up find the disk closed, too.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR
TEMPORARY = re.compile(r"^\.(.+)\.[0-9a-f]{16}$")  # as fedballot.core.files names them
BEFORE, WRITTEN, REPLACED = "before the temporary file", "before it takes its place", "after it took its place"
PHASES = (BEFORE, WRITTEN, REPLACED)
# of which files, "": of any; the first where a site answers with what it makes of its records, EARLY elsewhere
AT_SITES = ("", "", "charge", "release", "release", "ledger release", "keys", "model")
EARLY = ("", "", "ledger", "keys")
AT_SERVERS = ("", "checkpoint", "checkpoint", "result")


class Killed(BaseException):
    """The process that is at work has died."""


@dataclass
class Doom:
    """When a process dies: the ``nth`` time that a file of a kind is in a phase of its writing."""

    kind: str
    phase: str
    nth: int
    torn: bool = False  # whether the file that is open then is left half written


@dataclass
class Life:
    """A process: its doom, if it has one, and whether that has come."""

    doom: Doom | None
    dead: bool = False
    replaced: str = ""  # what has just been put in its place, if the process dies by that


@dataclass
class Reaper:
    """Kills whoever works under ``root``, and counts where."""

    root: Path
    lives: list[Life] = field(default_factory=list)
    places: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def life(self, doom: Doom | None) -> Iterator[None]:
        """Around all that one process does; the innermost is at work."""
        self.lives.append(Life(doom))
        _active.append(self)
        try:
            yield
        finally:
            self.lives.pop()
            _active.pop()

    def die(self, place: str) -> None:
        """Kill the process at work."""
        self.lives[-1].dead = True
        self.places[place] += 1
        raise Killed(place)

    def see(self, event: str, path: Path, writes: bool) -> None:
        """What is about to happen to a file."""
        life = self.lives[-1]
        if life.replaced and not life.dead:
            self.die(f"{life.replaced}, {REPLACED}")
        if not writes:
            return
        if life.dead:
            raise Killed("dead already")
        doom, kind = life.doom, kind_of(path, event)
        if doom is None or doom.kind not in ("", kind, kind.partition(" ")[0], kind.rpartition(" ")[2]):
            return
        temporary = TEMPORARY.match(path.name) is not None
        phase = WRITTEN if event == "os.rename" else BEFORE
        if doom.phase != phase and not (doom.phase == REPLACED and phase == WRITTEN):
            return
        doom.nth -= 1
        if doom.nth > 0:
            return
        if doom.phase == REPLACED:
            life.replaced = kind
            return
        if doom.torn and phase == WRITTEN:
            os.truncate(path, path.stat().st_size // 2)
        elif doom.torn and event == "open" and not temporary and not path.exists() and "lock" not in path.name:
            os.close(os.open(path, os.O_CREAT | os.O_RDONLY, 0o600))
        self.die(f"{kind}, {phase}" if temporary else f"{kind}, as it is opened or removed")


def kind_of(path: Path, event: str) -> str:
    """What a file is, in a word or two; a ledger's last line is part of it once it is written."""
    match = TEMPORARY.match(path.name)
    name = match[1] if match else path.name
    if name == "ledger.jsonl":
        return f"ledger {json.loads(path.read_bytes().splitlines()[-1])['kind']}" if event == "os.rename" else "ledger"
    if name.endswith((".pending.npz", ".opened.npz")):
        return "keys"
    if path.parent.name == "releases":
        return "release"
    known = {"checkpoint.npz": "checkpoint", "exchange.npz": "checkpoint", "ledgers.json": "head at the site"}
    known |= {"result.json": "result", "run.json": "run", "ledger-heads.json": "heads at the server"}
    return known.get(name, "model" if "model" in name else "lock" if "lock" in name else "other file")


_active: list[Reaper] = []


@cache
def watch() -> None:
    """Begin to look at this process's files; an audit hook cannot be taken back, so there is one for all tests."""

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if not _active or event not in ("open", "os.rename", "os.remove"):
            return
        reaper, name = _active[-1], arguments[0]
        if not isinstance(name, str | os.PathLike) or not str(name).startswith(str(reaper.root)):
            return
        _active.append(QUIET)  # what is done here is nobody's work
        try:
            reaper.see(event, Path(name), event != "open" or bool(arguments[2] & WRITING))
        finally:
            _active.pop()

    sys.addaudithook(look)


QUIET = Reaper(Path("/nothing/lies/here"))

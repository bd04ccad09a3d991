"""Stored rows of the results pages: what each ran, what that takes, what came out, and what is published beside it."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from fedballot.core.errors import SettingsError
from fedballot.core.numbers import is_whole
from fedballot.core.setting import unknown_name
from fedballot.studies.sweep import SEED, Point, Row, Shared, points_of

WIDE = 2.0  # spreads that two means may lie apart and still be called alike


@dataclass(frozen=True)
class StoredRow:
    """One row of a results page.

    Attributes
    ----------
    name : of the row.
    about : what is measured, in a line.
    method, preset, settings : what runs; settings as texts.
    seeds : runs, with the seeds 0, 1, ….
    minutes : of one run on two cores; None: not measured.
    memory_gb : of the largest process, in 10⁹ bytes; None: not measured.
    page : in ``docs/``, where the row stands.
    published : accuracies in per cent that it is compared with, by who has them.
    accuracy, spread : measured, in per cent: mean and standard deviation over the seeds; None: not stored yet.
    """

    name: str
    about: str
    method: str
    seeds: int
    page: str
    minutes: float | None = None
    memory_gb: float | None = None
    preset: str | None = None
    settings: Mapping[str, str] | None = None
    published: Mapping[str, float] | None = None
    accuracy: float | None = None
    spread: float | None = None

    @property
    def shared(self) -> Shared:
        """What all its runs have in common."""
        return Shared(self.method, self.preset, None, dict(self.settings or {}))

    def points(self, seeds: int, out: Path) -> list[Point]:
        """Its runs with the first ``seeds`` seeds, each in a folder under ``out``."""
        return points_of({SEED: [str(seed) for seed in range(seeds)]}, out)


@dataclass(frozen=True)
class Difference:
    """How a measured row differs from the stored one, in points of per cent.

    Attributes
    ----------
    points : measured less stored.
    allowed : twice the spread of a difference of two runs, from the spreads of both rows, or of the one that has one.
    """

    points: float
    allowed: float

    @property
    def within(self) -> bool:
        """Whether the seeds' spread explains it."""
        return abs(self.points) <= self.allowed + 0.05  # stored to a tenth

    def sentence(self) -> str:
        """In words."""
        words = "within the seeds' spread" if self.within else "more than the seeds' spread explains"
        return f"{self.points:+.1f} points against the stored row: {words} (±{self.allowed:.1f})".replace("-", "−")


def difference(stored: StoredRow, measured: Row) -> Difference | None:
    """Of a measured row from the stored one; None where either has no accuracy."""
    if stored.accuracy is None or measured.accuracy is None:
        return None
    known = None if measured.spread is None else 100 * measured.spread
    spreads = [spread for spread in (stored.spread, known) if spread is not None]
    spread = math.hypot(spreads[0], spreads[-1]) if spreads else 0.0  # one run varies as much as those of the other row
    return Difference(100 * measured.accuracy - stored.accuracy, WIDE * spread)


@cache
def stored_rows() -> Mapping[str, StoredRow]:
    """All rows that come with the package, by name."""
    tables = tomllib.loads((resources.files("fedballot") / "studies" / "rows.toml").read_text())
    return {name: StoredRow(name=name, **_texts(table)) for name, table in tables.items()}


def stored_row(name: str) -> StoredRow:
    """A row by name.

    Raises
    ------
    SettingsError
        If there is none, with the nearest name.
    """
    if name not in stored_rows():
        raise unknown_name("row", name, list(stored_rows()), "fedballot reproduce")
    return stored_rows()[name]


def check_seeds(seeds: int) -> None:
    """Refuse a number of runs that is none.

    Raises
    ------
    SettingsError
        With what is allowed.
    """
    if not is_whole(seeds) or seeds < 1:
        raise SettingsError(f"--seeds {seeds!r}: expected a whole number, at least 1")


def _texts(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table with its settings as the command line has them."""
    return {**table, "settings": {key: _text(value) for key, value in table.get("settings", {}).items()}}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

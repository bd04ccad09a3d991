"""Runs of a comparison that differ in their seed only, as one; and in which settings the others differ."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

from fedballot.core.numbers import percent, scalar
from fedballot.privacy.words import Tone

if TYPE_CHECKING:
    from fedballot.report.compare import Row

SEED, PRESET = "seed", "preset"
MISSING = "–"


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed only; a run that is not done stands alone.

    Attributes
    ----------
    number : int
        Place in the comparison, from 1; the mark in the plots.
    rows : tuple of Row
    differs : mapping
        Of the settings in which the runs of the comparison differ, this one's, as words; before them the preset, where
        the runs came from different ones.
    """

    number: int
    rows: tuple["Row", ...]
    differs: Mapping[str, str]

    @property
    def first(self) -> "Row":
        """One of its runs, for what they have in common."""
        return self.rows[0]

    @property
    def name(self) -> str:
        """The run's name; of several the first's and how many there are."""
        more = len(self.rows) - 1
        return self.first.name + (f" and {more} more" if more else "")

    @property
    def kind(self) -> str | None:
        """What its epsilon speaks of, where it protects anybody; runs of one kind can be ranked by it."""
        return self.first.meaning if self.protects else None

    @property
    def protects(self) -> bool:
        """Whether all its guarantees protect anybody."""
        return all(row.protects for row in self.rows)

    @property
    def tone(self) -> Tone:
        """The worst of its runs."""
        return max((row.tone for row in self.rows), key=("good", "warn", "bad").index)

    @property
    def epsilon(self) -> float | None:
        """The largest; None where one has no finite one."""
        values = [row.epsilon for row in self.rows]
        return max((one for one in values if one is not None), default=None) if None not in values else None

    @property
    def delta(self) -> float | None:
        """The largest; None where nothing is guaranteed that it could be added to."""
        if self.first.meaning is None or self.epsilon is None:
            return None
        return max((row.delta for row in self.rows if row.delta is not None), default=None)

    def over_seeds(self, measure: str) -> tuple[float | None, float | None]:
        """Mean and standard deviation of a measure over its runs; the latter needs two of them."""
        values = [value for row in self.rows if (value := getattr(row, measure)) is not None]
        return (fmean(values) if values else None), (pstdev(values) if len(values) > 1 else None)

    def written(self, measure: str) -> str:
        """A share as ``97.1 % ± 0.3``."""
        mean, spread = self.over_seeds(measure)
        return percent(mean) + ("" if spread is None else f" ± {100 * spread:.1f}")


@dataclass(frozen=True)
class Line:
    """Groups of one method that differ in one numeric setting, in its order."""

    setting: str
    groups: tuple[Group, ...]
    name: str

    @cached_property
    def values(self) -> tuple[float, ...]:
        """Of the setting."""
        return tuple(float(group.first.settings[self.setting]) for group in self.groups)


def groups_of(rows: Sequence["Row"]) -> tuple[Group, ...]:
    """Join runs that differ in their seed only, in the order of their first."""
    cells: dict[Any, list[Row]] = {}
    times: Counter[Any] = Counter()
    for row in rows:
        same = _identity(row, SEED) if row.status == "done" else row.number
        seed = (same, row.meaning, row.settings.get(SEED))
        times[seed] += 1  # the same run once more is no other seed
        cells.setdefault((same, row.meaning, times[seed]), []).append(row)
    names = differing([members[0] for members in cells.values()])
    presets = len({row.preset for row in rows}) > 1
    found = []
    for number, members in enumerate(cells.values(), 1):
        own = members[0].settings
        words = {name: scalar(own[name]) if name in own else MISSING for name in names}
        found.append(Group(number, tuple(members), {PRESET: _presets(members), **words} if presets else words))
    return tuple(found)


def _presets(rows: Sequence["Row"]) -> str:
    return ", ".join(dict.fromkeys(row.preset or MISSING for row in rows))


def differing(rows: Sequence["Row"]) -> list[str]:
    """Settings that differ between runs, those first that most runs have; defaults of one method alone do not count."""
    counts: dict[str, int] = {}
    for name in dict.fromkeys(name for row in rows for name in row.changed):
        values = [row.settings.get(name) for row in rows]
        if name != SEED and len({repr(value) for value in values}) > 1:
            counts[name] = sum(name in row.settings for row in rows)
    return sorted(counts, key=lambda name: -counts[name])


def lines_of(groups: Sequence[Group]) -> list[Line]:
    """For each setting that is a number, the groups that differ in it alone."""
    done = [group for group in groups if group.first.status == "done"]
    found = []
    for setting in dict.fromkeys(name for group in done for name in group.differs):
        parts: dict[Any, list[Group]] = {}
        for group in done:
            if _is_number(group.first.settings.get(setting)):
                parts.setdefault(_identity(group.first, SEED, setting), []).append(group)
        for members in parts.values():
            if len(members) > 1:
                ordered = sorted(members, key=_place(setting))
                others = {name: value for name, value in ordered[0].differs.items() if name not in (setting, PRESET)}
                words = [f"{name} {value}" for name, value in others.items()]
                known = [one for one in words if not one.endswith(MISSING)]
                found.append(Line(setting, tuple(ordered), ", ".join([ordered[0].first.method, *known])))
    return found


def _place(setting: str) -> Callable[[Group], float]:
    return lambda group: float(group.first.settings[setting])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _identity(row: "Row", *without: str) -> tuple[str, ...]:
    """Method and settings but for some; what is not changed is the same in all runs of a method."""
    return (row.method, *(f"{name}={row.settings[name]!r}" for name in sorted(row.changed) if name not in without))

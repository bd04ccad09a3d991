"""Limits of single settings: what a site accepts of what the server sets."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fedballot.core.errors import SettingsError, did_you_mean
from fedballot.core.setting import declaration, types_of
from fedballot.methods.registry import all_methods


@dataclass(frozen=True)
class Limit:
    """What a site accepts of one setting: numbers from ``low`` to ``high``, or one of ``values``."""

    low: float | None = None
    high: float | None = None
    values: tuple[Any, ...] = ()

    @classmethod
    def of(cls, accepted: Sequence[Any]) -> Limit:
        """The limit that a declaration or a site's file writes as (lowest, highest), or as all that is accepted."""
        if any(isinstance(one, bool | str) for one in accepted):
            return cls(values=tuple(accepted))
        low, high = accepted
        return cls(low, high)

    @property
    def words(self) -> str:
        """The limit, for people."""
        if self.low is not None and self.high is not None:
            return " to ".join(str(end) if isinstance(end, int) else f"{end:g}" for end in (self.low, self.high))
        first, *more = [_word(value) for value in self.values] or ["nothing"]
        return " or ".join([", ".join([first, *more[:-1]]), more[-1]]) if more else f"{first} only"

    def holds(self, value: Any) -> bool:
        """Whether a value lies within it; of several numbers, each."""
        if self.low is not None and isinstance(value, tuple):
            return all(self.holds(one) for one in value)
        if self.low is not None and self.high is not None:
            return isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high
        return value in self.values


def _word(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) or value is None else str(value) or "''"


def can_be_limited(field: dataclasses.Field[Any]) -> bool:
    """Whether a site's file can say what it accepts of a setting."""
    declared = declaration(field)
    return declared.reads == "client" and declared.kind != "extractor" and declared.site_limit != ()


def read_limits(path: Path, table: Any) -> dict[str, Limit]:
    """The table ``[allowed.settings]`` of a site's file: only what clients read from the server can be limited.

    Raises
    ------
    SettingsError
        Naming the file, the setting and what may stand there.
    """
    if not isinstance(table, Mapping):
        raise SettingsError(f"{path}: allowed.settings = {table!r} is not a table; expected [allowed.settings]")
    fields: dict[str, list[tuple[dataclasses.Field[Any], Any]]] = {}
    for method in all_methods().values():
        kinds = types_of(method.settings)
        for field in dataclasses.fields(method.settings):
            fields.setdefault(field.name, []).append((field, kinds[field.name]))
    limits = {}
    for name, value in table.items():
        if name not in fields:
            near = did_you_mean(name, fields)
            raise SettingsError(f"{path}: allowed.settings holds {name!r}{near}; `fedballot methods --settings METHOD`")
        kinds_of_it = [kind for field, kind in fields[name] if can_be_limited(field)]
        if not kinds_of_it:
            raise SettingsError(f"{path}: allowed.settings holds {name!r}, which {_no_limit(fields[name][0][0])}")
        limits[name] = _read_limit(f"{path}: allowed.settings.{name}", kinds_of_it, value)
    return limits


def _no_limit(field: dataclasses.Field[Any]) -> str:
    if declaration(field).reads != "client":
        return "no site takes from the server: leave it out"
    if declaration(field).kind == "extractor":
        return "allowed.extractors limits: list it there"
    return f"stays at {field.default!r} at every site: leave it out"


def _read_limit(where: str, kinds: Sequence[Any], value: Any) -> Limit:
    """The limit of a setting that methods declare as these types."""
    literals = [kind for kind in kinds if typing.get_origin(kind) is Literal]
    words = tuple(dict.fromkeys(word for kind in literals for word in typing.get_args(kind)))
    if kinds[0] in (int, float, tuple[float, ...]):
        good = (
            _all_of(value, int | float) and len(value) == 2 and all(map(math.isfinite, value)) and value[0] <= value[1]
        )
        wanted = "[lowest, highest], two finite numbers"
    elif kinds[0] is bool:
        good = isinstance(value, list) and bool(value) and all(isinstance(one, bool) for one in value)
        wanted = "a list of true, false or both"
    else:
        good = _all_of(value, str) and (not words or all(one in words for one in value))
        wanted = f"a list of some of {', '.join(words)}" if words else "a list of texts"
    if not good:
        raise SettingsError(f"{where} = {value!r}; expected {wanted}")
    return Limit.of(value)


def _all_of(value: Any, kind: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, kind) and not isinstance(one, bool) for one in value)
    )

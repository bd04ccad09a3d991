"""A setting is declared once: default, help, range, who reads it. From that come conversion, checks and every list.

A method's settings are a frozen dataclass of :func:`setting` fields that extends :class:`Settings`.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from fedballot.core.errors import SettingsError, did_you_mean
from fedballot.core.words import split_outside

S = TypeVar("S", bound="Settings")

Reads = Literal["client", "server", "machine", "site"]
Kind = Literal["", "extractor"]


@dataclass(frozen=True)
class Condition:
    """When a run reads a setting.

    Parameters
    ----------
    words
        It, after "read only if".
    holds
        The same of all settings of a run.
    """

    words: str
    holds: Callable[[Any], bool]


def where(name: str, *values: Any) -> Condition:
    """The condition that another setting has one of these values."""
    shown = " or ".join(f"{value:g}" if isinstance(value, float) else str(value).lower() for value in values)
    return Condition(f"{name}={shown}", lambda settings: getattr(settings, name) in values)


@dataclass(frozen=True)
class Declaration:
    """What is known of a setting besides its name, type and default.

    Parameters
    ----------
    help
        What it does, in a line.
    low, high, above, below
        Inclusive bounds, and exclusive ones. What words a setting may hold is its Literal type.
    infinite
        Whether infinity is allowed.
    reads
        Who reads it in a federation of sites. ``client``: clients act on what the server sets. ``server``: the server
        alone, or a simulation. ``machine``: each machine for itself, so that it may change when a run is resumed.
        ``site``: a site puts in what its own file says. What is not read from the server stands at its default at a
        site.
    site_limit
        Of a setting that clients read: what a site accepts if its file names no limit of its own. Numbers: (lowest,
        highest). Words and yes or no: those accepted. None: the default alone, unless the site's file names more.
        (): the default alone, whatever the file says.
    headline
        Whether it stands at the top of a run's report.
    kind
        ``extractor``: the name of a feature extractor. A site accepts those that its file lists.
    read_if
        When a run reads it, if that hangs on other settings.
    """

    help: str
    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    infinite: bool = False
    reads: Reads = "client"
    site_limit: tuple[Any, ...] | None = None
    headline: bool = False
    kind: Kind = ""
    read_if: Condition | None = None

    def bounds(self) -> list[tuple[Callable[[Any, Any], bool], str, float]]:
        """Each bound as a comparison, its words, and the number."""
        every: tuple[tuple[Callable[[Any, Any], bool], str, float | None], ...] = (
            (operator.ge, "at least", self.low),
            (operator.le, "at most", self.high),
            (operator.gt, "more than", self.above),
            (operator.lt, "less than", self.below),
        )
        return [(holds, words, bound) for holds, words, bound in every if bound is not None]


def setting(default: Any, help: str, **facts: Any) -> Any:
    """A dataclass field with its help text, and further facts: the parameters of :class:`Declaration`."""
    return dataclasses.field(default=default, metadata={"declaration": Declaration(help, **facts)})


def again(part: type[Settings], name: str, default: Any, **changes: Any) -> Any:
    """The field ``name`` of ``part`` with another default; help, range and all else stay, but for ``changes``.

    Examples
    --------
    >>> class MySettings(PrivacyTarget, CommonSettings):
    ...     epsilon: float = again(PrivacyTarget, "epsilon", 4.3)
    """
    declared = dataclasses.replace(declaration(part.__dataclass_fields__[name]), **changes)
    return dataclasses.field(default=default, metadata={"declaration": declared})


def declaration(field: dataclasses.Field[Any]) -> Declaration:
    """The declaration of a field that :func:`setting` or :func:`again` made."""
    declared: Declaration = field.metadata["declaration"]
    return declared


def meaning(declared: Declaration) -> str:
    """What a setting does, and when it is read, in a line."""
    return declared.help if declared.read_if is None else f"{declared.help}; read only if {declared.read_if.words}"


@dataclass(frozen=True)
class Settings:
    """What can be set; a part of a method's settings, or all of them."""

    def __post_init__(self) -> None:
        choices = choices_of(type(self))
        for field in dataclasses.fields(self):
            _check_limits(field, getattr(self, field.name), choices.get(field.name, ()))
        self.check()

    def check(self) -> None:
        """Refuse combinations that cannot work; parts and methods extend it."""

    def to_dict(self, *, machine: bool = True) -> dict[str, Any]:
        """Plain values for JSON; tuples become lists, infinities the word ``"inf"``.

        Parameters
        ----------
        machine
            Whether to hold what each machine reads for itself, too.
        """
        fields = (field for field in dataclasses.fields(self) if machine or declaration(field).reads != "machine")
        return {field.name: _plain(getattr(self, field.name)) for field in fields}

    def headline(self) -> list[str]:
        """Names of the settings for the top of a report: those declared so that have a value and are read."""
        names = (field.name for field in dataclasses.fields(self) if declaration(field).headline)
        left_out = self.unread()
        return [name for name in names if getattr(self, name) not in (None, "", 0, ()) and name not in left_out]

    def unread(self) -> dict[str, str]:
        """Names of the settings that a run with these values does not read, and what it would take, in words."""
        found = {}
        for field in dataclasses.fields(self):
            condition = declaration(field).read_if
            if condition is not None and not condition.holds(self):
                found[field.name] = condition.words
        return found

    def of_kind(self, kind: Kind) -> dict[str, str]:
        """Names and values of the settings of that kind that have one, as they are declared one after the other."""
        fields = [field for field in dataclasses.fields(self) if declaration(field).kind == kind]
        return {field.name: value for field in fields if (value := getattr(self, field.name)) or field.default}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    return value


def names_of(kind: type[Settings]) -> list[str]:
    """Names of all settings of a kind."""
    return [field.name for field in dataclasses.fields(kind)]


_TYPES: dict[type[Any], Mapping[str, Any]] = {}  # a site's file asks for those of all methods at each request


def types_of(kind: type[Any]) -> Mapping[str, Any]:
    """The types of a dataclass's fields, by name."""
    if kind not in _TYPES:
        _TYPES[kind] = types.MappingProxyType(typing.get_type_hints(kind))
    return _TYPES[kind]


def choices_of(kind: type[Settings]) -> dict[str, tuple[str, ...]]:
    """The words that each setting with a Literal type may hold, by name."""
    hints = types_of(kind).items()
    return {name: typing.get_args(hint) for name, hint in hints if typing.get_origin(hint) is Literal}


def words_of(kind: type[Settings], field: dataclasses.Field[Any]) -> tuple[str, str]:
    """The default of a setting, and what it may hold, in words."""
    allowed = [f"{words} {bound:g}" for _, words, bound in declaration(field).bounds()]
    if isinstance(field.default, bool):
        return str(field.default).lower(), "true, false"
    default = ",".join(map(str, field.default)) if isinstance(field.default, tuple) else str(field.default)
    return default, ", ".join(allowed or choices_of(kind).get(field.name, ()))


def _check_limits(field: dataclasses.Field[Any], value: Any, choices: tuple[str, ...]) -> None:
    if choices and value not in choices:
        raise SettingsError(
            f"{field.name}={value!r} is not one of {', '.join(choices)}{did_you_mean(str(value), choices)}"
        )
    if isinstance(value, tuple):
        for one in value:
            _check_limits(field, one, ())
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    declared = declaration(field)
    if math.isnan(value) or (math.isinf(value) and not declared.infinite):
        raise SettingsError(f"{field.name}={value} is not a finite number")
    for holds, words, bound in declared.bounds():
        if not holds(value, bound):
            raise SettingsError(f"{field.name}={value} is out of range: it must be {words} {bound:g}")


def unknown_name(kind: str, word: str, known: Sequence[str], listing: str) -> SettingsError:
    """The error for a name that does not exist: the nearest one, and the command that lists them all."""
    return SettingsError(f"unknown {kind} {word!r}{did_you_mean(word, known)}; `{listing}` lists them")


def _convert(name: str, hint: Any, value: Any) -> Any:
    """``value`` (a string, or a TOML or run-config value) as the type that the field declares."""
    if isinstance(hint, types.UnionType):  # `int | None`: the empty string and "none" mean None
        if value is None or (isinstance(value, str) and value.strip().lower() in ("", "none")):
            return None
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    text = value.strip() if isinstance(value, str) else value
    if typing.get_origin(hint) is Literal:
        hint = str
    try:
        if hint is bool:
            if isinstance(text, bool):
                return text
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[str(text).lower()]
        if hint is int and not isinstance(text, bool):
            number = float(text)
            if number.is_integer():
                return int(text) if isinstance(text, str | int) and "e" not in str(text).lower() else int(number)
        if hint is float and not isinstance(text, bool):
            return float(text)
        if hint is str and isinstance(text, str):
            return text
        if typing.get_origin(hint) is tuple:
            numbers = typing.get_args(hint)[0] is float
            if numbers and isinstance(text, int | float):  # one, as it stands in a file
                text = [text]
            if numbers and text == "":
                return ()
            parts = split_outside(text, ",") if isinstance(text, str) else list(text)
            words = tuple(str(part).strip() for part in parts)
            if numbers:
                return tuple(map(float, words))
            if words and all(words):
                return words
    except (ValueError, TypeError, KeyError, OverflowError):
        pass
    simple = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    listed = "numbers" if typing.get_args(hint)[:1] == (float,) else "names"
    wanted = simple.get(hint, f"{listed} separated by commas")
    raise SettingsError(f"{name}={value!r} is not {wanted}")


def build(kind: type[S], *layers: Mapping[str, Any]) -> S:
    """Settings from layers of plain values, later ones winning.

    Raises
    ------
    SettingsError
        For an unknown key (with the nearest known one), a value of the wrong type or out of range, or a combination
        that cannot work.
    """
    hints, names = types_of(kind), names_of(kind)
    values: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            name = key.replace("-", "_")
            if name not in names:
                raise unknown_name("setting", key, names, "fedballot methods --settings METHOD")
            values[name] = _convert(name, hints[name], value)
    return kind(**values)

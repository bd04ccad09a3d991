"""``schema.toml``: a contract as a file that people read and edit."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

from fedballot.core.errors import DataError, did_you_mean
from fedballot.core.files import with_home
from fedballot.datasets.schema.contract import MISSING, Column, Kind, Schema
from fedballot.datasets.schema.marks import MARKS
from fedballot.datasets.schema.texts import LONGEST
from fedballot.datasets.schema.words import listed

_HEAD = """\
# What the records of this federation are. Everybody has this file and the public data; a change is a change for all.
# kinds: number, category, boolean, date, text, image. docs/data.md says what each key does.
"""
_CHOICES = {"kind": get_args(Kind), "missing": ("fill", "refuse")}
_TOP = {"scale": ("standardise", "none"), "categories": ("one-hot", "ordinal")}


def to_toml(schema: Schema) -> str:
    """The contract as TOML; :func:`read_schema` reads it back, with the same digest."""
    lines = [_HEAD]
    if schema.columns:
        lines += [_pair("missing", schema.missing), _pair("scale", schema.scale)]
        lines += [_pair("categories", schema.categories)]
    if schema.image_size:
        lines.append(_pair("image_size", schema.image_size))
    if schema.channels:
        lines.append(_pair("channels", schema.channels))
    label = {"column": schema.label.name, "words": schema.label.words, "same": dict(schema.label.same)}
    lines += ["", "[label]", *(_pair(key, value) for key, value in label.items() if value not in ((), {}, ""))]
    for column in schema.columns:
        lines += ["", f"[columns.{_text(column.name)}]", *_column(column)]
    if schema.excluded:
        lines += ["", "[excluded]", *(_pair(_text(name), why) for name, why in schema.excluded)]
    return "\n".join(lines) + "\n"


def _column(column: Column) -> list[str]:
    values: dict[str, Any] = {"kind": column.kind}
    if column.kind == "number":
        values |= {"unit": column.unit, "mark": column.mark}
        if column.low is not None and column.high is not None:
            values["range"] = (column.low, column.high)
    values |= {
        "fills": column.fills,
        "words": column.words,
        "same": dict(column.same),
        "format": column.format,
        "bytes": column.bytes,
    }
    values = {key: value for key, value in values.items() if key == "unit" or value not in ((), {}, "", 0)}
    return [_pair(key, value) for key, value in {**values, "missing": column.missing}.items()]


def _pair(key: str, value: Any) -> str:
    return f"{key} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_text(key)} = {_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def read_schema(path: str | Path) -> Schema:
    """Read a contract.

    Raises
    ------
    DataError
        Not readable, not TOML, or an unknown, missing or wrong key: names the file, the key and what is expected.
    """
    path = with_home(str(path)).absolute()
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}; `fedballot data schema` writes one") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not valid TOML: {error}") from error
    return parse_schema(text, path)


def parse_schema(text: str, path: Path) -> Schema:
    """As :func:`read_schema`, from the text of a file."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path}: not valid TOML: {error}") from error
    return _schema(_Table(path, "", values))


class _Table:
    """A table of the file, which tells what is wrong with it."""

    def __init__(self, path: Path, prefix: str, values: Any) -> None:
        self.path, self.prefix = path, prefix
        if not isinstance(values, dict):
            raise DataError(f"{path}: {prefix[:-1]} = {values!r}; expected a table")
        self.values: dict[str, Any] = values

    def wrong(self, key: str, wanted: str) -> DataError:
        return DataError(f"{self.path}: {self.prefix}{key} = {self.values.get(key)!r}; expected {wanted}")

    def only(self, *keys: str) -> None:
        for key in self.values:
            if key not in keys:
                near = did_you_mean(key, keys)
                raise DataError(f"{self.path}: unknown key '{self.prefix}{key}'{near}. Allowed: {', '.join(keys)}")

    def table(self, key: str) -> _Table:
        return _Table(self.path, f"{self.prefix}{key}.", self.values.get(key, {}))

    def text(self, key: str, default: str = "", choices: tuple[str, ...] = ()) -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str) or (choices and value not in choices):
            raise self.wrong(key, f"one of {', '.join(choices)}" if choices else "a text")
        return value

    def texts(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        value = self.values.get(key, list(default))
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.wrong(key, 'a list of texts, such as ["no", "yes"]')
        if len(set(value)) < len(value):
            raise self.wrong(key, "each word once")
        return tuple(value)

    def numbers(self, key: str) -> tuple[float, ...]:
        value = self.values.get(key, [])
        good = isinstance(value, list) and all(isinstance(one, int | float) and math.isfinite(one) for one in value)
        if not good or any(isinstance(one, bool) for one in value):
            raise self.wrong(key, "a list of numbers")
        return tuple(float(one) for one in value)


def _schema(top: _Table) -> Schema:
    top.only("label", "columns", "excluded", "missing", "scale", "categories", "image_size", "channels")
    label = top.table("label")
    label.only("column", "words", "same")
    columns = top.table("columns")
    excluded = top.table("excluded")
    classes = _words(label, Column(label.text("column"), kind="category"))
    if len(classes.words) < 2:
        raise label.wrong("words", "at least two classes, in the order in which models number them")
    size, channels = top.values.get("image_size", []), top.values.get("channels", 0)
    if not isinstance(size, list) or len(size) not in (0, 2) or not all(type(one) is int and one > 0 for one in size):
        raise top.wrong("image_size", "[height, width] in pixels")
    if channels not in (0, 1, 3):
        raise top.wrong("channels", "1 (grey) or 3 (colour)")
    read = tuple(_read_column(columns.table(name), name) for name in columns.values)
    images = [column.name for column in read if column.kind == "image"]
    if images and len(read) > 1:
        raise DataError(f"{top.path}: columns.{images[0]} holds images and is not the only one; expected it alone")
    twice = {name for name in excluded.values if name in columns.values} | ({classes.name} & set(columns.values))
    if twice:
        raise DataError(f"{top.path}: {listed(sorted(twice))}: a feature and something else; expected one of them")
    return Schema(
        classes,
        read,
        tuple((name, excluded.text(name)) for name in excluded.values),
        top.texts("missing", MISSING),
        top.text("scale", "standardise", _TOP["scale"]),  # type: ignore[arg-type]
        top.text("categories", "one-hot", _TOP["categories"]),  # type: ignore[arg-type]
        tuple(size),
        channels,
    )


def _words(table: _Table, column: Column) -> Column:
    same = table.table("same")
    pairs = tuple((word, same.text(word)) for word in same.values)
    words = table.texts("words")
    for word, meant in pairs:
        if meant not in words or word in words:
            raise same.wrong(word, f"one of words ({listed(words)}), for a spelling that is none of them")
    return replace(column, words=words, same=pairs)


def _read_column(table: _Table, name: str) -> Column:
    table.only("range", *(field.name for field in fields(Column) if field.name not in ("name", "low", "high")))
    kind = table.text("kind", choices=_CHOICES["kind"])
    limits = table.numbers("range")
    if len(limits) not in (0, 2) or (limits and limits[0] > limits[1]):
        raise table.wrong("range", "[lowest, highest]")
    column = _words(table, Column(name, kind=kind))  # type: ignore[arg-type]
    if kind != "number" and "mark" in table.values:
        raise table.wrong("mark", "none: the column is no number")
    size = table.values.get("bytes", 0)
    if type(size) is not int or not 0 <= size <= LONGEST or (size and kind != "text"):
        raise table.wrong("bytes", f"of a text, a whole number up to {LONGEST}: how much of it is kept")
    if (kind == "category") != bool(column.words):
        raise table.wrong("words", "the words of a category, and of a category only")
    return replace(
        column,
        unit=table.text("unit"),
        bytes=size,
        mark=table.text("mark", choices=("", *MARKS)),
        low=limits[0] if limits else None,
        high=limits[1] if limits else None,
        fills=table.numbers("fills"),
        format=table.text("format"),
        missing=table.text("missing", "fill", _CHOICES["missing"]),  # type: ignore[arg-type]
    )

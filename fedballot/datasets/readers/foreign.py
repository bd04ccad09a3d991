"""Data sets that other packages know how to read.

A package adds one by an entry point of the group ``fedballot.readers``, see `fedballot.core.plugins`: a function
without arguments that returns a `Source`. Where the name begins with a dot, such as ``.arrow``, it is a kind of file:
a function that takes a path and returns a `Raw`.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedballot.core import plugins
from fedballot.core.errors import DataError, FedballotError
from fedballot.datasets.checks import check_lengths, checked_numbers, checked_x, label_texts
from fedballot.datasets.examples import Examples, Source
from fedballot.datasets.multilabel import checked_labels, is_multi_label
from fedballot.datasets.readers.raw import Raw

GROUP = "fedballot.readers"


def reader_of(suffix: str) -> Callable[[Path], Raw] | None:
    """What reads files of this kind, if a package adds that; the result is checked.

    Raises
    ------
    SettingsError
        If it cannot be imported, or two packages add one.
    """
    plugin = plugins.find(suffix, GROUP) if suffix else None
    if plugin is None:
        return None
    read = plugins.load(plugin.path, group=GROUP, kind=Callable)

    def checked(path: Path) -> Raw:
        raw = read(path)
        if not isinstance(raw, Raw):
            raise DataError(f"{path}: the reader {plugin.origin} gave a {type(raw).__name__}; expected a Raw")
        check_lengths(len(raw.x), len(raw.labels), str(path))
        return replace(raw, x=checked_x(raw.x, str(path)), labels=label_texts(raw.labels, f"{path}: labels"))

    return checked


def load_foreign(name: str) -> Source:
    """The data set of this name that a package adds, or the one at ``package.module:NAME``.

    Raises
    ------
    SettingsError
        If it cannot be imported.
    DataError
        If reading it fails, or what it gives is no `Source`.
    """
    ours: dict[str, Callable[[], object]] = {}
    read = plugins.get(name, ours, GROUP, Callable)
    try:
        source = read()
    except FedballotError:
        raise
    except Exception as error:  # foreign code: whatever it raises, the setting names it
        raise DataError(f"dataset: {name!r} cannot be read: {type(error).__name__}: {error}") from error
    if not isinstance(source, Source):
        raise DataError(f"dataset: {name!r} gave a {type(source).__name__}; expected a fedballot Source")
    return _checked(name, source)


def _checked(name: str, source: Source) -> Source:
    if len(source.classes) < 2:
        raise DataError(f"{name}: has the classes {source.classes}; expected at least two")
    train = _examples(name, "train", source.train, source)
    test = None if source.test is None else _examples(name, "test", source.test, source)
    origin = source.origin or frozenset({name})
    return replace(source, name=name, train=train, test=test, origin=origin)


def _examples(name: str, part: str, examples: Examples, source: Source) -> Examples:
    """Examples of the types that the rest relies on."""
    x = checked_x(examples.x, f"{name}: {part} x")
    where, y = f"{name}: {part} labels", np.asarray(examples.y)
    check_lengths(len(x), len(y), where)
    if is_multi_label(y) and y.shape[1] != len(source.classes):
        raise DataError(f"{where}: shape {y.shape}; expected a column for each of {len(source.classes)} classes")
    labels = checked_labels(y, where) if is_multi_label(y) else checked_numbers(y, len(source.classes), where)
    if examples.groups is None:
        return Examples(x, labels)
    check_lengths(len(x), len(examples.groups), f"{name}: {part} groups")
    return Examples(x, labels, checked_numbers(examples.groups, len(source.group_names), f"{name}: {part} groups"))

"""Doors for other packages: what they add has a name of theirs, or an import path ``package.module:NAME``.

A package adds names by entry points, in its ``pyproject.toml``::

    [project.entry-points."fedballot.partitions"]
    by-hospital = "their_package.partitions:by_hospital"

Looking a name up reads metadata only. Code is imported by :func:`load` alone, so whoever must allow a name first can.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from operator import attrgetter
from typing import Any, TypeVar

from fedballot.core.errors import SettingsError, did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class Plugin:
    """A name that an installed package adds, and where it comes from."""

    name: str
    path: str
    package: str
    version: str

    @property
    def origin(self) -> str:
        """For people, such as ``their_package 1.0 (their_package.partitions:by_hospital)``."""
        return f"{self.package} {self.version} ({self.path})"


def installed(group: str, builtin: Iterable[str] = ()) -> dict[str, Plugin]:
    """All names that packages add to a group, sorted.

    Raises
    ------
    SettingsError
        If two packages add the same name, or one adds a name of ``builtin``.
    """
    out: dict[str, Plugin] = {}
    for plugin in _plugins(group):
        if plugin.name in out:
            raise _taken_twice(group, plugin.name, out[plugin.name].origin, plugin.origin)
        if plugin.name in builtin:
            raise _taken_twice(group, plugin.name, "fedballot itself", plugin.origin)
        out[plugin.name] = plugin
    return out


def find(name: str, group: str) -> Plugin | None:
    """What a package adds to a group under this name, if one does; nothing is imported.

    Raises
    ------
    SettingsError
        If two packages add it.
    """
    matches = [plugin for plugin in _plugins(group) if plugin.name == name]
    if len(matches) > 1:
        raise _taken_twice(group, name, *(plugin.origin for plugin in matches))
    return matches[0] if matches else None


def check_name(name: str, builtin: Mapping[str, Any], group: str) -> None:
    """Refuse a name that is neither ours, nor an import path, nor one that a package adds; nothing is imported.

    Raises
    ------
    SettingsError
        With the nearest name, and all others.
    """
    if name in builtin or ":" in name or find(name, group):
        return
    names = [*builtin, *installed(group, builtin)]
    raise SettingsError(
        f"unknown {_word(group)} {name!r}{did_you_mean(name, names) or '.'} Known: {', '.join(names)}; or give "
        "'package.module:NAME'"
    )


def get(name: str, builtin: Mapping[str, T], group: str, kind: Any = object) -> T:
    """What has this name: ours, at an import path, or what a package adds.

    Raises
    ------
    SettingsError
        See :func:`check_name` and :func:`load`.
    """
    if name in builtin:
        return builtin[name]
    check_name(name, builtin, group)
    plugin = find(name, group)
    loaded: T = load(plugin.path if plugin else name, group=group, kind=kind)
    return loaded


def load(path: str, *, group: str, kind: Any = object) -> Any:
    """Import what stands at ``package.module:NAME``.

    Parameters
    ----------
    group
        Such as ``fedballot.partitions``; errors call what is looked for by it.
    kind
        The type that it must be of.

    Raises
    ------
    SettingsError
        If there is no such module or name, the module cannot be imported, or it is of another type.
    """
    what, (module_name, _, name) = f"{_word(group)} {path!r}", path.partition(":")
    if not all(part.isidentifier() for part in f"{module_name}.{name}".split(".")):
        raise SettingsError(f"{what} is no import path; expected 'package.module:NAME'")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise SettingsError(
                f"{what} cannot be imported: there is no module {error.name!r}; install its package, or put its "
                "folder on PYTHONPATH"
            ) from error
        more = ": pip install 'fedballot[torch]'" if error.name == "torch" else ""
        raise SettingsError(f"{what} cannot be imported: it needs {error.name!r}, which is missing{more}") from error
    except Exception as error:  # foreign code: whatever it raises, the setting names it
        raise SettingsError(f"{what} cannot be imported: {type(error).__name__}: {error}") from error
    try:
        target = attrgetter(name)(module)
    except AttributeError as error:
        near = did_you_mean(name, [word for word in vars(module) if not word.startswith("_")])
        raise SettingsError(f"{what} cannot be imported: module {module_name!r} has no {name!r}{near}") from error
    if not isinstance(target, kind):
        raise SettingsError(f"{what} is of type {type(target).__name__}; expected {kind.__name__}")
    return target


def _plugins(group: str) -> list[Plugin]:
    changed = []
    for path in sys.path:
        with suppress(OSError):  # a folder that is not there
            changed.append((path, os.stat(path or ".").st_mtime_ns))
    return list(_read(group, tuple(changed)))


@lru_cache(maxsize=64)  # each settings object asks, and 300 packages take 10 ms to read
def _read(group: str, _: tuple[tuple[str, int], ...]) -> list[Plugin]:
    """What packages add to a group, as long as nothing is installed or removed."""
    entries = (
        Plugin(entry.name, f"{entry.module}:{entry.attr}", entry.dist.name, entry.dist.version)
        for entry in entry_points(group=group)
        if entry.dist is not None
    )
    return sorted(set(entries), key=lambda plugin: (plugin.name, plugin.package, plugin.path))


def _word(group: str) -> str:
    return group.rpartition(".")[2].removesuffix("s")


def _taken_twice(group: str, name: str, *origins: str) -> SettingsError:
    return SettingsError(
        f"the {_word(group)} {name!r} is taken twice, by {' and by '.join(origins)}: uninstall one, or give its "
        "'package.module:NAME'"
    )

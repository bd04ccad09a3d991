"""The methods by name: those of this package, those that installed packages add, and any by import path.

A package adds its own by entry points, in its ``pyproject.toml``::

    [project.entry-points."fedballot.methods"]
    pate-noisy-max = "fedballot_noisy_max:METHOD"
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from importlib.metadata import entry_points

from fedballot.core import plugins
from fedballot.core.errors import SettingsError
from fedballot.core.setting import unknown_name
from fedballot.methods.api import Method
from fedballot.settings.parts import CommonSettings

FAMILIES = ("voting", "fedmd", "fedkd", "fedaux", "weights", "baselines", "poll")
GROUP = "fedballot.methods"


@lru_cache(maxsize=1)
def all_methods() -> dict[str, Method]:
    """All methods that have a name: our own, then those of other packages.

    Raises
    ------
    SettingsError
        If a package adds one under a name that is taken, or what is no method.
    """
    families = (importlib.import_module(f"fedballot.methods.{family}") for family in FAMILIES)
    out = {method.name: method for family in families for method in family.METHODS}
    for entry in entry_points(group=GROUP):
        method = load_method(entry.value)
        if entry.name != method.name or method.name in out:
            raise SettingsError(
                f"entry point {entry.name} = {entry.value!r} of {GROUP}: the method is called {method.name!r}, "
                + ("which is taken: give it another name" if method.name in out else "so name the entry point alike")
            )
        out[method.name] = method
    return out


def entry_paths() -> list[str]:
    """Import paths of the methods that installed packages add."""
    return [entry.value for entry in entry_points(group=GROUP)]


def load_method(path: str) -> Method:
    """The method at ``package.module:NAME``.

    Raises
    ------
    SettingsError
        If there is no such module or name, the module cannot be imported, or it is no :class:`Method`.
    """
    loaded: Method = plugins.load(path, group=GROUP, kind=Method)
    return loaded


def get_method(name: str) -> Method:
    """The method of that name, or at that import path (``package.module:NAME``).

    Raises
    ------
    SettingsError
        If there is none, with the nearest name.
    """
    if ":" in name:
        return load_method(name)
    methods = all_methods()
    if name not in methods:
        raise unknown_name("method", name, list(methods), "fedballot methods")
    return methods[name]


def settings_types(*more: Method) -> dict[str, type[CommonSettings]]:
    """The settings that each method takes, by its name; of ``more`` too, which may have come by an import path."""
    return {method.name: method.settings for method in (*all_methods().values(), *more)}

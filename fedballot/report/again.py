"""How a run is done again: what was set, and the command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from fedballot.core.errors import FedballotError
from fedballot.datasets.own import SITES


def changed_settings(result: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run that are not their defaults; all where its method is not installed here."""
    from fedballot.methods.registry import get_method

    settings = dict(result["settings"])
    try:
        usual = get_method(result["method"]).settings().to_dict()
    except FedballotError:
        return settings
    return {name: value for name, value in settings.items() if name not in usual or usual[name] != value}


def command(result: Mapping[str, Any]) -> str:
    """The command that runs the same settings, noise drawn anew; empty for a run of sites, whose data are theirs."""
    changed = changed_settings(result)
    if changed.get("dataset") == SITES:
        return ""
    words = ["fedballot", "run", str(result["method"])]
    for name, value in changed.items():
        text = ",".join(map(str, value)) if isinstance(value, list) else _word(value)
        words += ["--set", f"{name}={text}"]
    return shlex.join(words)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)

"""How a run is done again: what was set, and the command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedballot.core.errors import FedballotError
from fedballot.datasets.own import SITES
from fedballot.settings.layers import resolve

FOLLOWS = {"min_clients"}  # settings whose defaults are made of others

LIBRARIES = {  # what a result depends on most, as people write it
    "fedballot": "fedballot",
    "python": "Python",
    "flwr": "Flower",
    "numpy": "NumPy",
    "scikit-learn": "scikit-learn",
    "torch": "PyTorch",
}


def changed_settings(result: Mapping[str, Any], preset: str | None = None) -> dict[str, Any]:
    """The settings of a run that are not their defaults; all where its method is not installed here.

    What follows from the others, such as `min_clients` from `clients`, is left out.

    Parameters
    ----------
    preset : str, optional
        One whose values count as the defaults; see `preset_of`.
    """
    from fedballot.methods.registry import get_method, settings_types

    settings = dict(result["settings"])
    try:
        method = get_method(result["method"])
        kinds = settings_types(method)
        usual = resolve(method.name, kinds, preset=preset).to_dict()
    except FedballotError:
        return settings
    changed = {name: value for name, value in settings.items() if name not in usual or usual[name] != value}
    for name in FOLLOWS & {*changed}:
        others = {key: value for key, value in changed.items() if key != name}
        with suppress(FedballotError):
            if resolve(method.name, kinds, preset=preset, values=others).to_dict().get(name) == changed[name]:
                changed = others
    return changed


def preset_of(result: Mapping[str, Any]) -> str | None:
    """The preset that a run came from, where this version has it and its method still takes it."""
    from fedballot.methods.registry import get_method, settings_types

    preset = result.get("preset")
    try:
        method = get_method(result["method"])
        resolve(method.name, settings_types(method), preset=preset)
    except FedballotError:
        return None
    return preset


def command(result: Mapping[str, Any]) -> str:
    """The command that runs the same settings, noise drawn anew; empty for a run of sites, whose data are theirs.

    It names the run's preset, and then what differs from that as it is now.
    """
    if result["settings"].get("dataset") == SITES:
        return ""
    preset = preset_of(result)
    words = ["fedballot", "run", str(result["method"]), *(["--preset", preset] if preset else [])]
    for name, value in changed_settings(result, preset).items():
        text = ",".join(map(str, value)) if isinstance(value, list) else _word(value)
        words += ["--set", f"{name}={text}"]
    return shlex.join(words)


def made(result: Mapping[str, Any]) -> str:
    """Where and with which versions a run was made, in one line; empty where nobody wrote it down."""
    versions, place = result["versions"], result["made"]
    parts = [f"{LIBRARIES[name]} {versions[name]}" for name in LIBRARIES if name in versions]
    if place.get("system"):
        parts.append(f"{place['system']}, {place['cpus']} CPU{'' if place['cpus'] == 1 else 's'}")
    if commit := place.get("commit"):
        parts.append(f"commit {commit[:12]}" + (" with changes" if commit.endswith("+") else ""))
    return ", ".join(parts)


def study_command(
    words: Sequence[str],
    options: Mapping[str, str],
    preset: str | None,
    config: Path | None,
    settings: Mapping[str, str],
    folder: Path,
) -> str:
    """The command of a study, which goes on in its folder where it stopped."""
    given = {**options, "preset": preset, "config": None if config is None else str(config)}
    parts = ["fedballot", *words]
    for name, value in given.items():
        parts += [] if value is None else [f"--{name}", value]
    for name, value in settings.items():
        parts += ["--set", f"{name}={value}"]
    return shlex.join([*parts, "--out", str(folder)])


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
